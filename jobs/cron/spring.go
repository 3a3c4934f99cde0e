package cron

import "math/bits"

// spring searches from the weekday down to the second, and again until a round changes nothing. Hours, minutes and
// seconds are gone through in real time, days and more on the wall clock; after a move the smaller fields are set to
// zero on the wall clock.
func (w *walk) spring() (int64, bool) {
	w.fraction = true // later than the instant asked about
	for range nativeMoves {
		start := *w
		if !w.weekday() || !w.month() || !w.day() || !w.clock() {
			return 0, false
		}
		if *w == start {
			return w.wall - w.offset, true
		}
	}
	return 0, false
}

// toDate goes to a date at the same time of day. A month too short for the day gives its last.
func (w *walk) toDate(y, m, d int) {
	if m > 12 {
		y, m = y+1, m-12
	}
	_, _, _, _, second := w.date()
	n := days(y, m, min(d, kindLength[kindOf(y, m)]))
	w.place(n*day + second)
}

// weekday goes to the first weekday that will do.
func (w *walk) weekday() bool {
	if w.weekDays.last != 0 || w.weekDays.nth != [6]uint8{} {
		return w.inMonth(w.weekDays.last != 0, func(kind, first int) uint32 {
			return w.weekDays.mask(kindLength[kind], first)
		})
	}
	mask := w.weekDays.plain&^1 | w.weekDays.plain<<7 // Monday is 1 and Sunday 7
	for moves := range nativeMoves {
		_, _, _, n, second := w.date()
		at := (weekday(n)+6)%7 + 1
		switch next := bits.TrailingZeros8(mask >> at << at); {
		case next == at:
			if moves > 0 {
				w.midnight()
			}
			return true
		case next < 8:
			w.place((n+int64(next-at))*day + second)
		default:
			w.place((n+7)*day + second)
			_, _, _, n, second = w.date()
			w.place((n-int64((weekday(n)+6)%7))*day + second)
		}
	}
	return false
}

// month goes to the first month that will do.
func (w *walk) month() bool {
	for moves := range nativeMoves {
		y, m, d, _, _ := w.date()
		switch next := bits.TrailingZeros16(w.calendar.months >> m << m); {
		case next == m:
			if moves > 0 {
				w.toDate(y, m, 1)
				w.midnight()
			}
			return true
		case next <= 12:
			w.toDate(y, next, d)
		default:
			w.toDate(y+1, m, d)
			y, _, d, _, _ = w.date()
			w.toDate(y, 1, d)
		}
	}
	return false
}

// day goes to the first day of a month that will do.
func (w *walk) day() bool {
	return w.inMonth(w.monthDays.last|w.monthDays.lastWork != 0, func(kind, first int) uint32 {
		return w.monthDays.mask(Spring, kind, first)
	})
}

// inMonth goes to the first day that is in the mask of its month; if it counts from the end, by way of that.
func (w *walk) inMonth(fromEnd bool, mask func(kind, first int) uint32) bool {
	for moves := range nativeMoves {
		y, m, d, n, _ := w.date()
		switch next := bits.TrailingZeros32(mask(kindOf(y, m), weekday(n-int64(d-1))) >> d << d); {
		case next == d:
			if moves > 0 {
				w.midnight()
			}
			return true
		case next < 32:
			if fromEnd {
				w.toDate(y, m, 31)
			}
			w.toDate(y, m, next)
		default:
			w.toDate(y, m+1, d)
			y, m, _, _, _ = w.date()
			w.toDate(y, m, 1)
		}
	}
	return false
}

// clock goes to the first time of day that will do.
func (w *walk) clock() bool {
	if !w.unit(uint64(w.calendar.hours), 3600, 24) || !w.unit(w.calendar.minutes, 60, 60) ||
		!w.unit(w.calendar.seconds, 1, 60) {
		return false
	}
	if w.fraction {
		w.fraction = false
		w.forward(1)
	}
	return true
}

// unit goes to the first hour, minute or second that will do; size is its length and count how many make up the next
// greater unit.
func (w *walk) unit(mask uint64, size, count int64) bool {
	for moves := range nativeMoves {
		at := w.get(size, count)
		switch next := int64(bits.TrailingZeros64(mask >> at << at)); {
		case next == at:
			if moves > 0 {
				w.zero(size)
			}
			return true
		case next < count:
			w.place(w.wall + (next-at)*size)
		default:
			if count == 24 {
				w.place(w.wall + day)
			} else {
				w.forward(size * count)
			}
			w.place(w.wall - w.get(size, count)*size)
		}
	}
	return false
}

func (w *walk) get(size, count int64) int64 {
	return (w.wall - dayOf(w.wall)*day) / size % count
}

// midnight sets hours, minutes and seconds to zero, one after the other.
func (w *walk) midnight() { w.zero(day) }

// zero sets all units smaller than size to zero, one after the other.
func (w *walk) zero(size int64) {
	if size > 3600 {
		w.place(w.wall - w.get(3600, 24)*3600)
	}
	if size > 60 {
		w.place(w.wall - w.get(60, 60)*60)
	}
	if size > 1 {
		w.place(w.wall - w.get(1, 60))
	}
	w.fraction = false
}
