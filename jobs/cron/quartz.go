package cron

import "math/bits"

// quartz searches from the second up to the day and starts again after every move of more than a second. All of it is
// done on the wall clock, each time as Java's calendar reads it.
func (w *walk) quartz() (int64, bool) {
	w.forward(1)
	w.place(w.wall)
	c := w.calendar
	for range nativeMoves {
		_, _, _, _, second := w.date()
		s := second % 60
		if next := int64(bits.TrailingZeros64(c.seconds >> s << s)); next < 60 {
			w.place(w.wall + next - s)
		} else {
			w.place(w.wall - s + 60 + int64(bits.TrailingZeros64(c.seconds)))
		}
		_, _, _, n, second := w.date()
		h, m := second/3600, second/60%60
		switch next := int64(bits.TrailingZeros64(c.minutes >> m << m)); {
		case next == m:
		case next < 60:
			w.hour(n, h, next)
			continue
		default:
			w.hour(n, h+1, int64(bits.TrailingZeros64(c.minutes)))
			continue
		}
		switch next := int64(bits.TrailingZeros32(c.hours >> h << h)); {
		case next == h:
		case next < 24:
			w.hour(n, next, 0)
			continue
		default:
			w.hour(n+1, int64(bits.TrailingZeros32(c.hours)), 0)
			continue
		}
		to, ok := c.next(n * day)
		if !ok {
			return 0, false
		}
		if to = dayOf(to); to == n {
			return w.wall - w.offset, true
		}
		w.place(to * day)
	}
	return 0, false
}

// hour goes to an hour and minute of day n. An hour that is left out is passed over, but only if the clock goes on
// with another one.
func (w *walk) hour(n, h, m int64) {
	w.place(n*day + h*3600 + m*60)
	if _, _, _, now, second := w.date(); second/3600 != h && h < 24 {
		w.place(now*day + (h+1)*3600 + second%3600)
	}
}
