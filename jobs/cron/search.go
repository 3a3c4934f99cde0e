package cron

// farJump is more than two offsets of one zone can differ, in seconds.
const farJump = 2 * day

// next returns the first matching instant at or after t.
func (e *Expression) next(t int64) (int64, bool) {
	z := e.zone
	for i := z.index(t); i < len(z.from); i++ {
		low, high := e.window(i)
		from, found := max(t, low), high
		wall, ok := e.calendar.next(from + z.offset[i])
		if ok {
			found = min(found, wall-z.offset[i])
		}
		if gap := z.skipped(i); gap > 0 && e.onceADay {
			// A clock that was not put forward: it shows the skipped times while the gap lasts.
			late := z.offset[i] - gap
			if wall, ok := e.calendar.next(max(t, z.from[i]) + late); ok && wall-late < z.from[i]+gap {
				found = min(found, wall-late)
			}
		}
		switch {
		case found < high:
			return found, true
		case z.end(i)-from <= farJump:
		case !ok:
			return 0, false
		case wall-z.offset[i]-farJump > z.end(i):
			// No clock of the zone shows a matching time before: leave out the changes in between.
			t = wall - z.offset[i] - farJump
			i = z.index(t) - 1
		}
	}
	return 0, false
}

// prev returns the last matching instant at or before t.
func (e *Expression) prev(t int64) (int64, bool) {
	z := e.zone
	for i := z.index(t); i >= 0; i-- {
		low, high := e.window(i)
		from, found := min(t, high-1), low-1
		wall, ok := e.calendar.prev(from + z.offset[i])
		if ok {
			found = max(found, wall-z.offset[i])
		}
		if gap := z.skipped(i); gap > 0 && e.onceADay {
			late := z.offset[i] - gap
			if wall, ok := e.calendar.prev(min(from, z.from[i]+gap-1) + late); ok && wall-late >= z.from[i] {
				found = max(found, wall-late)
			}
		}
		switch {
		case found >= low:
			return found, true
		case i == 0 || from-z.from[i] <= farJump:
		case !ok:
			return 0, false
		case wall-z.offset[i]+farJump < z.from[i]:
			t = wall - z.offset[i] + farJump
			i = z.index(t) + 1
		}
	}
	return 0, false
}

// window returns the part of span i, from low up to high, in which what the wall clock shows counts.
func (e *Expression) window(i int) (low, high int64) {
	low, high = e.zone.from[i], e.zone.end(i)
	if e.onceADay {
		low += e.zone.repeated(i)
	}
	return max(low, firstInstant), min(high, endInstant)
}
