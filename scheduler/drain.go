package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/settings"
)

// WithDrain lets running runs finish when this replica leaves by its own wish: when
// the context of [Scheduler.Run] ends, and when it resigns or is asked to. Nothing new
// is claimed or started then, retries included, and what runs goes on for up to d,
// while the replica keeps its lease. Then its context ends, as it does at once without
// a drain. As soon as nothing runs, the lease is released. A lost lease, disagreeing
// clocks and a part that is stuck leave no time for that. Default: zero.
//
// In a group that is spread ([WithSpread]), no other job waits for that. Otherwise the group's other jobs wait for the
// next leader meanwhile, and their ticks go through the misfire policy. They cannot move earlier: what bounds a run is
// its term, whose token becomes stale when another replica leads. Its fenced transactions would then be refused, and
// nothing would keep it from running beside its own next tick. So choose d as long as most runs take, give jobs a
// Timeout, and those that take longer than the others can wait a group of their own.
func WithDrain(d time.Duration) Option { return func(s *settings.Scheduler) { s.Drain = d } }

// leave is called when this replica wants to end its term, and returns when the term
// may end. The loop may be blocked in the log meanwhile.
func (s *Scheduler) leave(ctx context.Context, why error) {
	s.leaveTerm(ctx, s.current.Load(), why)
}

// leaveTerm is leave for one term of this replica, as the leader or of its session.
func (s *Scheduler) leaveTerm(ctx context.Context, v *env, why error) {
	if s.drain == 0 || v == nil || !v.drain.begin(why, s.drain) {
		return // nothing of the term runs yet
	}
	timer := time.NewTimer(s.drain)
	defer timer.Stop()
	select {
	case <-v.drain.idle:
	case <-v.drain.ended:
	case <-timer.C:
	case <-v.ctx.Done():
	case <-ctx.Done():
	}
}

// drain is how a term waits for its runs before it ends.
type drain struct {
	asked chan struct{} // closed when the replica wants to leave
	idle  chan struct{} // closed by the term's loop once nothing runs
	ended chan struct{} // closed to wait no longer

	looping atomic.Bool // the term's loop has begun

	mu    sync.Mutex
	why   error
	until time.Time
	over  bool // ended is closed
}

func newDrain() *drain {
	return &drain{asked: make(chan struct{}), idle: make(chan struct{}), ended: make(chan struct{})}
}

// begin asks the loop to start nothing new. False: it has not begun.
func (d *drain) begin(why error, most time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why, d.until = why, time.Now().Add(most)
	close(d.asked)
	return d.looping.Load()
}

// end reports whether this call has ended it.
func (d *drain) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return false
	}
	d.over = true
	close(d.ended)
	return true
}

// wanted reports whether the replica wants to leave.
func (d *drain) wanted() bool {
	select {
	case <-d.asked:
		return true
	default:
		return false
	}
}

// beginDrain has the term start nothing new, and wait for what runs.
func (t *term) beginDrain() {
	t.stage = draining
	if t.slots.taken > 0 {
		t.beside((*env).tellDrain)
	}
}

// checkDrain lets the term end once nothing runs and the outcomes are written.
func (t *term) checkDrain() {
	if t.slots.taken > 0 || t.outcomes.unwritten > 0 || !t.wrote.settled() {
		return
	}
	select {
	case <-t.drain.idle:
	default:
		close(t.drain.idle)
	}
}

// handOver ends the term of a leader of another mode, once no run goes on.
func (t *term) handOver() {
	if t.stage != gathering || t.slots.taken > 0 || t.role == assigns && t.spread.isAway() {
		return
	}
	t.stage = draining
	t.beside(func(v *env) { _ = v.mode.resign(v.ctx) })
}

// tellDrain says what the term waits for: at the beginning, once a minute, and at the
// end. It is no part of the loop, which a blocked log would stop.
func (v *env) tellDrain() {
	began := time.Now()
	v.drain.mu.Lock()
	why, until := v.drain.why, v.drain.until
	v.drain.mu.Unlock()
	marked := v.markLeaving()
	runs := v.registry.list()
	v.log.Info("leaving: nothing new is started, and what runs may finish",
		zap.NamedError("why", why), zap.Duration("at_most", time.Until(until).Round(time.Second)), zap.Int("runs", len(runs)), waitsFor(runs))
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-minute.C:
			marked = marked || v.markLeaving()
			runs := v.registry.list()
			v.log.Info("leaving: runs have not finished yet", zap.Duration("at_most", time.Until(until).Round(time.Second)), zap.Int("runs", len(runs)), waitsFor(runs))
		case <-v.ctx.Done():
			ended := v.log.With(zap.NamedError("cause", context.Cause(v.ctx)), zap.Duration("after", time.Since(began)))
			if runs := v.registry.list(); len(runs) > 0 {
				ended.Warn("left: runs that have not finished are cancelled", zap.Int("runs", len(runs)), waitsFor(runs))
			} else {
				ended.Info("left: every run has finished")
			}
			return
		}
	}
}

// markLeaving has the lease row say that this leader is to step down, for those who
// look at the database and find ticks that are due: see [election.Leadership]. It
// reports whether the row says so.
func (v *env) markLeaving() bool {
	select {
	case <-keeper.HeldOf(v.ctx).ResignAsked():
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(v.ctx, v.timing.AttemptTimeout)
	defer cancel()
	return v.db.AskResign(acting(ctx, v.holder.Owner), v.holder.Fence(), v.holder.Token) == nil
}

// waitsFor is what a line about a drain says of the runs.
func waitsFor(runs []Running) zap.Field {
	const most = 20
	var first []unfinished
	for _, r := range runs[:min(len(runs), most)] {
		first = append(first, unfinished{r, time.Since(r.Started)})
	}
	return zap.Objects("waits_for", first)
}

// unfinished is a run in such a line.
type unfinished struct {
	Running
	since time.Duration
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (r unfinished) MarshalLogObject(o zapcore.ObjectEncoder) error {
	o.AddString("job", r.Job)
	o.AddTime("tick", r.Tick)
	o.AddInt("attempt", r.Attempt)
	o.AddDuration("running", r.since.Round(time.Millisecond))
	return nil
}
