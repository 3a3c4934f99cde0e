package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/outbox"
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

// writer writes to the ledger for a term, but for what [declaring.welcome] writes before jobs are
// declared. Writes that arrive while statements are under way go into the next one. The term's loop owns the
// writer and calls its methods; its statements run beside the loop, and their answers come back through the loop.
// Its methods are in the order in which a write passes them: added, sent, answered, or repeated, as package
// outbox says.
type writer struct {
	t *term

	claims, moves *queue
	server        string    // whose ledger the term knows: see failover.go
	home          string    // its cluster, or the same
	moveSince     time.Time // when the first of the new moves came

	unwritten int   // runs whose outcomes could not be written, and of which nothing is said yet
	why       error // why the last of these could not

	// ctx outlives the term: the outcomes of its runs are still written.
	ctx context.Context
	cut context.CancelFunc
}

// queue has the writes of one kind, claims or moves.
type queue struct {
	*outbox.Outbox[write]
	what string
	// call sends a statement. The loop calls answer once it has succeeded, and
	// fail for writes that are not repeated any more.
	call func(v *env, ctx context.Context, h store.Holder, id store.ClaimID, part []write) (answer func(), err error)
	fail func(part []write, err error)
}

// write is what one job wants written: claims, or moves. Several moves go together until their
// statement has failed.
type write struct {
	job string

	claims   plan.Claims
	answered func(result []store.Claimed, err error) // of the claims

	moves []store.Move
	first int // the place of the first of them, if they are part of a write that was cut
	follow
}

// follow is how the author of claims or moves follows what becomes of them.
type follow struct {
	done func(x write, moved []bool) // moved is nil if it is not known
	// These may be nil. send comes before each statement, and may change what it writes. aside
	// comes when the write was set aside, maybe again. Its answer comes later.
	send  func(x write)
	aside func(x write)
}

// Name implements [outbox.Write].
func (x write) Name() string { return x.job }

// Rows implements [outbox.Write].
func (x write) Rows() int { return len(x.claims.Rows) + len(x.moves) }

// Cut implements [outbox.Write]: the claims of a job stay together.
func (x write) Cut() (parts []write) {
	if len(x.moves) <= 1 {
		return nil
	}
	size := (len(x.moves) + 3) / 4
	for moves := range slices.Chunk(x.moves, size) {
		part := x
		part.moves, part.first = moves, x.first+len(parts)*size
		parts = append(parts, part)
	}
	return parts
}

func newWriter(t *term) *writer {
	w := &writer{t: t}
	w.claims = &queue{outbox.New[write](claimBatch, waits(t.timing)), "claim ticks", (*env).sendClaims, w.failClaims}
	w.moves = &queue{outbox.New[write](moveBatch, waits(t.timing)), "record runs", (*env).sendMoves, w.failMoves}
	w.ctx, w.cut = context.WithCancel(context.WithoutCancel(t.ctx))
	return w
}

// claim calls answered with what stands for the claims, or with why the term is over.
func (w *writer) claim(job string, claims plan.Claims, f follow, answered func([]store.Claimed, error)) {
	w.claims.Add(write{job: job, claims: claims, answered: answered, follow: f})
}

// move calls done with whether the row was moved, and aside, unless it is nil, when it is set aside, maybe again.
func (w *writer) move(m store.Move, done func(bool), aside func()) {
	x := write{job: m.Job, moves: []store.Move{m}, follow: follow{done: func(_ write, moved []bool) { done(moved != nil && moved[0]) }}}
	if aside != nil {
		x.aside = func(write) { aside() }
	}
	w.together(x)
}

// together writes moves of one job in one statement, unless that fails.
func (w *writer) together(x write) {
	if len(w.moves.Fresh()) == 0 {
		w.moveSince = time.Now()
	}
	w.moves.Add(x)
}

