package plan

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
	last   time.Time   // the newest of those; zero: there are none
	next   time.Time   // the first that is not due; zero: none
}

// dueTicks returns the ticks from next, itself a tick, up to now: the newest of
// them, at most limit.
func dueTicks(s jobs.Schedule, next, now time.Time, limit int) due {
	d := due{next: next}
	for counted := 0; !d.next.IsZero() && !d.next.After(now); counted++ {
		if counted == maxCounted {
			backward, ok := s.(jobs.Backward)
			if !ok {
				backward = &searched{Schedule: s, from: d.next, gap: time.Second}
			}
			return jump(s, backward, d, now, limit)
		}
		if len(d.ticks) == limit {
			d.last, d.ticks = d.ticks[0], d.ticks[1:]
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
	tick := backward.Prev(now.Add(1)) // at last the one before the first of the newest
	for ; len(newest.ticks) < limit && !tick.IsZero() && !tick.Before(d.next); tick = backward.Prev(tick) {
		newest.ticks = append(newest.ticks, tick)
	}
	slices.Reverse(newest.ticks)
	counted := d.ticks
	if more := limit - len(newest.ticks); more > 0 { // then every tick has been counted
		counted = d.ticks[:len(d.ticks)-more]
		newest.ticks = append(slices.Clone(d.ticks[len(d.ticks)-more:]), newest.ticks...)
		newest.missed -= more
		tick = time.Time{}
	}
	newest.last = counted[len(counted)-1]
	if !tick.Before(d.next) {
		newest.last = tick
	}
	return newest
}

// searched makes a schedule that only knows the way forward go back, by what
// Next answers to earlier and earlier instants, so that a gap costs a bounded
// number of calls however many ticks it has: about two for each tick of a
// regular schedule, some dozens where the ticks are irregular.
type searched struct {
	jobs.Schedule
	from time.Time     // a tick; those before it are of no interest
	gap  time.Duration // between the last two ticks that were found: a good guess
}

// Prev implements [jobs.Backward], as far back as from.
func (s *searched) Prev(before time.Time) time.Time {
	tick := func(after time.Time) (time.Time, bool) {
		t := s.Next(after)
		return t, !t.IsZero() && t.Before(before)
	}
	// Back in growing steps, until there is a tick; there is none after high.
	high, step := before.Add(-1), s.gap
	low := high.Add(-step)
	found, ok := tick(low)
	for !ok {
		if low.Before(s.from) {
			return time.Time{}
		}
		step *= 2
		low, high = low.Add(-step), low
		found, ok = tick(low)
	}
	// There may be more between the one found and high.
	for {
		next, more := tick(found)
		if !more {
			s.gap = before.Sub(found)
			return found
		}
		found = next
		middle := found.Add(high.Sub(found) / 2)
		if t, ok := tick(middle); ok {
			found = t
		} else {
			high = middle
		}
	}
}

// hair is how early an alarm may come. Ticks are measured by the wall clock, and alarms by another one.
const hair = 100 * time.Millisecond

// Early returns by how much an alarm came before the first of these ticks that is still to come; false: none comes within a hair.
func Early(now time.Time, next []time.Time) (time.Duration, bool) {
	early := hair
	for _, tick := range next {
		if wait := tick.Sub(now); wait > 0 {
			early = min(early, wait)
		}
	}
	return early, early < hair
}
