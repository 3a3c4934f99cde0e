package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// How the writer shares out its statements. A batch is large enough that the
// round trip does not count, and small enough that runs start while the next
// one is claimed; more connections than these would hold up heartbeats.
const (
	claimBatch   = 250
	claimsAtOnce = 3
	moveBatch    = 500
	movesMost    = 2
	moveWait     = 200 * time.Millisecond
)

// writer writes to the ledger for a term: what comes while statements are under
// way rides in the next one. The term's loop owns it and calls its methods; its
// statements run beside the loop, and their answers come back through it.
type writer struct {
	t *term

	claims, moves    []write
	claiming, moving int       // statements under way
	moveSince        time.Time // when the first of moves came

	// ctx outlives the term: what its runs have come to is still written.
	ctx context.Context
	cut context.CancelFunc
}

// write is what one job wants written: claims, or a move.
type write struct {
	entry  *entry
	claims []jobs.Claim

	move jobs.Move
	done func(bool)
}

func newWriter(t *term) *writer {
	w := &writer{t: t}
	w.ctx, w.cut = context.WithCancel(context.WithoutCancel(t.ctx))
	return w
}

func (w *writer) claim(e *entry, claims []jobs.Claim) {
	w.claims = append(w.claims, write{entry: e, claims: claims})
}

// move has done called with whether the row was moved.
func (w *writer) move(m jobs.Move, done func(bool)) {
	if len(w.moves) == 0 {
		w.moveSince = time.Now()
	}
	w.moves = append(w.moves, write{move: m, done: done})
}

// idle reports whether nothing is left to write.
func (w *writer) idle() bool { return w.claiming+w.moving+len(w.claims)+len(w.moves) == 0 }

// stop bounds what is left: statements are repeated for a while after the term,
// and then sent once. Whoever leads next finds the rows as they are.
func (w *writer) stop() {
	time.AfterFunc(w.t.timing.Grace+w.t.timing.AttemptTimeout, w.cut)
}

// until is the context of a statement and its repetitions.
func (w *writer) until() (context.Context, context.CancelFunc) {
	if w.ctx.Err() == nil {
		return w.ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(w.ctx), w.t.timing.AttemptTimeout)
}

// flush sends what has gathered, as far as statements may be under way.
func (w *writer) flush() {
	if w.t.stopping && len(w.claims) > 0 {
		for _, c := range w.claims { // none of them was sent
			w.t.claimed(c.entry, c.claims, nil, errTermOver)
		}
		w.claims = nil
	}
	for w.claiming < claimsAtOnce && len(w.claims) > 0 {
		n, rows := 0, 0
		for n < len(w.claims) && (n == 0 || rows+len(w.claims[n].claims) <= claimBatch) {
			rows += len(w.claims[n].claims)
			n++
		}
		batch := w.claims[:n:n]
		w.claims = w.claims[n:]
		w.claiming++
		go w.sendClaims(batch, rows)
	}
	for w.moving < w.movesAtOnce() && len(w.moves) > 0 {
		n := min(len(w.moves), moveBatch)
		batch := w.moves[:n:n]
		w.moves, w.moveSince = w.moves[n:], time.Now()
		w.moving++
		go w.sendMoves(batch)
	}
}

// sendClaims claims a batch. An unclear answer is asked again under the same
// id, until it is clear or the term is over.
func (w *writer) sendClaims(batch []write, rows int) {
	var id jobs.ClaimID
	_, _ = rand.Read(id[:]) // never fails
	all := make([]jobs.Claim, 0, rows)
	for _, c := range batch {
		all = append(all, c.claims...)
	}
	var result []jobs.Claimed
	until, cancel := w.until()
	defer cancel()
	err := w.retry(until, "claim ticks", func(ctx context.Context) error {
		var err error
		result, err = w.t.ledger.Claim(ctx, w.t.holder, id, all)
		return err
	})
	w.t.do(func() {
		w.claiming--
		if errors.Is(err, jobs.ErrReplaced) {
			w.t.replaced(err)
		}
		at := 0
		for _, c := range batch {
			var mine []jobs.Claimed
			if err == nil {
				mine = result[at : at+len(c.claims)]
				at += len(c.claims)
			}
			w.t.claimed(c.entry, c.claims, mine, err)
		}
	})
}

func (w *writer) sendMoves(batch []write) {
	all := make([]jobs.Move, len(batch))
	for i, m := range batch {
		all[i] = m.move
	}
	var done []bool
	until, cancel := w.until()
	defer cancel()
	err := w.retry(until, "record runs", func(ctx context.Context) error {
		var err error
		done, err = w.t.ledger.Move(ctx, w.t.holder, all)
		return err
	})
	w.t.do(func() {
		w.moving--
		switch {
		case errors.Is(err, jobs.ErrReplaced):
			w.t.replaced(err)
		case err != nil:
			w.t.log.Warn("outcomes could not be written: the next leader finds these runs interrupted", zap.Error(err), zap.Int("runs", len(batch)))
		}
		for i, m := range batch {
			m.done(err == nil && done[i])
		}
	})
}

// retry repeats a statement until its answer is clear: nil, or that the term
// is over. It ends with ctx.
func (w *writer) retry(ctx context.Context, what string, f func(context.Context) error) error {
	timing := w.t.timing
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(timing.AttemptTimeout/16, 50*time.Millisecond)),
		backoff.WithMaxInterval(min(timing.AttemptTimeout, time.Second)),
		backoff.WithMaxElapsedTime(0), // ctx ends it
	)
	for {
		attempt, cancel := context.WithTimeout(ctx, timing.AttemptTimeout)
		err := f(attempt)
		cancel()
		if err == nil || errors.Is(err, jobs.ErrReplaced) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
		next := wait.NextBackOff()
		w.t.log.Warn("cannot "+what, zap.Error(err), zap.Duration("retry", next))
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
	}
}

// movesAtOnce lets starts go first: while ticks are being claimed, what became of
// others waits, though not for long.
func (w *writer) movesAtOnce() int {
	switch {
	case w.claiming == 0:
		return movesMost
	case time.Since(w.moveSince) < moveWait:
		return 0
	}
	return 1
}
