package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// term is one term of this replica. Its loop owns everything in it: alarms,
// answers of the ledger and ends of runs reach it as functions that it calls
// one after the other.
type term struct {
	ctx      context.Context // ends with the term
	cut      context.CancelCauseFunc
	held     election.Term
	holder   jobs.Holder
	ledger   jobs.Ledger
	load     func(ctx context.Context, server string) (jobs.Snapshot, error)
	server   func() string // that answered the last look at the lease
	memory   *memory
	log      *zap.Logger
	trouble  *lease.Tasks
	dog      *watchdog
	next     nextTick
	skips    *skips
	timing   lease.Timing
	clock    *tickClock
	now      func() time.Time // by the clock that ticks are judged by
	newest   time.Time        // that the sweep has seen
	events   chan func()
	closed   chan struct{} // closed when the loop has ended
	wrote    *writer
	registry *registry
	helpers  sync.WaitGroup // they end with ctx, or soon after

	entries map[string]*entry
	order   []*entry   // as they were declared
	alarms  [][]*entry // by schedule
	timers  map[*time.Timer]struct{}

	most    int    // runs at a time; 0: any number
	running int    // rows in that phase
	ready   []*row // what waits for one of them to end, first come first served

	paused   bool // the whole group
	pauses   []jobs.Pause
	look     chan struct{} // asks the watch to read the ledger at once
	changes  uint64        // of the ledger when it was opened
	stopping bool
	pruning  bool
	pruned   int // the job that was pruned last
}

// newTerm prepares a term. It reads nothing yet.
func newTerm(ctx context.Context, held election.Term, s *Scheduler) *term {
	ctx, cut := context.WithCancelCause(ctx)
	t := &term{
		ctx: ctx, cut: cut, held: held, ledger: s.ledger, load: s.load, server: s.election.Server, memory: s.memory,
		holder:   jobs.Holder{Group: held.Group(), Owner: held.Owner(), Token: held.Token()},
		log:      s.log.With(zap.Uint64("token", held.Token())),
		trouble:  s.election.Trouble().Tasks(),
		dog:      newWatchdog(s.election.Timing().TTL, func() time.Time { return s.clock.own().Mono }),
		next:     nextTick{began: time.Now()},
		timing:   s.election.Timing(),
		events:   make(chan func()),
		closed:   make(chan struct{}),
		look:     make(chan struct{}, 1),
		entries:  map[string]*entry{},
		timers:   map[*time.Timer]struct{}{},
		most:     s.most,
		registry: &s.running,
		clock:    s.clock,
		now:      s.clock.now,
	}
	t.wrote, t.skips = newWriter(t), newSkips(t.log)
	for _, job := range s.jobs {
		e := newEntry(job)
		t.entries[job.Name] = e
		t.order = append(t.order, e)
	}
	return t
}

// open declares the jobs to the ledger and takes in what it knows: where each
// job's ticks go on, and what an earlier term has left. It tries until it
// succeeds or the term ends.
func (t *term) open() error {
	var snapshot jobs.Snapshot
	until, cancel := context.WithTimeoutCause(t.ctx, openMost, errNotOpened)
	defer cancel()
	err := t.wrote.retryLonger(until, "open the ledger", openMost/2, func(ctx context.Context) error {
		var err error
		if snapshot, err = t.load(ctx, t.server()); err != nil {
			return err
		}
		declared := t.declared(snapshot)
		if err = t.ledger.Declare(ctx, t.holder, declared); err != nil {
			return err
		}
		t.memory.opened(t.holder.Token, t.clock.own().Mono)
		if len(declared) > 0 {
			snapshot, err = t.load(ctx, t.server())
		}
		return err
	})
	if err != nil {
		return err
	}
	if snapshot, err = t.passOver(snapshot); err != nil {
		return err
	}
	groups := map[string]int{}
	for _, e := range t.order {
		e.known = snapshot.Jobs[e.job.Name]
		e.anchor = e.known.ScheduleSince
		e.known.ScheduleSince = t.clock.ours(e.known.ScheduleSince)
		e.known.Finished = t.clock.ours(e.known.Finished)
		e.settled = e.known.Cursor
		if now := t.now(); e.known.Finished.After(now) {
			e.finished(now) // the database's clock is ahead, or was
		}
		if now := t.now(); e.known.ScheduleSince.Sub(now) > t.clock.most {
			t.log.Warn("a schedule that would rule from the future on, written under a wrong clock, rules from now on",
				zap.String("job", e.job.Name), zap.Time("since", e.known.ScheduleSince))
			e.known.ScheduleSince = now
		}
		e.resolve(t.now())
		t.rest(e, e.locked(snapshot.Now))
		text := e.job.Schedule.String()
		if _, ok := e.job.Schedule.(jobs.Relative); ok {
			text += " of " + e.job.Name // its ticks are its own
		}
		i, ok := groups[text]
		if !ok {
			i = len(t.alarms)
			groups[text] = i
			t.alarms = append(t.alarms, nil)
		}
		t.alarms[i] = append(t.alarms[i], e)
	}
	for name := range snapshot.Jobs {
		if t.entries[name] == nil {
			t.log.Warn("the ledger knows a job that this program does not have: its ticks are left alone", zap.String("job", name))
		}
	}
	t.changes = snapshot.Changes
	t.apply(snapshot)
	return nil
}

