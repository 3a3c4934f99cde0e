package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
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

// asideEvery is how often a row that was set aside is tried again.
const asideEvery = time.Second

// notReadyFor is how long it is not the fault of a row that the database says it is not ready, though it takes others.
const notReadyFor = 10 * time.Second

// writer writes to the ledger for a term: writes that arrive while statements are
// under way go into the next one. The term's loop owns it and calls its methods; its
// statements run beside the loop, and their answers come back through it. Its
// methods are in the order in which a write passes them: added, cut into a batch,
// sent, answered, or repeated.
type writer struct {
	t *term

	claims, moves *lane
	server        string    // whose ledger the term knows: see failover.go
	moveSince     time.Time // when the first of moves.fresh came

	// ctx outlives the term: the outcomes of its runs are still written.
	ctx context.Context
	cut context.CancelFunc
}

// write is what one job wants written: claims, or moves. Several moves go together until their
// statement has failed.
type write struct {
	job  string
	lone int // how often it failed alone

	entry  *entry
	claims plan.Claims

	moves []store.Move
	first int // the place of the first of them, if they are part of a write that was cut
	follow
}

// follow is how the author of moves follows what becomes of them.
type follow struct {
	done func(x write, moved []bool) // moved is nil if it is not known
	// These may be nil. send comes before each statement, and may change the moves. aside
	// comes when a move was set aside, maybe again. Its done comes later.
	send  func(x write)
	aside func(x write)
}

func (x write) rows() int { return len(x.claims.Rows) + len(x.moves) }

// cut is a write of several moves in at most four parts.
func (x write) cut() (parts []write) {
	size := (len(x.moves) + 3) / 4
	for moves := range slices.Chunk(x.moves, size) {
		part := x
		part.moves, part.first = moves, x.first+len(parts)*size
		parts = append(parts, part)
	}
	return parts
}

// lane has the writer's writes of one kind, claims or moves. One row that
// the database refuses, or that another transaction keeps locked, fails the whole
// statement. So the writes of a statement that failed are sent again, a quarter
// at a time, until the row is alone. If it fails alone twice while others succeed,
// it is set aside: it is tried again by itself, beside the others. While nothing
// succeeds, as in an outage, nothing is set aside.
type lane struct {
	what  string
	fresh []write       // not sent yet
	cut   func() *batch // makes a batch of the first of fresh
	// call sends a statement. The loop calls answer once it has succeeded, and
	// fail for writes that are not repeated any more.
	call func(v *env, ctx context.Context, h store.Holder, id store.ClaimID, part []write) (answer func(*term), err error)
	fail func(part []write, err error)

	failed  []*batch // to be sent again
	aside   []*batch // of one write each
	sending int      // statements under way, without those of what is set aside
	apart   bool     // one of these is under way
	again   bool     // the turn of failed, and not of fresh

	wait   *backoff.ExponentialBackOff
	next   time.Time        // nothing is sent earlier, except what is set aside
	worked time.Time        // when a statement last succeeded
	broken map[string]error // why a job's row was set aside
}

// batch is a call of the ledger, which is repeated in parts after it has failed.
type batch struct {
	id     store.ClaimID // of all parts
	writes []write
	size   int       // how many of them the next statement takes at most
	most   int       // and any later one
	since  time.Time // when a statement first failed; zero: none has
	err    error     // of the last statement
	// ordered says that these are parts of one write: they stay in their order, unless one is
	// set aside.
	ordered bool
	// passed says that the second of them is sent ahead of the first, which has failed alone: if
	// it succeeds, the first is to blame. Perhaps nothing else in the group would tell.
	passed bool
	aside  bool
	next   time.Time // if aside: it is not sent earlier
}

func newWriter(t *term) *writer {
	w := &writer{t: t, claims: newLane("claim ticks", t.timing), moves: newLane("record runs", t.timing)}
	w.claims.cut, w.claims.call, w.claims.fail = w.cutClaims, (*env).sendClaims, w.failClaims
	w.moves.cut, w.moves.call, w.moves.fail = w.cutMoves, (*env).sendMoves, w.failMoves
	w.ctx, w.cut = context.WithCancel(context.WithoutCancel(t.ctx))
	return w
}

func newLane(what string, timing lease.Timing) *lane {
	return &lane{what: what, broken: map[string]error{}, wait: waits(timing)}
}

