package scheduler

import (
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// onTime is how late a tick may be and still count as on time: an alarm that
// was lost is noticed by the sweep within a second.
const onTime = 5 * time.Second

// plan decides what becomes of the ticks that are due up to an instant, which is
// not later than now: claims in the order of their ticks, by the job's policies,
// all up to the newest one. It moves next on. paused says that they fall into a
// pause, slot that this replica may start a run.
func (e *entry) plan(now, until time.Time, paused, slot bool) []store.Claim {
	limit, line := 1, 0
	if e.job.Misfire == jobs.MisfireAll {
		line = e.line()
		limit = max(1, e.job.CatchUp.Limit-line)
	}
	d := dueTicks(e.schedule, e.next, until, limit)
	if len(d.ticks) == 0 {
		return nil
	}
	first := e.next
	e.next = d.next
	newest, earlier := d.ticks[len(d.ticks)-1], d.missed+len(d.ticks)-1
	e.known.Cursor, e.gap = newest, gap{}

	switch {
	case paused:
		return []store.Claim{e.skip(first, newest, earlier, event.WhyPaused)}
	case e.tooLate(newest, now):
		return []store.Claim{e.skip(first, newest, earlier, tooLate)}
	case e.job.Misfire == jobs.MisfireSkip && now.Sub(newest) > onTime:
		return []store.Claim{e.skip(first, newest, earlier, missed)}
	case line > 0 && line >= e.job.CatchUp.Limit:
		return []store.Claim{e.skip(first, newest, earlier, "as many ticks as allowed wait already")}
	case e.job.Misfire == jobs.MisfireAll:
		return e.all(first, d, now, slot, line > 0)
	}
	c := e.start(newest, now, slot)
	c.Missed = earlier
	if c.State == jobs.Skipped {
		e.gap = gap{first, newest, earlier + 1, c.Error}
	}
	return []store.Claim{c}
}

// all claims every tick that is not too late. What cannot start yet waits: for
// what runs, behind the others of its gap, or at the end of the line.
func (e *entry) all(first time.Time, d due, now time.Time, slot, behind bool) []store.Claim {
	var claims []store.Claim
	late := 0
	for e.tooLate(d.ticks[late], now) { // the last one is not
		late++
	}
	if late > 0 {
		claims = append(claims, e.skip(first, d.ticks[late-1], d.missed+late-1, tooLate))
	} else if d.missed > 0 {
		e.gap = gap{first, d.last, d.missed, "more ticks are due than may wait"}
	}
	for i, tick := range d.ticks[late:] {
		c := e.start(tick, now, slot)
		if c.State == jobs.Skipped || behind || i > 0 && !e.parallel(i) {
			c.State, c.Error, c.Delay = jobs.Waiting, "", e.putOff(tick, now)
		}
		if i == 0 && late == 0 {
			c.Missed = d.missed
		}
		claims = append(claims, c)
	}
	return claims
}

// parallel reports whether another run may start beside n that are about to.
func (e *entry) parallel(n int) bool {
	return e.job.Overlap == jobs.OverlapAllow && (e.job.Limit == 0 || e.busy()+n < e.job.Limit)
}

// start claims a tick by the job's overlap policy.
func (e *entry) start(tick, now time.Time, slot bool) store.Claim {
	c := store.Claim{Key: jobs.Key{Job: e.job.Name, Tick: tick}, State: jobs.Running, Delay: e.putOff(tick, now)}
	// Runs of backfills cause no tick to be skipped: it waits for them.
	busy, waits := e.busy()-e.filling(), e.waiting()-e.filling()+e.backfilled[running]
	most, why := e.job.Limit, "as many runs as allowed have not finished"
	if e.job.Overlap == jobs.OverlapForbid {
		most, why = 1, "an earlier run has not finished"
	}
	if busy-e.resting < most {
		why = "LockAtLeastFor is not over since an earlier run began"
	}
	switch overlap := e.job.Overlap; {
	case overlap == jobs.OverlapAllow && e.job.Limit > 0 && busy >= e.job.Limit, overlap == jobs.OverlapForbid && busy > 0:
		c.State, c.Error = jobs.Skipped, why
	case overlap == jobs.OverlapQueue && waits > 0:
		c.State, c.Error = jobs.Skipped, "an earlier tick waits already"
	case overlap != jobs.OverlapAllow && e.busy() > 0, overlap == jobs.OverlapAllow && !e.parallel(0), !slot, c.Delay > 0:
		c.State = jobs.Waiting
	}
	if c.State == jobs.Skipped {
		c.Delay = 0
	}
	return c
}

// putOff is how long the start of a tick's run is still put off by the job's jitter.
func (e *entry) putOff(tick, now time.Time) time.Duration {
	if e.job.Jitter == 0 {
		return 0
	}
	return max(0, tick.Add(e.job.Delay(e.group, tick)).Sub(now).Truncate(time.Microsecond))
}

// skip claims a tick as skipped, for all since the first one of its gap.
func (e *entry) skip(first, tick time.Time, earlier int, why string) store.Claim {
	e.gap = gap{first, tick, earlier + 1, why}
	return store.Claim{Key: jobs.Key{Job: e.job.Name, Tick: tick}, State: jobs.Skipped, Missed: earlier, Error: why}
}

// Why ticks are skipped that were due when no replica could run them.
const (
	missed  = "missed"
	tooLate = "too late to start"
)

// tooLate reports whether the tick's start deadline has passed.
func (e *entry) tooLate(tick, now time.Time) bool {
	if e.job.CatchUp.Deadline == 0 {
		return false
	}
	return now.Sub(tick)-e.job.Delay(e.group, tick) > e.job.CatchUp.Deadline
}

// longestWait is how long a run that waits after so many attempts may have to
// wait at most, by the job's policies: by the database's clock alone it would be
// as much longer as that clock was set back meanwhile.
func (e *entry) longestWait(attempts int) time.Duration {
	if attempts == 0 {
		return e.job.Jitter // for room alone without one
	}
	return e.job.Retry.Longest(attempts) // zero for one that was handed on by a clean stop
}

// maxInterrupted is how many attempts a tick gets before it is assumed to kill its
// workers: see [jobs.RecoverRerun].
const maxInterrupted = 5

// rerun reports whether a run that was interrupted in this attempt gets another.
func (e *entry) rerun(attempt int) bool {
	return e.job.Recover == jobs.RecoverRerun && attempt < max(maxInterrupted, e.job.Retry.Attempts)
}
