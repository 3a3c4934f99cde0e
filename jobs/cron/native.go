package cron

// native searches as the dialect's own engine does: from field to field, asking the zone at every move what its clock
// makes of it. Near a change of the clocks the answer depends on the way to it. Everywhere else all ways lead to the
// same answer, so this one is taken only there.
type native struct {
	dialect   Dialect // Spring or Quartz
	calendar  *calendar
	zone      *zone
	monthDays monthDays
	weekDays  weekDays
}

// nativeMoves is how many moves Spring makes before it gives up. Quartz has no such bound and needs fewer.
const nativeMoves = 366

// next returns the engine's answer to after, where plain is the first instant later than after that matches anyway.
func (n *native) next(after, plain int64) int64 {
	if n.zone.constant(after-farJump, plain+farJump) {
		return plain
	}
	w := walk{native: n, offset: n.zone.offset[n.zone.index(after)]}
	w.wall = after + w.offset
	search := w.spring
	if n.dialect == Quartz {
		search = w.quartz
	}
	if t, ok := search(); ok && t > after && t < endInstant {
		return t
	}
	// The engine gave up, or returned an instant of the past, and would return that one again and again.
	return plain
}

// walk is a place on the way: a wall clock time, and the offset it is meant with.
type walk struct {
	*native
	wall, offset int64
	fraction     bool // a little after that second
}

// place goes to a wall clock time. If the clock shows it twice, Quartz takes the last one, and Spring the one with the
// present offset or else the first. If the clock leaves it out, the time is as much later as is left out.
func (w *walk) place(wall int64) {
	z := w.zone
	i := z.index(wall - w.offset)
	low, high := max(i-1, 0), min(i+1, len(z.from)-1)
	shown := -1
	for j := low; j <= high; j++ {
		t := wall - z.offset[j]
		if t >= z.from[j] && t < z.end(j) && (shown < 0 || w.dialect == Quartz || z.offset[j] == w.offset) {
			shown = j
		}
	}
	if shown >= 0 {
		w.wall, w.offset = wall, z.offset[shown]
		return
	}
	for j := max(low, 1); j <= high; j++ {
		if wall-z.offset[j-1] >= z.from[j] && wall-z.offset[j] < z.from[j] {
			w.wall, w.offset = wall+z.skipped(j), z.offset[j]
			return
		}
	}
	w.wall = wall
}

// forward goes on by so many real seconds.
func (w *walk) forward(seconds int64) {
	t := w.wall - w.offset + seconds
	w.offset = w.zone.offset[w.zone.index(t)]
	w.wall = t + w.offset
}

// date returns the date of the wall clock, and the day's number and second.
func (w *walk) date() (y, m, d int, n, second int64) {
	n = dayOf(w.wall)
	y, m, d = civil(n)
	return y, m, d, n, w.wall - n*day
}
