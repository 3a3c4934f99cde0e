package cron

import (
	"strconv"
	"strings"
)

// parseMonthDays reads the day-of-month field.
func (p *parser) parseMonthDays(t part) error {
	f := &p.monthDays
	f.star = t.text[0] == '*' || t.text == "?"
	if t.text == "?" {
		f.plain = 1<<32 - 2
		return nil
	}
	for _, item := range t.list() {
		text := item.text
		if p.dialect == Quartz {
			text = strings.ToUpper(text)
		}
		if p.dialect == Unix || !strings.HasPrefix(text, "L") && !strings.HasSuffix(text, "W") {
			var plain set
			if err := p.parseItem(dayOfMonth, item, &plain); err != nil {
				return err
			}
			f.plain |= uint32(plain[0])
			continue
		}
		if p.dialect == Quartz && len(item.text) != len(t.text) {
			return p.fail(dayOfMonth.String(), item.text, item.offset, "quartz knows L and W only alone, not in a list")
		}
		if err := p.parseLastOrNearest(text, item); err != nil {
			return err
		}
	}
	return nil
}

// parseLastOrNearest reads L, L-n, LW, L-nW and nW.
func (p *parser) parseLastOrNearest(text string, item part) error {
	f := &p.monthDays
	before, work := strings.CutSuffix(text, "W")
	number, last := strings.CutPrefix(before, "L")
	if !last { // nW
		n, err := strconv.ParseUint(number, 10, 8)
		if err != nil || n < 1 || n > 31 {
			return p.fail(dayOfMonth.String(), item.text, item.offset, "want a day from 1 to 31 before W")
		}
		f.work |= 1 << n
		return nil
	}
	n := uint64(0)
	if number != "" { // L-n, L-nW
		low, high := uint64(1), uint64(31)
		if p.dialect == Quartz {
			low, high = 0, 30
		}
		digits, minus := strings.CutPrefix(number, "-")
		var err error
		n, err = strconv.ParseUint(digits, 10, 8)
		switch {
		case !minus || err != nil || n < low || n > high:
			return p.fail(dayOfMonth.String(), item.text, item.offset, "want L, LW, or L-n with n from %d to %d", low, high)
		case work && p.dialect != Quartz:
			return p.fail(dayOfMonth.String(), item.text, item.offset, "want L-n or LW: only quartz has L-nW")
		}
	}
	if work {
		f.lastWork |= 1 << n
	} else {
		f.last |= 1 << n
	}
	return nil
}

// parseWeekDays reads the day-of-week field.
func (p *parser) parseWeekDays(t part) error {
	f := &p.weekDays
	f.star = t.text[0] == '*' || t.text == "?"
	if t.text == "?" {
		f.plain = 1<<7 - 1
		return nil
	}
	for _, item := range t.list() {
		special := strings.HasSuffix(item.text, "L") || strings.HasSuffix(item.text, "l") || strings.Contains(item.text, "#")
		if p.dialect == Unix || !special {
			var plain set
			if err := p.parseItem(dayOfWeek, item, &plain); err != nil {
				return err
			}
			for v := plain.next(0); v < 8; v = plain.next(v + 1) {
				f.plain |= 1 << p.weekday(v)
			}
			continue
		}
		if p.dialect == Quartz && len(item.text) != len(t.text) {
			return p.fail(dayOfWeek.String(), item.text, item.offset, "quartz knows L and # only alone, not in a list")
		}
		if err := p.parseLastOrNth(item); err != nil {
			return err
		}
	}
	return nil
}

// parseLastOrNth reads dL and d#n, and Quartz' L, which is its last day of the week.
func (p *parser) parseLastOrNth(item part) error {
	f := &p.weekDays
	name, number, nth := item.cut("#")
	if !nth {
		name.text = name.text[:len(name.text)-1]
		if name.text == "" && p.dialect == Quartz {
			f.plain |= 1 << saturday
			return nil
		}
	}
	if name.text == "" {
		return p.fail(dayOfWeek.String(), item.text, item.offset, "want a weekday before L or #, as in FRIL or FRI#2")
	}
	d, err := p.parseValue(dayOfWeek, name)
	if err != nil {
		return err
	}
	weekday := uint8(1) << p.weekday(d)
	if !nth {
		f.last |= weekday
		return nil
	}
	n, err := strconv.ParseUint(number.text, 10, 16)
	switch {
	case err != nil || n < 1:
		return p.fail(dayOfWeek.String(), number.text, number.offset, "want a number from 1 to 5 after #")
	case n <= 5:
		f.nth[n] |= weekday
	case p.dialect == Quartz:
		return p.fail(dayOfWeek.String(), number.text, number.offset, "at most 5")
	}
	return nil // Spring takes a sixth and finds none
}

// weekday returns the weekday with Sunday being 0.
func (p *parser) weekday(v int) int {
	if p.dialect == Quartz {
		return v - 1
	}
	return v % 7
}
