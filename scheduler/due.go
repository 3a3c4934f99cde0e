package scheduler

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// maxCounted bounds how far a gap is counted tick by tick: after two weeks
// without a leader, a job of every second must not hold up the others.
const maxCounted = 10_000

// due are the ticks of a schedule that are due.
type due struct {
	ticks  []time.Time // the newest, at least one unless nothing is due, oldest first
	missed int         // how many earlier ones there are; from maxCounted on, at least so many
	next   time.Time   // the first that is not due; zero: none
}

// dueTicks returns the ticks from next, itself a tick, up to now: the newest of
// them, at most limit.
func dueTicks(s jobs.Schedule, next, now time.Time, limit int) due {
	d := due{next: next}
	if next.IsZero() || next.After(now) {
		return d
	}
	backward, canGoBack := s.(jobs.Backward)
	for counted := 0; !d.next.IsZero() && !d.next.After(now); counted++ {
		if counted == maxCounted && canGoBack {
			return jump(s, backward, d, now, limit)
		}
		if len(d.ticks) == limit {
			d.ticks = d.ticks[1:]
			d.missed = min(d.missed+1, maxCounted)
		}
		d.ticks = append(d.ticks, d.next)
		d.next = s.Next(d.next)
	}
	return d
}

// jump goes on from the other end of a gap that was counted as far as d.
func jump(s jobs.Schedule, backward jobs.Backward, d due, now time.Time, limit int) due {
	newest := due{missed: maxCounted, next: s.Next(now)}
	tick := backward.Prev(now.Add(1))
	for ; len(newest.ticks) < limit && !tick.IsZero() && !tick.Before(d.next); tick = backward.Prev(tick) {
		newest.ticks = append(newest.ticks, tick)
	}
	slices.Reverse(newest.ticks)
	if more := limit - len(newest.ticks); more > 0 { // then every tick has been counted
		counted := d.ticks[len(d.ticks)-more:]
		newest.ticks = append(slices.Clone(counted), newest.ticks...)
		newest.missed -= more
	}
	return newest
}