func newBatch(writes []write) *batch {
	return &batch{id: newClaimID(), writes: writes, size: len(writes), most: len(writes)}
}

func newClaimID() (id store.ClaimID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (w *writer) claim(e *entry, claims plan.Claims) {
	w.claims.add(write{job: e.job.Name, entry: e, claims: claims})
}

// move calls done with whether the row was moved.
func (w *writer) move(m store.Move, done func(bool)) {
	w.together(write{
		job: m.Job, moves: []store.Move{m}, follow: follow{done: func(_ write, moved []bool) { done(moved != nil && moved[0]) }},
	})
}

// together writes moves of one job in one statement, unless that fails.
func (w *writer) together(x write) {
	if len(w.moves.fresh) == 0 {
		w.moveSince = time.Now()
	}
	w.moves.add(x)
}

// add takes in a write. Those of a job that is set aside go there at once.
func (l *lane) add(x write) {
	if l.broken[x.job] == nil {
		l.fresh = append(l.fresh, x)
		return
	}
	b := newBatch([]write{x})
	b.aside = true
	l.aside = append(l.aside, b)
}

// flush sends the gathered writes, as far as the limit of statements allows.
func (w *writer) flush() {
	if w.t.stage >= draining {
		unsent := w.claims.fresh
		w.claims.fresh = nil
		w.failClaims(unsent, errTermOver)
	}
	w.send(w.claims, claimsAtOnce)
	w.send(w.moves, w.movesAtOnce())
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

// send sends what may be sent now, with at most so many statements under way.
func (w *writer) send(l *lane, most int) {
	if w.ctx.Err() != nil {
		w.giveUp(l)
	}
	now := time.Now()
	for l.sending < most && !l.next.After(now) {
		b := l.pick()
		if b == nil {
			break
		}
		l.sending++
		w.sendPart(l, b)
	}
	at := slices.IndexFunc(l.aside, func(b *batch) bool { return w.t.stage == stopped || !b.next.After(now) })
	if at >= 0 && !l.apart {
		b := l.aside[at]
		l.aside = slices.Delete(l.aside, at, at+1)
		l.apart = true
		w.sendPart(l, b)
	}
}

// pick returns the batch that is sent next; nil: none. New and failed ones take
// turns.
func (l *lane) pick() *batch {
	if len(l.fresh) > 0 && (len(l.failed) == 0 || !l.again) {
		l.again = true
		return l.cut()
	}
	if len(l.failed) == 0 {
		return nil
	}
	b := l.failed[0]
	l.again, l.failed = false, l.failed[1:]
	return b
}

// cutClaims cuts a batch from the new claims.
func (w *writer) cutClaims() *batch { return w.claims.cutRows(claimBatch) }

// cutMoves cuts a batch from the new moves.
func (w *writer) cutMoves() *batch {
	w.moveSince = time.Now()
	return w.moves.cutRows(moveBatch)
}

// cutRows cuts a batch of at most so many rows, and of at least one write.
func (l *lane) cutRows(most int) *batch {
	n, rows := 0, 0
	for n < len(l.fresh) && (n == 0 || rows+l.fresh[n].rows() <= most) {
		rows += l.fresh[n].rows()
		n++
	}
	b := newBatch(l.fresh[:n:n])
	l.fresh = l.fresh[n:]
	return b
}

// sendPart sends the first writes of a batch, beside the loop.
func (w *writer) sendPart(l *lane, b *batch) {
	n := min(b.size, len(b.writes))
	part := b.writes[:n:n]
	b.writes = b.writes[n:]
	for _, x := range part {
		if x.send != nil {
			x.send(x)
		}
	}
	v, call, what, id, h := w.t.env, l.call, l.what, b.id, w.writing(l)
	ctx, cancel := w.until()
	go func() {
		pulse := v.dog.begin("a statement (" + what + ")")
		answer, err := call(v, ctx, h, id, part)
		cancel()
		pulse.end()
		v.do(func(t *term) {
			if b.aside {
				l.apart = false
			} else {
				l.sending--
			}
			if err == nil && h.Server != "" && h.Server != t.wrote.server {
				err = store.ErrOtherServer // what that one has taken, the one that answers now may lack
			}
			w.sent(l, b, part, answer, err)
		})
	}()
}

// until is the context of a statement.
func (w *writer) until() (context.Context, context.CancelFunc) {
	ctx := w.ctx
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, w.t.timing.AttemptTimeout)
}

// sendClaims claims ticks. An unclear answer is asked again under the same id,
// until it is clear or the term is over.
func (v *env) sendClaims(ctx context.Context, h store.Holder, id store.ClaimID, part []write) (answer func(*term), err error) {
	var all []store.Claim
	for _, c := range part {
		all = append(all, c.claims.Rows...)
	}
	var result []store.Claimed
	err = v.stream.Timed(v.head(), "claim", len(all), func() (err error) {
		result, err = v.db.Claim(ctx, h, id, all)
		return err
	})
	return func(t *term) {
		for _, c := range part {
			n := len(c.claims.Rows)
			t.claimed(c.entry, c.claims, result[:n], nil)
			result = result[n:]
		}
	}, err
}

func (v *env) sendMoves(ctx context.Context, h store.Holder, _ store.ClaimID, part []write) (answer func(*term), err error) {
	var all []store.Move
	for _, m := range part {
		all = append(all, m.moves...)
	}
	var done []bool
	err = v.stream.Timed(v.head(), "move", len(all), func() (err error) {
		done, err = v.db.Move(ctx, h, all)
		return err
	})
	return func(*term) {
		for _, m := range part {
			n := len(m.moves)
			m.done(m, done[:n:n])
			done = done[n:]
		}
	}, err
}

// sent takes in the result of a statement.
func (w *writer) sent(l *lane, b *batch, part []write, answer func(*term), err error) {
	switch {
	case err == nil:
		w.succeeded(l, b, part)
		answer(w.t)
	case errors.Is(err, store.ErrReplaced):
		w.t.trouble.Worked(l.what)
		w.t.replaced(err)
		l.fail(part, err)
	case errors.Is(err, store.ErrOtherServer) && l == w.claims && w.t.stage == stopped:
		l.fail(part, err)
	case w.ctx.Err() != nil, b.aside && w.t.stage == stopped && len(part[0].moves) <= 1:
		l.fail(part, w.last(l, err))
	default:
		w.failed(l, b, part, err)
		return
	}
	if len(b.writes) > 0 {
		l.failed = append(l.failed, b)
	}
}

func (w *writer) succeeded(l *lane, b *batch, part []write) {
	if b.aside {
		job := part[0].job
		more := slices.ContainsFunc(l.aside, func(b *batch) bool { return b.writes[0].job == job })
		if l.broken[job] != nil && !more {
			delete(l.broken, job)
			w.t.log.Info("the database takes the rows of this job again", zap.String("task", l.what), zap.String("job", job))
		}
		return
	}
	b.size, b.passed = min(2*b.size, b.most), false
	l.worked, l.next = time.Now(), time.Time{}
	l.wait.Reset()
	w.t.trouble.Worked(l.what)
}

// failed queues the writes of a statement to be sent again: a quarter at a time,
// behind those of their batch that were not in it.
func (w *writer) failed(l *lane, b *batch, part []write, err error) {
	now := time.Now()
	if b.since.IsZero() {
		b.since = now
	}
	other := errors.Is(err, store.ErrOtherServer)
	if other {
		w.t.follower.soon() // which ends this: see failover.go
	}
	if len(part) == 1 && len(part[0].moves) > 1 { // one of them may be to blame
		if !b.aside && !b.ordered {
			if len(b.writes) > 0 {
				l.failed = append(l.failed, b)
			}
			b = newBatch(nil)
			b.since, b.ordered = now, true
		}
		part = part[0].cut()
	}
	at := len(b.writes)
	if b.ordered {
		at = 0
		if b.passed {
			at, b.passed = 1, false
		}
	}
	b.writes = slices.Insert(slices.Clip(b.writes), at, part...)
	b.err, b.size, b.most = err, max(1, len(part)/4), max(b.most, len(b.writes))
	if b.aside {
		w.failedAside(l, b)
		return
	}
	others := l.worked.After(b.since)
	if errors.Is(err, lease.ErrNotReady) && now.Sub(b.since) < notReadyFor {
		others = false // a server at the limit of its memory refuses some statements and takes others
	}
	if others = others && !other; !others {
		wait := l.wait.NextBackOff()
		l.next = now.Add(wait)
		w.t.after(wait, func() {})
		if !other {
			w.t.trouble.Failed(l.what, err)
		}
	} else {
		b.most = b.size // one of its rows is to blame, and there is nothing to wait for
	}
	if len(part) == 1 && !other {
		b.writes[at].lone++
	}
	if len(part) == 1 && b.writes[at].lone > 1 && others {
		w.setAside(l, &batch{id: b.id, writes: b.writes[at : at+1 : at+1], size: 1, since: b.since, err: err, aside: true})
		b.writes = slices.Concat(b.writes[:at], b.writes[at+1:])
	} else if b.ordered && at == 0 && b.writes[0].lone > 1 && len(b.writes) > 1 {
		b.writes[0], b.writes[1] = b.writes[1], b.writes[0]
		b.passed = true
	}
	if len(b.writes) > 0 {
		l.failed = append(l.failed, b)
	}
}

// hurry has what has failed sent again at once.
func (w *writer) hurry() {
	for _, l := range []*lane{w.claims, w.moves} {
		l.next = time.Time{}
		l.wait.Reset()
		for _, b := range l.aside {
			b.next = time.Time{}
		}
	}
}

// failedAside queues what was set aside and has failed: a row for later, and the parts of a
// write of several to be sent at once, in their order.
func (w *writer) failedAside(l *lane, b *batch) {
	if len(b.writes) == 1 {
		w.putAside(l, b)
		return
	}
	l.broken[b.writes[0].job] = b.err
	for i, x := range b.writes {
		l.aside = slices.Insert(l.aside, i, &batch{id: b.id, writes: []write{x}, size: 1, since: b.since, err: b.err, aside: true})
	}
}

func (w *writer) setAside(l *lane, b *batch) {
	w.t.log.Error("the database does not take a row of this job: it is tried alone every second, and all other jobs go on",
		zap.String("task", l.what), zap.String("job", b.writes[0].job), zap.Error(b.err))
	w.putAside(l, b)
}

// putAside queues a write whose row failed alone, for later.
func (w *writer) putAside(l *lane, b *batch) {
	x := b.writes[0]
	l.broken[x.job] = b.err
	b.next = time.Now().Add(asideEvery)
	l.aside = append(l.aside, b)
	w.t.after(asideEvery, func() {})
	if x.aside != nil {
		x.aside(x)
	}
}

// giveUp answers failed writes that are not repeated any more.
func (w *writer) giveUp(l *lane) {
	all := slices.Concat(l.failed, l.aside)
	l.failed, l.aside = nil, nil
	for _, b := range all {
		l.fail(b.writes, w.last(l, b.err))
	}
}

// last is the error for writes that are not repeated any more.
func (w *writer) last(l *lane, err error) error {
	return fmt.Errorf("%s: %w", l.what, errors.Join(err, context.Cause(w.ctx)))
}

func (w *writer) failClaims(part []write, err error) {
	for _, c := range part {
		w.t.claimed(c.entry, c.claims, nil, err)
	}
}

func (w *writer) failMoves(part []write, err error) {
	runs := 0
	for _, m := range part {
		runs += len(m.moves)
	}
	if !errors.Is(err, store.ErrReplaced) {
		w.t.log.Warn("outcomes could not be written: the next leader finds these runs interrupted", zap.Error(err), zap.Int("runs", runs))
	}
	for _, m := range part {
		m.done(m, nil)
	}
}

// idle reports whether nothing is left to write.
func (w *writer) idle() bool { return w.claims.idle() && w.moves.idle() }

// settled reports whether nothing is left to write but rows that are set aside, which
// are tried once more when the term has ended.
func (w *writer) settled() bool {
	return len(w.claims.fresh)+len(w.claims.failed)+w.claims.sending+len(w.moves.fresh)+len(w.moves.failed)+w.moves.sending == 0
}

func (l *lane) idle() bool {
	return l.sending+len(l.fresh)+len(l.failed)+len(l.aside) == 0 && !l.apart
}

// stop bounds the remaining work: statements are repeated for a while after the term,
// and then sent once. The next leader finds the rows as they are.
func (w *writer) stop() {
	time.AfterFunc(w.t.timing.Grace+w.t.timing.AttemptTimeout, func() {
		w.cut()
		w.t.do(func(*term) {}) // and the loop flushes
	})
}
