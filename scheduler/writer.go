package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
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

// writer writes to the ledger for a term: writes that arrive while statements are
// under way go into the next one. The term's loop owns it and calls its methods; its
// statements run beside the loop, and their answers come back through it.
type writer struct {
	t *term

	claims, moves *lane
	moveSince     time.Time // when the first of moves.fresh came

	// ctx outlives the term: the outcomes of its runs are still written.
	ctx context.Context
	cut context.CancelFunc
}

// write is what one job wants written: claims, or a move.
type write struct {
	job  string
	lone int // how often it failed alone

	entry  *entry
	claims []store.Claim

	move store.Move
	done func(bool)
}

func newWriter(t *term) *writer {
	w := &writer{t: t, claims: newLane("claim ticks", t.timing), moves: newLane("record runs", t.timing)}
	w.claims.cut, w.claims.call, w.claims.fail = w.cutClaims, w.sendClaims, w.failClaims
	w.moves.cut, w.moves.call, w.moves.fail = w.cutMoves, w.sendMoves, w.failMoves
	w.ctx, w.cut = context.WithCancel(context.WithoutCancel(t.ctx))
	return w
}

func (w *writer) claim(e *entry, claims []store.Claim) {
	w.claims.add(write{job: e.job.Name, entry: e, claims: claims})
}

// move calls done with whether the row was moved.
func (w *writer) move(m store.Move, done func(bool)) {
	if len(w.moves.fresh) == 0 {
		w.moveSince = time.Now()
	}
	w.moves.add(write{job: m.Job, move: m, done: done})
}

// idle reports whether nothing is left to write.
func (w *writer) idle() bool { return w.claims.idle() && w.moves.idle() }

// stop bounds the remaining work: statements are repeated for a while after the term,
// and then sent once. The next leader finds the rows as they are.
func (w *writer) stop() {
	time.AfterFunc(w.t.timing.Grace+w.t.timing.AttemptTimeout, func() {
		w.cut()
		w.t.do(func() {}) // and the loop flushes
	})
}

// until is the context of a statement.
func (w *writer) until() (context.Context, context.CancelFunc) {
	ctx := w.ctx
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, w.t.timing.AttemptTimeout)
}

// flush sends the gathered writes, as far as the limit of statements allows.
func (w *writer) flush() {
	if w.t.stopping {
		unsent := w.claims.fresh
		w.claims.fresh = nil
		w.failClaims(unsent, errTermOver)
	}
	w.send(w.claims, claimsAtOnce)
	w.send(w.moves, w.movesAtOnce())
}

// cutClaims cuts a batch from the new claims.
func (w *writer) cutClaims() *batch {
	l := w.claims
	n, rows := 0, 0
	for n < len(l.fresh) && (n == 0 || rows+len(l.fresh[n].claims) <= claimBatch) {
		rows += len(l.fresh[n].claims)
		n++
	}
	b := newBatch(l.fresh[:n:n])
	l.fresh = l.fresh[n:]
	return b
}

// cutMoves cuts a batch from the new moves.
func (w *writer) cutMoves() *batch {
	l := w.moves
	n := min(len(l.fresh), moveBatch)
	b := newBatch(l.fresh[:n:n])
	l.fresh, w.moveSince = l.fresh[n:], time.Now()
	return b
}

// sendClaims claims ticks. An unclear answer is asked again under the same id,
// until it is clear or the term is over.
func (w *writer) sendClaims(ctx context.Context, id store.ClaimID, part []write) (answer func(), err error) {
	var all []store.Claim
	for _, c := range part {
		all = append(all, c.claims...)
	}
	result, err := w.t.ledger.Claim(ctx, w.t.holder, id, all)
	return func() {
		for _, c := range part {
			n := len(c.claims)
			w.t.claimed(c.entry, c.claims, result[:n], nil)
			result = result[n:]
		}
	}, err
}

func (w *writer) failClaims(part []write, err error) {
	for _, c := range part {
		w.t.claimed(c.entry, c.claims, nil, err)
	}
}

func (w *writer) sendMoves(ctx context.Context, _ store.ClaimID, part []write) (answer func(), err error) {
	all := make([]store.Move, len(part))
	for i, m := range part {
		all[i] = m.move
	}
	done, err := w.t.ledger.Move(ctx, w.t.holder, all)
	return func() {
		for i, m := range part {
			m.done(done[i])
		}
	}, err
}

func (w *writer) failMoves(part []write, err error) {
	if !errors.Is(err, store.ErrReplaced) {
		w.t.log.Warn("outcomes could not be written: the next leader finds these runs interrupted", zap.Error(err), zap.Int("runs", len(part)))
	}
	for _, m := range part {
		m.done(false)
	}
}

// waits are those between statements that fail.
func waits(timing lease.Timing) *backoff.ExponentialBackOff {
	return retry.Forever(min(timing.AttemptTimeout/16, 50*time.Millisecond), min(timing.AttemptTimeout, time.Second))
}

// retry repeats a statement until its answer is clear: nil, or that the term
// is over. It ends with ctx.
func (w *writer) retry(ctx context.Context, what string, f func(context.Context) error) error {
	return w.retryLonger(ctx, what, w.t.timing.AttemptTimeout, f)
}

// retryLonger is retry for work whose size is not known. An attempt that runs out
// of time is followed by one with twice as much, up to most: heartbeats go on
// beside it, so that it need not fit into the time of a statement.
func (w *writer) retryLonger(ctx context.Context, what string, most time.Duration, f func(context.Context) error) error {
	timing := w.t.timing
	wait := waits(timing)
	pulse := w.t.dog.begin("a statement (" + what + ")")
	defer pulse.end()
	limit := timing.AttemptTimeout
	for {
		pulse.beatFor(limit - timing.AttemptTimeout)
		attempt, cancel := context.WithTimeout(ctx, limit)
		err := f(attempt)
		if attempt.Err() != nil {
			limit = min(2*limit, max(most, limit))
		}
		cancel()
		if err == nil || errors.Is(err, store.ErrReplaced) {
			w.t.trouble.Worked(what)
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
		w.t.trouble.Failed(what, err)
		pulse.beat() // the attempt may have taken nearly a TTL
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
	}
}

// movesAtOnce lets starts go first: while ticks are being claimed, the outcomes of
// other runs wait, though not for long.
func (w *writer) movesAtOnce() int {
	switch {
	case w.claims.sending == 0:
		return movesMost
	case time.Since(w.moveSince) < moveWait:
		return 0
	}
	return 1
}