// flush sends the gathered writes, as far as the limit of statements allows.
func (w *writer) flush() {
	if w.t.stage.ends() {
		w.failClaims(w.claims.TakeFresh(), errTermOver)
	}
	w.send(w.claims, claimsAtOnce)
	w.send(w.moves, w.movesAtOnce())
}

// movesAtOnce lets starts go first: while ticks are being claimed, the outcomes of
// other runs wait, though not for long.
func (w *writer) movesAtOnce() int {
	switch {
	case !w.claims.IsSending():
		return movesMost
	case time.Since(w.moveSince) < moveWait:
		return 0
	}
	return 1
}

// send sends what may be sent now, with at most so many statements under way.
func (w *writer) send(q *queue, most int) {
	if w.ctx.Err() != nil {
		q.GiveUp(func(writes []write, err error) { q.fail(writes, w.last(q, err)) })
	}
	now, fresh := time.Now(), len(q.Fresh())
	for b := q.Next(now, most); b != nil; b = q.Next(now, most) {
		w.sendPart(q, b)
	}
	if q == w.moves && len(q.Fresh()) < fresh {
		w.moveSince = now
	}
	if b := q.NextAside(now, w.t.stage == stopped); b != nil {
		w.sendPart(q, b)
	}
}

// writing is the holder for a queue's statements. Outcomes of runs hide nothing: after the end of the term they are written
// wherever their rows are.
func (w *writer) writing(q *queue) store.Holder {
	h := w.t.holder
	if q == w.claims || w.t.stage != stopped {
		h.Server = w.server
	}
	return h
}

