package scheduler

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// newTerm prepares a term. It reads nothing yet.
func newTerm(ctx context.Context, held election.Term, s *Scheduler, as role) *term {
	v := newEnv(ctx, held, s, as)
	t := &term{
		env:       v,
		reader:    newReader(v),
		followers: plan.NewFollowers(v.holder),
		skips:     skips{env: v, open: map[skipping]*skipped{}},
		janitor:   janitor{roster: s.roster},
		roll:      roll{list: s.list, entries: map[string]*entry{}, gone: map[string]bool{}},
		outcomes:  outcomes{of: map[string]*standing{}},
		timers:    map[*time.Timer]struct{}{},
		slots:     slots{most: s.most},
		every:     s.sweep,
	}
	if as == assigns {
		t.spread = newSpread(t)
	}
	t.wrote = newWriter(t)
	for _, job := range t.planned() {
		e := newEntry(t.holder.Group, job)
		t.roll.entries[job.Name] = e
		t.roll.order = append(t.roll.order, e)
	}
	t.knowFollowers()
	return t
}

// loop runs the term, until it has ended and nothing of it runs any more.
func (t *term) loop(a *alarms) {
	defer t.helpers.Wait()
	defer close(t.closed)
	defer t.stopTimers()
	pulse := t.dog.Begin("the loop of the term")
	defer pulse.End()
	sweep := time.NewTicker(t.every)
	defer sweep.Stop()
	ended, asked := t.ctx.Done(), t.drain.asked
	t.drain.looping.Store(true)
	t.alarms = a
	var crew signal
	if t.role == assigns {
		crew = t.spread.changed
	}
	changed, relist := t.roll.list.changed, t.relist
	if t.role == serves {
		changed, relist = t.roll.list.given, t.relistOwn
	}
	now := time.Now()
	for _, e := range t.roll.order {
		e.history = newHistory(now)
	}
	t.helpers.Go(t.reader.heed)
	t.helpers.Go(t.reader.run)
	t.countAll(t.roll.order...)
	t.sweep() // for ticks that became due while no replica led
	for {
		pulse.Beat()
		if !t.stage.ends() && t.drain.wanted() {
			t.beginDrain()
		}
		t.handOver()
		t.wrote.flush()
		if t.role == assigns {
			t.wakeReplicas()
		}
		if t.stage == stopped && t.slots.taken+t.slots.whole == 0 && t.outcomes.unwritten == 0 && t.wrote.idle() {
			t.skips.finish()
			t.wrote.tellUnwritten()
			return
		}
		if t.stage.ends() {
			t.checkDrain()
		}
		select {
		case f := <-t.inbox:
			f(t)
		case <-sweep.C:
			t.sweep()
		case <-crew:
			t.crewChanged()
		case <-changed:
			relist()
		case <-asked:
			asked = nil
		case <-ended:
			ended = nil
			t.stop()
		}
	}
}

// stop ends the term's ticks: nothing new is claimed or started.
func (t *term) stop() {
	t.stage = stopped
	t.wrote.stop()
	if a := t.alarms; a != nil {
		t.beside(func(*env) { a.stop() }) // it waits for alarms, which wait for this loop
	}
	t.after(t.timing.Grace, t.nameLate)
}

// nameLate says which runs ignore that their context has ended.
func (t *term) nameLate() {
	for _, e := range t.roll.entries {
		for _, r := range e.runs {
			if r.attempt != nil {
				t.runLog(r).Error("a run ignores its context: this replica does not lead again while it runs",
					zap.Duration("running", time.Since(r.attempt.started)))
			}
		}
	}
}

// sweep finds what no alarm did: after a stepped clock, a paused process, or an
// alarm that was lost. A session has no ticks.
func (t *term) sweep() {
	t.skips.sweep()
	if t.role == serves {
		return
	}
	now := t.now()
	if now.Before(t.newest.Add(-t.clock.Most)) && t.ctx.Err() == nil {
		t.log.Warn("the clock that ticks are judged by was set back: the term ends, and the next one goes on from what the clock says now",
			zap.Time("was", t.newest), zap.Time("is", now))
		t.cut(errSetBack)
	}
	if now.After(t.newest) {
		t.newest = now
	} else if t.newest.Sub(now) > plan.OnTime {
		t.tellAhead(now)
	}
	for _, e := range t.roll.order {
		t.claimDue(e, now)
	}
	if t.role == assigns {
		t.unstick()
	}
	t.noteNext(now)
	t.prune()
}

// noteNext notes the first tick of the jobs, after a sweep.
func (t *term) noteNext(now time.Time) {
	var first time.Time
	var job string
	for _, e := range t.roll.order {
		tick, asked := e.Asked()
		if !asked {
			if e.IsDeferred(now, t.roll.pauses) {
				continue
			}
			tick = e.Next()
		}
		if !tick.IsZero() && (first.IsZero() || tick.Before(first)) {
			first, job = tick, e.job.Name
		}
	}
	n := t.next
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tick, n.job, n.rejected = first, job, t.wrote.claims.Rejected(job)
}

// tellAhead says once that ticks later than now have run already, so that their jobs start none for a while: the
// clock that ticks are judged by was ahead.
func (t *term) tellAhead(now time.Time) {
	n, until := 0, t.waits
	for _, e := range t.roll.order {
		if e.Known().Cursor.Sub(now) > plan.OnTime {
			n++
			until = later(until, e.Known().Cursor)
		}
	}
	if until.After(t.waits) {
		t.waits = until
		t.log.Warn("the clock that ticks are judged by was ahead: ticks up to the instant have run, and their jobs start none before it",
			zap.Int("jobs", n), zap.Time("until", until))
	}
}

// errSetBack ends a term whose ticks were claimed too far in the future.
var errSetBack = errors.New("scheduler: the clock was set back")

var errTermOver = errors.New("the term is over")
