package cron

import "math/bits"

// calendar is what an expression says about wall clocks, as bit masks: bit n is value n. It knows no zone. Wall clock
// times are seconds since 1970-01-01 00:00:00 on that clock. It is immutable.
type calendar struct {
	seconds, minutes uint64
	hours            uint32
	months           uint16
	years            set // bit n is the year baseYear+n
	// days holds the days of every month there can be: what a month looks like depends only on its first weekday
	// and on its kind.
	days [kinds][7]uint32
}

// The years a wall clock can show while the instant is within bounds.
const (
	baseYear = 1969
	lastYear = 2200
)

// next returns the first matching wall clock time at or after wall.
func (c *calendar) next(wall int64) (int64, bool) {
	n := dayOf(wall)
	y, m, d := civil(n)
	if y > lastYear {
		return 0, false
	}
	if mask := c.month(y, m, n-int64(d-1)); mask>>d&1 != 0 {
		if s, ok := c.nextSecond(int(wall - n*day)); ok {
			return n*day + int64(s), true
		}
	}
	// From here on it is a later day, and there the first time of day.
	first := n - int64(d-1)
	for low := uint32(2)<<d - 1; ; low = 0 {
		if mask := c.month(y, m, first) &^ low; mask != 0 {
			n = first + int64(bits.TrailingZeros32(mask)) - 1
			return n*day + int64(c.firstSecond()), true
		}
		if m = bits.TrailingZeros32(uint32(c.months) >> (m + 1) << (m + 1)); m > 12 {
			if y = c.years.next(y+1-baseYear) + baseYear; y > lastYear {
				return 0, false
			}
			m = bits.TrailingZeros16(c.months)
		}
		first = days(y, m, 1)
	}
}

// prev returns the last matching wall clock time at or before wall.
func (c *calendar) prev(wall int64) (int64, bool) {
	n := dayOf(wall)
	y, m, d := civil(n)
	if y < baseYear {
		return 0, false
	}
	first := n - int64(d-1)
	if mask := c.month(y, m, first); mask>>d&1 != 0 {
		if s, ok := c.prevSecond(int(wall - n*day)); ok {
			return n*day + int64(s), true
		}
	}
	for low := uint32(1)<<d - 1; ; low = 1<<32 - 1 {
		if mask := c.month(y, m, first) & low; mask != 0 {
			n = first + int64(bits.Len32(mask)) - 2
			return n*day + int64(c.lastSecond()), true
		}
		if m = bits.Len16(c.months&(1<<m-1)) - 1; m < 1 {
			if y = c.years.prev(y-1-baseYear) + baseYear; y < baseYear {
				return 0, false
			}
			m = bits.Len16(c.months) - 1
		}
		first = days(y, m, 1)
	}
}

// month returns the matching days of a month, bit n for day n; first is the number of its first day.
func (c *calendar) month(y, m int, first int64) uint32 {
	if c.months>>m&1 == 0 || !c.years.has(y-baseYear) {
		return 0
	}
	return c.days[kindOf(y, m)][weekday(first)]
}

// nextSecond returns the first matching second of the day at or after s.
func (c *calendar) nextSecond(s int) (int, bool) {
	h, m := s/3600, s/60%60
	if c.hours>>h&1 != 0 {
		if c.minutes>>m&1 != 0 {
			if rest := c.seconds >> (s % 60); rest != 0 {
				return s + bits.TrailingZeros64(rest), true
			}
		}
		if rest := c.minutes >> (m + 1); rest != 0 {
			m += 1 + bits.TrailingZeros64(rest)
			return h*3600 + m*60 + bits.TrailingZeros64(c.seconds), true
		}
	}
	if rest := c.hours >> (h + 1); rest != 0 {
		h += 1 + bits.TrailingZeros32(rest)
		return h*3600 + bits.TrailingZeros64(c.minutes)*60 + bits.TrailingZeros64(c.seconds), true
	}
	return 0, false
}

// prevSecond returns the last matching second of the day at or before s.
func (c *calendar) prevSecond(s int) (int, bool) {
	h, m := s/3600, s/60%60
	if c.hours>>h&1 != 0 {
		if c.minutes>>m&1 != 0 {
			if rest := c.seconds & (2<<(s%60) - 1); rest != 0 {
				return s - s%60 + top(rest), true
			}
		}
		if rest := c.minutes & (1<<m - 1); rest != 0 {
			return h*3600 + top(rest)*60 + top(c.seconds), true
		}
	}
	if rest := c.hours & (1<<h - 1); rest != 0 {
		return top(uint64(rest))*3600 + top(c.minutes)*60 + top(c.seconds), true
	}
	return 0, false
}

func (c *calendar) firstSecond() int {
	return bits.TrailingZeros32(c.hours)*3600 + bits.TrailingZeros64(c.minutes)*60 + bits.TrailingZeros64(c.seconds)
}

func (c *calendar) lastSecond() int {
	return top(uint64(c.hours))*3600 + top(c.minutes)*60 + top(c.seconds)
}

// top returns the highest bit of a mask that is not empty.
func top(mask uint64) int { return bits.Len64(mask) - 1 }

// kindOf returns the kind of a month: its length, and for those of 31 days also the length of the month before, which
// Spring's L-31 needs.
func kindOf(y, m int) int {
	if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		return int(kindLeap[m])
	}
	return int(kindCommon[m])
}

const kinds = 7

var (
	kindCommon = [13]uint8{0, 6, 0, 3, 2, 5, 2, 5, 6, 2, 5, 2, 5}
	kindLeap   = [13]uint8{0, 6, 1, 4, 2, 5, 2, 5, 6, 2, 5, 2, 5}
	kindLength = [kinds]int{28, 29, 30, 31, 31, 31, 31}
	kindBefore = [kinds]int{31, 31, 31, 28, 29, 30, 31}
)

// weekday returns the weekday of a day number, Sunday being 0. Day 0 was a Thursday.
func weekday(n int64) int { return int((n + 4 + 7*1000) % 7) }

// civil returns the date of a day number, day 0 being 1970-01-01. The year is taken to start in March, so that the leap
// day comes last and month lengths follow one formula.
func civil(n int64) (y, m, d int) {
	z := uint64(n + 719468) // days since 0000-03-01
	century := z / 146097
	z -= century * 146097
	year := (z - z/1460 + z/36524 - z/146096) / 365
	z -= 365*year + year/4 - year/100
	month := (5*z + 2) / 153
	y, m, d = int(century*400+year), int(month+3), int(z-(153*month+2)/5+1)
	if m > 12 {
		y, m = y+1, m-12
	}
	return y, m, d
}

// days returns the day number of a date; the inverse of civil.
func days(y, m, d int) int64 {
	if m < 3 {
		y, m = y-1, m+12
	}
	century := y / 400
	y -= century * 400
	return int64(century*146097+y*365+y/4-y/100+(153*(m-3)+2)/5+d-1) - 719468
}

// dayOf is the day since 1970 of a wall clock, rounded down.
func dayOf(wall int64) int64 {
	n := wall / day
	if wall%day < 0 {
		n--
	}
	return n
}