// sendPart sends a statement, beside the loop.
func (w *writer) sendPart(q *queue, b *outbox.Batch[write]) {
	for _, x := range b.Part {
		if x.send != nil {
			x.send(x)
		}
	}
	v, part, id, h := w.t.env, b.Part, store.ClaimID(b.ID), w.writing(q)
	ctx, cancel := w.until()
	go func() {
		pulse := v.dog.Begin("a statement (" + q.what + ")")
		answer, err := q.call(v, ctx, h, id, part)
		cancel()
		pulse.End()
		v.do(func(t *term) {
			if err == nil && h.Server != "" && h.Server != t.wrote.server {
				err = store.ErrOtherServer // what that one has taken, the one that answers now may lack
			}
			w.sent(q, b, answer, err)
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

// sendClaims sends one statement that claims ticks. After an unclear answer the outbox repeats it, under
// the same id.
func (v *env) sendClaims(ctx context.Context, h store.Holder, id store.ClaimID, part []write) (answer func(), err error) {
	var all []store.Claim
	for _, c := range part {
		all = append(all, c.claims.Rows...)
	}
	var result []store.Claimed
	err = v.stream.Timed(v.head(), "claim", len(all), func() (err error) {
		result, err = v.db.Claim(ctx, h, id, all)
		return err
	})
	return func() {
		for _, c := range part {
			n := len(c.claims.Rows)
			c.answered(result[:n], nil)
			result = result[n:]
		}
	}, err
}

func (v *env) sendMoves(ctx context.Context, h store.Holder, _ store.ClaimID, part []write) (answer func(), err error) {
	var all []store.Move
	for _, m := range part {
		all = append(all, m.moves...)
	}
	var done []bool
	err = v.stream.Timed(v.head(), "move", len(all), func() (err error) {
		done, err = v.db.Move(ctx, h, all)
		return err
	})
	if err == nil && v.role == serves && slices.ContainsFunc(all, func(m store.Move) bool { return m.To != jobs.Running }) {
		go v.sessions.wakeLeader()
	}
	return func() {
		for _, m := range part {
			n := len(m.moves)
			m.done(m, done[:n:n])
			done = done[n:]
		}
	}, err
}

// sent takes in the result of a statement.
func (w *writer) sent(q *queue, b *outbox.Batch[write], answer func(), err error) {
	part := b.Part
	lastTry := b.IsAside() && w.t.stage == stopped && len(part[0].moves) <= 1
	switch {
	case err == nil:
		w.succeeded(q, b)
		answer()
	case errors.Is(err, store.ErrReplaced):
		w.t.trouble.Worked(q.what)
		w.t.replaced(err)
		q.Dropped(b)
		q.fail(part, err)
	case errors.Is(err, store.ErrOtherServer) && q == w.claims && w.t.stage == stopped:
		q.Dropped(b)
		q.fail(part, err)
	case w.ctx.Err() != nil, lastTry:
		q.Dropped(b)
		q.fail(part, w.last(q, err))
	default:
		w.failed(q, b, err)
	}
}

func (w *writer) succeeded(q *queue, b *outbox.Batch[write]) {
	job := b.Part[0].job
	if q.Succeeded(b, time.Now()) {
		w.t.log.Info("the database takes the rows of this job again", zap.String("task", q.what), zap.String("job", job))
	}
	if !b.IsAside() {
		w.t.trouble.Worked(q.what)
	}
}

// failed has the writes of a statement sent again.
func (w *writer) failed(q *queue, b *outbox.Batch[write], err error) {
	other := errors.Is(err, store.ErrOtherServer)
	if other {
		w.t.reader.soon() // which ends this: see failover.go
	}
	trouble := q.Failed(b, outbox.Failure{Err: err, NotReady: errors.Is(err, lease.ErrNotReady), Blameless: other}, time.Now())
	if trouble.Wait > 0 {
		w.t.after(trouble.Wait, func() {}) // the loop flushes
	}
	if trouble.Outage {
		w.t.trouble.Failed(q.what, err)
	}
	if !trouble.Aside {
		return
	}
	x := b.Part[0]
	if trouble.New {
		w.t.log.Error("the database does not take a row of this job: it is tried alone every second, and all other jobs go on",
			zap.String("task", q.what), zap.String("job", x.job), zap.Error(err))
	}
	if x.aside != nil {
		x.aside(x)
	}
}

// last is the error for writes that are not repeated any more.
func (w *writer) last(q *queue, err error) error {
	return fmt.Errorf("%s: %w", q.what, errors.Join(err, context.Cause(w.ctx)))
}

func (w *writer) failClaims(part []write, err error) {
	for _, c := range part {
		c.answered(nil, err)
	}
}

func (w *writer) failMoves(part []write, err error) {
	runs := 0
	for _, m := range part {
		runs += len(m.moves)
	}
	if !errors.Is(err, store.ErrReplaced) {
		if w.unwritten == 0 {
			w.t.after(time.Second, w.tellUnwritten) // one line of all statements that end together
		}
		w.unwritten, w.why = w.unwritten+runs, err
	}
	for _, m := range part {
		m.done(m, nil)
	}
}

// tellUnwritten tells of outcomes that could not be written.
func (w *writer) tellUnwritten() {
	if w.unwritten > 0 {
		w.t.log.Warn("outcomes could not be written: the next leader finds these runs interrupted", zap.Error(w.why), zap.Int("runs", w.unwritten))
	}
	w.unwritten = 0
}

// hurry has what has failed sent again at once.
func (w *writer) hurry() {
	w.claims.Hurry()
	w.moves.Hurry()
}

// idle reports whether nothing is left to write.
func (w *writer) idle() bool { return w.claims.IsIdle() && w.moves.IsIdle() }

// settled reports whether nothing is left to write but rows that are set aside, which
// are tried once more when the term has ended.
func (w *writer) settled() bool { return w.claims.IsSettled() && w.moves.IsSettled() }

// stop bounds the remaining work: statements are repeated for a while after the term,
// and then sent once. The next leader finds the rows as they are.
func (w *writer) stop() {
	time.AfterFunc(w.t.timing.Grace+w.t.timing.AttemptTimeout, func() {
		w.cut()
		w.t.do(func(*term) {}) // and the loop flushes
	})
}
