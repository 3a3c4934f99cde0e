package cron

// monthDays is what the day-of-month field asks for. In each mask bit n stands for the number n of the notation.
type monthDays struct {
	plain    uint32 // the nth
	last     uint32 // L-n: n days before the last; bit 0 is L
	lastWork uint32 // L-nW: the weekday nearest to it; bit 0 is LW
	work     uint32 // nW: the weekday nearest to the nth
	star     bool   // the field starts with "*" or "?"
}

// weekDays is what the day-of-week field asks for. In each mask bit n stands for weekday n, Sunday being 0.
type weekDays struct {
	plain uint8
	last  uint8    // dL: the last such day of the month
	nth   [6]uint8 // d#n: nth[n] is the nth such day of the month
	star  bool
}

const (
	sunday   = 0
	friday   = 5
	saturday = 6
)

// mask returns the days asked for in a month of the kind that starts on the weekday first, bit n for day n.
func (f *monthDays) mask(dialect Dialect, kind, first int) uint32 {
	length := kindLength[kind]
	mask := f.plain
	for n := range 32 {
		if f.last>>n&1 != 0 {
			mask |= bit(length - n)
		}
		if f.lastWork>>n&1 != 0 {
			mask |= bit(nearestWeekday(Quartz, length-n, length, first)) // LW is the same in both
		}
		if f.work>>n&1 != 0 {
			mask |= bit(nearestWeekday(dialect, n, length, first))
		}
	}
	if f.last>>31&1 != 0 {
		// No month has such a day. Spring counts on into the month before, and takes any day with that day's number.
		mask |= bit(min(length, kindBefore[kind]))
	}
	return mask & (2<<length - 2)
}

// nearestWeekday returns the day from Monday to Friday that is nearest to day n and in the same month, or 0.
func nearestWeekday(dialect Dialect, n, length, first int) int {
	switch at := (first + n - 1 + 7*5) % 7; {
	case n < 1:
		return 0
	case n > length:
		// Quartz takes the 1st of the next month for the day after the last: a Saturday is moved back into this one.
		if dialect == Quartz && n == length+1 && at == saturday {
			return length
		}
		return 0
	case at == saturday && n == 1:
		return 3
	case at == saturday:
		return n - 1
	case at == sunday && n < length:
		return n + 1
	case at == sunday && dialect == Quartz:
		return n - 2
	case at == sunday:
		return 0 // Spring: Monday is in the next month, and the month goes without
	}
	return n
}

// mask returns the days asked for in a month of length days that starts on the weekday first, bit n for day n.
func (f *weekDays) mask(length, first int) uint32 {
	var mask uint32
	for n := 1; n <= length; n++ {
		at := (first + n - 1) % 7
		if (f.plain|f.nth[(n-1)/7+1])>>at&1 != 0 || n+7 > length && f.last>>at&1 != 0 {
			mask |= bit(n)
		}
	}
	return mask
}

// bit returns the mask of one day; there is none before the 1st.
func bit(n int) uint32 {
	if n < 1 {
		return 0
	}
	return 1 << n
}

// table joins the two day fields into the days of every month there can be.
func table(dialect Dialect, m *monthDays, w *weekDays) (days [kinds][7]uint32) {
	for kind := range days {
		for first := range days[kind] {
			a, b := m.mask(dialect, kind, first), w.mask(kindLength[kind], first)
			if dialect == Unix && !m.star && !w.star {
				days[kind][first] = a | b
			} else {
				days[kind][first] = a & b
			}
		}
	}
	return days
}
