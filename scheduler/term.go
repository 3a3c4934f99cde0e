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
	log      *zap.Logger
	timing   lease.Timing
	now      func() time.Time // by the wall clock, which ticks are measured with
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

	paused   bool   // the whole group
	changes  uint64 // of the ledger when it was opened
	stopping bool
	pruning  bool
	pruned   int // the job that was pruned last
}

// newTerm prepares a term. It reads nothing yet.
func newTerm(ctx context.Context, held election.Term, s *Scheduler) *term {
	ctx, cut := context.WithCancelCause(ctx)
	t := &term{
		ctx: ctx, cut: cut, held: held, ledger: s.ledger,
		holder:   jobs.Holder{Group: held.Group(), Owner: held.Owner(), Token: held.Token()},
		log:      s.log.With(zap.Uint64("token", held.Token())),
		timing:   s.election.Timing(),
		events:   make(chan func()),
		closed:   make(chan struct{}),
		entries:  map[string]*entry{},
		timers:   map[*time.Timer]struct{}{},
		most:     s.most,
		registry: &s.running,
		now:      func() time.Time { return s.now().Wall },
	}
	t.wrote = newWriter(t)
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
	declared := make([]jobs.Declared, len(t.order))
	for i, e := range t.order {
		declared[i] = jobs.Declared{Name: e.job.Name, Schedule: e.job.Schedule.String()}
	}
	var snapshot jobs.Snapshot
	err := t.wrote.retry(t.ctx, "open the ledger", func(ctx context.Context) error {
		if err := t.ledger.Declare(ctx, t.holder, declared); err != nil {
			return err
		}
		var err error
		snapshot, err = t.ledger.Load(ctx, t.holder.Group)
		return err
	})
	if err != nil {
		return err
	}
	groups := map[string]int{}
	for _, e := range t.order {
		e.known = snapshot.Jobs[e.job.Name]
		if now := t.now(); e.known.Finished.After(now) {
			e.finished(now) // the database's clock is ahead, or was
		}
		e.lined = e.known.Cursor // what an earlier term left waiting was missed
		e.resolve()
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

// loop runs the term, until it has ended and nothing of it runs any more.
func (t *term) loop(clock *clock) {
	defer t.helpers.Wait()
	defer close(t.closed)
	defer t.stopTimers()
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	ended := t.ctx.Done()
	now := time.Now()
	for _, e := range t.order {
		e.pruneAt = now.Add(rand.N(pruneAtLeast))
	}
	t.helpers.Go(func() { t.watch(t.changes) })
	t.sweep() // what became due while nobody led
	for {
		t.wrote.flush()
		if t.stopping && t.running == 0 && t.wrote.idle() {
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

// do has the loop call f, unless it has ended.
func (t *term) do(f func()) {
	select {
	case t.events <- f:
	case <-t.closed:
	}
}

// after has the loop call f after a while, unless it has ended by then.
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
	for _, e := range t.order {
		t.claimDue(e, now)
	}
	t.prune()
}

var errTermOver = errors.New("the term is over")
