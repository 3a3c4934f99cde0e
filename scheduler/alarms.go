package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// alarms is a term's gocron scheduler: an alarm clock that wakes the term when a
// schedule may have a tick. The term itself decides what is due and may run, so
// that a late, lost or repeated wake delays a tick by a sweep at most and never
// loses one.
//
// Each term has a fresh one: a gocron scheduler that was stopped and started
// again delivers stale ticks, and a job whose context ended never fires again.
type alarms struct {
	gocron gocron.Scheduler
	log    *zap.Logger
	ahead  func() time.Duration // how far the clock for ticks is ahead of gocron's
	wake   func(*alarmed)
}

// alarmed are jobs that share an alarm. The goroutine in change owns the alarm, and the term's loop
// the jobs.
type alarmed struct {
	alarm    gocron.Job
	schedule jobs.Schedule
	entries  []*entry
}

// setAlarms gives each schedule an alarm of its own: jobs with one schedule share it. It
// returns which alarms are new, and which ones nothing needs any more.
func (r *roll) setAlarms() (add, remove []*alarmed) {
	before := r.alarms
	r.alarms = make(map[string]*alarmed, len(before))
	for _, e := range r.order {
		key := e.job.text
		if _, ok := e.job.Schedule.(jobs.Relative); ok { // its ticks are its own
			key += " of " + e.job.Name + " since " + e.Known().ScheduleSince.String()
		}
		a := r.alarms[key]
		if a == nil {
			if a = before[key]; a == nil {
				a = &alarmed{schedule: e.Schedule()}
				add = append(add, a)
			}
			a.entries = nil
			r.alarms[key] = a
		}
		a.entries = append(a.entries, e)
	}
	for key, a := range before {
		if r.alarms[key] != a {
			a.entries = nil
			remove = append(remove, a)
		}
	}
	return add, remove
}

// startAlarms makes a gocron scheduler, sets an alarm for each schedule and starts it.
func startAlarms(v *env, all map[string]*alarmed) (*alarms, error) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithStopTimeout(stopTimeout))
	if err != nil {
		return nil, fmt.Errorf("scheduler: start gocron: %w", err)
	}
	c := &alarms{gocron: s, log: v.log, ahead: steady(func() time.Duration { return time.Until(v.now()) })}
	c.wake = func(a *alarmed) { v.do(func(t *term) { t.wake(a) }) }
	if err := c.change(slices.Collect(maps.Values(all)), nil); err != nil {
		c.stop()
		return nil, err
	}
	s.Start()
	return c, nil
}

// wake claims what is due of the jobs of an alarm. An alarm that is a hair early, by the
// wall clock that ticks are measured with, is put off until the tick.
func (t *term) wake(a *alarmed) {
	now := t.now()
	var next []time.Time
	for _, e := range a.entries {
		t.claimDue(e, now)
		next = append(next, e.Next())
	}
	if early, ok := plan.Early(now, next); ok {
		t.after(early, func() { t.wake(a) })
	}
}

// change sets alarms and removes others. It may wait for alarms that are being
// delivered, and these for the loop, so the loop must not call it.
func (c *alarms) change(add, remove []*alarmed) error {
	var wrong error
	for _, a := range add {
		job, err := c.gocron.NewJob(
			gocron.CronJob("", true), // replaced by WithCronImplementation
			gocron.NewTask(func() { c.wake(a) }),
			gocron.WithCronImplementation(alarm{a.schedule, c.ahead}),
		)
		if err != nil {
			wrong = fmt.Errorf("scheduler: set an alarm for %v: %w", a.schedule, err)
			continue
		}
		a.alarm = job
	}
	for _, a := range remove {
		if a.alarm != nil {
			_ = c.gocron.RemoveJob(a.alarm.ID()) // it may be gone: after a schedule's last tick
		}
	}
	return wrong
}

// stopTimeout bounds the wait for alarms that are being delivered; these start
// runs and wait for none.
const stopTimeout = time.Second

// stop ends the gocron scheduler and waits for alarms that are being delivered.
func (c *alarms) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*stopTimeout)
	defer cancel()
	if err := c.gocron.ShutdownWithContext(ctx); err != nil {
		c.log.Warn("gocron did not stop cleanly", zap.Error(err))
	}
}

// alarm is a schedule as gocron wants it: instants in UTC, strictly later than
// asked, never two in one second (gocron drops the second of them), and never
// zero. Ticks that are closer than that are found by the wake of the one before.
type alarm struct {
	schedule jobs.Schedule
	ahead    func() time.Duration // how far the clock for ticks is ahead of gocron's
}

// steady measures again each time, and answers the same until it finds a
// difference that counts: an alarm that is set by a value which is a little
// smaller each time would ring for one tick again and again.
func steady(measure func() time.Duration) func() time.Duration {
	const counts = 50 * time.Millisecond
	var mu sync.Mutex
	var known time.Duration
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if d := measure(); (d - known).Abs() > counts {
			known = d
		}
		return known
	}
}

var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// IsValid implements gocron.Cron; the schedule was checked by jobs.
func (a alarm) IsValid(string, *time.Location, time.Time) error { return nil }

// Next implements gocron.Cron.
func (a alarm) Next(last time.Time) time.Time {
	ahead := a.ahead()
	after := func(last time.Time) time.Time {
		next := a.schedule.Next(last.Add(ahead))
		if next.IsZero() {
			return never
		}
		return next.Add(-ahead).UTC()
	}
	next := after(last)
	if second := last.Truncate(time.Second); next.Truncate(time.Second).Equal(second) {
		next = after(second.Add(time.Second - 1))
	}
	return next
}