// openMost is how long a term tries to open the ledger. Then it steps down: a
// replica that can run nothing must not keep the lease from one that can.
const openMost = 2 * time.Minute

var errNotOpened = fmt.Errorf("scheduler: the ledger could not be opened within %v", openMost)

// declared are those of the term's jobs that are not as the ledger has them. A
// ledger that has them in part, after an attempt that ran out of time, is told the
// rest.
//
// A changed schedule is in force from the end of the previous term, so that ticks
// in the gap between the two terms go through the misfire policy. A TTL is
// taken off, which is for schedules that [jobs.ParseSchedule] does not know:
// heartbeats do not wait for claims, so the claim of a tick that was due before
// the last one may never have arrived. Ticks that were claimed do not come again, because the
// cursor is behind them.
func (t *term) declared(was jobs.Snapshot) (declared []jobs.Declared) {
	previous, from := t.held.Previous(), time.Time{}
	switch was.Opened.Token {
	case 0, previous.Token:
		if !previous.RenewedAt.IsZero() {
			from = previous.RenewedAt.Add(-t.timing.TTL)
		}
	default:
		// Terms in between never fired anything. For the last term that did, the
		// ledger still knows when it began, but not when it ended.
		from = was.Opened.At
	}
	for _, e := range t.order {
		d := jobs.Declared{Name: e.job.Name, Schedule: e.job.Schedule.String(), From: from}
		known, ok := was.Jobs[d.Name]
		switch {
		case ok && known.Schedule != d.Schedule:
			d.From = t.notPast(known, from, was.Now)
		case known.ScheduleSince.After(was.Now) && !known.Cursor.IsZero() && isTick(e.job.Schedule, known):
			// The database's clock was set back. The ledger does not tell any more
			// when the schedule began, but it had begun by its newest tick.
			d.From = t.clock.theirs(known.Cursor)
		}
		if !ok || known.Schedule != d.Schedule || known.ScheduleSince.After(was.Now) {
			declared = append(declared, d)
		}
	}
	return declared
}

// isTick reports whether a job's newest tick is one of the schedule: after a change
// it may be one of the schedule before.
func isTick(s jobs.Schedule, known jobs.Known) bool {
	if r, ok := s.(jobs.Relative); ok {
		s = r.From(known)
	}
	return s.Next(known.Cursor.Add(-1)).Equal(known.Cursor)
}

// notPast is the instant from which a schedule that replaces the known one is in
// force: from, or right before the first tick of the known schedule that was due by
// then and has no row. There are such ticks when the last leader could not claim, drained, died as
// soon as it had declared its jobs, or when the job was paused. What the ledger has
// of the future was stamped before the database's clock was set back, and does not
// count.
func (t *term) notPast(known jobs.Known, from, now time.Time) time.Time {
	old, ok := jobs.ParseSchedule(known.Schedule)
	if !ok || from.IsZero() {
		return from
	}
	if from.After(now) {
		from = now
	}
	after := known.Cursor
	if !known.ScheduleSince.After(now) {
		after = later(after, t.clock.ours(known.ScheduleSince))
	}
	if after.IsZero() {
		return from
	}
	switch s := old.(type) {
	case jobs.FixedDelaySchedule:
		return from // its next tick is not known while a run goes on
	case jobs.Relative:
		old = s.From(known)
		if known.Cursor.Before(after) {
			after = after.Add(-1) // its first tick may be the very instant
		}
	}
	first := old.Next(after)
	if early := t.clock.ours(from).Sub(first); !first.IsZero() && early >= 0 {
		return from.Add(-early - time.Microsecond)
	}
	return from
}

