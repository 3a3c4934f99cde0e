package scheduler

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// here runs the jobs that run everywhere, on this replica.
type here struct {
	s     *Scheduler
	runs  context.Context // of the runs: it goes on in the drain
	end   context.CancelCauseFunc
	loops sync.WaitGroup
	idle  chan struct{} // closed when all loops have ended

	mu       sync.Mutex
	draining bool
}

func newHere(s *Scheduler) *here {
	h := &here{s: s, idle: make(chan struct{})}
	h.runs, h.end = context.WithCancelCause(context.Background())
	return h
}

// cut ends what runs.
func (h *here) cut(cause error) { h.end(cause) }

// endDrain reports whether there was one.
func (h *here) endDrain() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.draining
	h.draining = false
	if was {
		h.end(election.ErrStopped)
	}
	return was
}

// run runs the jobs until ctx ends, and then waits for their runs: for the drain, and
// for a TTL when their contexts have ended.
func (h *here) run(ctx context.Context) error {
	all, before := map[string]*local{}, map[string]*local{}
	for ctx.Err() == nil && h.runs.Err() == nil {
		wanted := map[string]bool{}
		for _, d := range h.s.list.everywhere() {
			wanted[d.Name] = true
			l := all[d.Name]
			if l == nil {
				l = newLocal(ctx)
				l.declared.Store(d)
				all[d.Name] = l
				removed := before[d.Name]
				h.loops.Go(func() { h.loop(l, removed) })
			} else if l.declared.Swap(d) != d {
				l.changed.give()
			}
		}
		for name, l := range all {
			if !wanted[name] {
				l.stop() // a run goes on
				h.s.events.Emit(event.JobRemoved{Header: h.s.head(), Job: name, Everywhere: true})
				delete(all, name)
				before[name] = l
			}
		}
		select {
		case <-h.s.list.moved:
		case <-ctx.Done():
		case <-h.runs.Done():
		}
	}
	for _, l := range all {
		l.stop()
	}
	go func() {
		h.loops.Wait()
		close(h.idle)
	}()
	h.drain()
	h.end(election.ErrStopped)
	ttl := time.NewTimer(h.s.election.Timing().TTL)
	defer ttl.Stop()
	select {
	case <-h.idle:
		return nil
	case <-ttl.C:
		return fmt.Errorf("%w: a job that runs everywhere ignores its context", election.ErrStillLeading)
	}
}

// drain waits for what runs.
func (h *here) drain() {
	if h.s.drain == 0 || h.runs.Err() != nil {
		return
	}
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	timer := time.NewTimer(h.s.drain)
	defer timer.Stop()
	select {
	case <-h.idle:
	case <-h.runs.Done():
	case <-timer.C:
	}
	h.mu.Lock()
	h.draining = false
	h.mu.Unlock()
}

// local is a job that runs everywhere, on this replica.
type local struct {
	declared atomic.Pointer[declared]
	changed  signal
	starts   context.Context
	stop     context.CancelFunc
	over     chan struct{} // closed when its loop has ended
}

func newLocal(ctx context.Context) *local {
	l := &local{changed: make(chan struct{}, 1), over: make(chan struct{})}
	l.starts, l.stop = context.WithCancel(ctx)
	return l
}

// loop starts the runs of a job until it is stopped. It goes by the wall clock of this
// machine, and looks at it once a minute at least, since that can be set. A job of that
// name that was removed may still run: it does not overlap that either.
func (h *here) loop(l, removed *local) {
	defer close(l.over)
	if removed != nil {
		<-removed.over // also if this one is removed meanwhile, for whatever comes after it
	}
	if l.starts.Err() != nil {
		return
	}
	now := func() time.Time { return h.s.clock.Own().Wall.UTC().Truncate(time.Microsecond) }
	known := jobs.Known{}
	for {
		d, at := l.declared.Load(), now()
		if d.text != known.Schedule || at.Before(known.ScheduleSince) { // it is another one, or the clock was set back
			known = jobs.Known{Schedule: d.text, Since: at, ScheduleSince: at}
		}
		if at.Before(known.Cursor) {
			known.Cursor = at
		}
		p := plan.NewCursor(&d.Job, known)
		wait := time.Minute
		if !p.Next().IsZero() {
			wait = min(wait, p.Next().Add(d.Delay(h.s.group, p.Next())).Sub(at))
		}
		if wait <= 0 {
			h.attempts(l.starts, d, p.Next())
			known.Cursor, known.Finished = now(), now()
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.changed:
		case <-l.starts.Done():
		}
		timer.Stop()
		if l.starts.Err() != nil {
			return
		}
	}
}

// attempts are those of one tick. Once starts has ended, none begins.
func (h *here) attempts(starts context.Context, d *declared, tick time.Time) {
	s := h.s
	run := jobs.Run{Group: s.group, Job: d.Name, Tick: tick, Owner: s.Owner(), Attempt: 1}
	for ; starts.Err() == nil && h.runs.Err() == nil; run.Attempt++ {
		wait, again := d.Retry.After(run.Attempt)
		run.LastAttempt = !again
		a := &attempt{Run: run, started: time.Now()}
		end := a.bound(h.runs, d.Timeout)
		started := event.RunStarted{Header: s.head(), Key: run.Key(), Attempt: run.Attempt, Everywhere: true}
		if started.First = run.Attempt == 1; started.First {
			started.Late = max(0, s.clock.Own().Wall.Sub(tick))
		}
		s.events.Emit(started)
		s.running.add(a)
		err := a.call(d.Job, s.running.around, started)
		state, why := outcome(a.ctx, err)
		s.running.remove(a)
		end()
		again = again && plan.IsFailure(state) && !jobs.IsPermanent(err)
		e := event.RunFinished{
			Header: s.head(), Key: run.Key(), Attempt: run.Attempt, Everywhere: true, State: state, Err: err, Why: why, WillRetry: again,
		}
		if again {
			e.RetryIn = wait
		}
		a.finish(s.events, e)
		s.running.ends.Go(func() { a.tellEnd(nil, e, s.log) }) // the next attempt does not wait for it
		if !again {
			return
		}
		run.Previous = jobs.Previous{State: state, Error: why}
		_ = retry.Sleep(starts, wait) // the loop looks at starts
	}
}