// loop runs the term, until it has ended and nothing of it runs any more.
func (t *term) loop(clock *clock) {
	defer t.helpers.Wait()
	defer close(t.closed)
	defer t.stopTimers()
	pulse := t.dog.begin("the loop of the term")
	defer pulse.end()
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	ended := t.ctx.Done()
	now := time.Now()
	for _, e := range t.order {
		e.pruneAt = now.Add(rand.N(pruneAtLeast))
	}
	t.helpers.Go(func() { t.watch(t.changes) })
	t.sweep() // for ticks that became due while no replica led
	for {
		pulse.beat()
		t.wrote.flush()
		if t.stopping && t.running == 0 && t.wrote.idle() {
			t.skips.tell()
			return
		}
		select {
		case f := <-t.events:
			f()
		case <-sweep.C:
			t.sweep()
		case <-ended:
			ended = nil
			t.stop(clock)
		}
	}
}

// replaced ends the term early: its heartbeats may go on, but the ledger says
// that the group has a newer token, so it can start nothing.
func (t *term) replaced(err error) {
	if t.ctx.Err() == nil {
		t.log.Warn("the ledger refuses this term", zap.Error(err))
		t.cut(fmt.Errorf("%w: %w", election.ErrLost, err))
	}
}

// do makes the loop call f, unless the loop has ended.
func (t *term) do(f func()) {
	select {
	case t.events <- f:
	case <-t.closed:
	}
}

// after makes the loop call f after a while, unless the loop has ended by then.
func (t *term) after(wait time.Duration, f func()) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		t.do(func() {
			delete(t.timers, timer)
			f()
		})
	})
	t.timers[timer] = struct{}{}
}

func (t *term) stopTimers() {
	for timer := range t.timers {
		timer.Stop()
	}
}

// stop ends the term's ticks: nothing new is claimed or started.
func (t *term) stop(clock *clock) {
	t.stopping = true
	t.wrote.stop()
	t.helpers.Go(clock.stop) // it waits for alarms, which wait for this loop
	t.after(t.timing.Grace, t.nameLate)
}

// nameLate says which runs ignore that their context has ended.
func (t *term) nameLate() {
	for _, e := range t.order {
		for _, r := range e.rows {
			if r.run != nil {
				r.run.log.Error("a run ignores its context: this replica does not lead again while it runs",
					zap.Duration("running", time.Since(r.run.started)))
			}
		}
	}
}

// wake claims what is due of the entries. An alarm that is a hair early, by the
// wall clock that ticks are measured with, is put off until the tick.
func (t *term) wake(entries []*entry) {
	now := t.now()
	var early time.Duration
	for _, e := range entries {
		t.claimDue(e, now)
		if wait := e.next.Sub(now); !e.next.IsZero() && wait > 0 && (early == 0 || wait < early) {
			early = wait
		}
	}
	const hair = 100 * time.Millisecond
	if early > 0 && early < hair {
		t.after(early, func() { t.wake(entries) })
	}
}

// sweep finds what no alarm did: after a stepped clock, a paused process, or an
// alarm that was lost.
func (t *term) sweep() {
	now := t.now()
	if now.Before(t.newest.Add(-t.clock.most)) && t.ctx.Err() == nil {
		t.log.Warn("the clock that ticks are judged by was set back: the term ends, and the next one goes on from what the clock says now",
			zap.Time("was", t.newest), zap.Time("is", now))
		t.cut(errSetBack)
	}
	if now.After(t.newest) {
		t.newest = now
	}
	for _, e := range t.order {
		t.claimDue(e, now)
	}
	t.noteNext(now)
	t.skips.sweep()
	t.prune()
}

// errSetBack ends a term whose ticks were claimed too far in the future.
var errSetBack = errors.New("scheduler: the clock was set back")

var errTermOver = errors.New("the term is over")
