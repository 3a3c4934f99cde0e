package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// bounds returns the lowest and the highest value of a field in the parser's dialect.
func (p *parser) bounds(f field) (low, high int) {
	switch f {
	case hours:
		return 0, 23
	case dayOfMonth:
		return 1, 31
	case month:
		return 1, 12
	case dayOfWeek:
		if p.dialect == Quartz {
			return 1, 7
		}
		return 0, 7
	case year:
		return 1970, 2099
	}
	return 0, 59
}

// want says what a field may hold, for errors.
func (p *parser) want(f field) string {
	low, high := p.bounds(f)
	s := fmt.Sprintf("want a number from %d to %d, *, or a list, range or step of these", low, high)
	switch {
	case f == month:
		s += ", or names such as JAN"
	case f == dayOfMonth && p.dialect == Unix:
		s += ", or ? (L and W are spring and quartz)"
	case f == dayOfMonth && p.dialect == Spring:
		s += ", or ?, L, L-n, LW, nW"
	case f == dayOfMonth:
		s += ", or ?, L, L-n, LW, L-nW, nW"
	case f == dayOfWeek && p.dialect == Unix:
		s += ", or ?, names such as MON (L and # are spring and quartz)"
	case f == dayOfWeek:
		s += ", or ?, names such as MON, FRIL, FRI#2"
	}
	return s
}

// parseSet reads a list of values, ranges and steps into s.
func (p *parser) parseSet(f field, list part, s *set) error {
	for _, item := range list.list() {
		if err := p.parseItem(f, item, s); err != nil {
			return err
		}
	}
	return nil
}

// parseItem reads one of *, a and a-b, each with or without /step.
func (p *parser) parseItem(f field, item part, s *set) error {
	span, stepText, stepped := item.cut("/")
	step := 1
	if stepped {
		var err error
		if step, err = p.parseStep(f, span, stepText); err != nil {
			return err
		}
	}
	a, b, err := p.parseSpan(f, span, stepped)
	if err != nil {
		return err
	}
	named := (f == month || f == dayOfWeek) && span.text != "" && span.text[0] >= 'A'
	if stepped && named && p.dialect == Quartz {
		return p.fail(f.String(), stepText.text, stepText.offset, "quartz ignores a step after a name: write numbers instead of %s", span.text)
	}
	low, high := p.bounds(f)
	for ; a <= b; a += step {
		v := a
		if v > high { // Quartz lets a range go on over the end
			v -= high - low + 1
		}
		if f == year {
			v -= baseYear // or it would not fit
		}
		s.add(v)
	}
	return nil
}

// parseStep reads the step that follows span.
func (p *parser) parseStep(f field, span, step part) (int, error) {
	n, err := strconv.ParseUint(step.text, 10, 16)
	switch limit := quartzStep(f); {
	case err != nil || n < 1:
		return 0, p.fail(f.String(), step.text, step.offset, "want a step of 1 or more after /")
	case p.dialect != Quartz:
	case int(n) > limit && !strings.Contains(span.text, "-"):
		return 0, p.fail(f.String(), step.text, step.offset, "at most %d: quartz takes no greater step here", limit)
	}
	return int(n), nil
}

// quartzStep returns the greatest step Quartz takes after * or a number.
func quartzStep(f field) int {
	return [...]int{59, 59, 23, 31, 12, 7, 1<<16 - 1}[f]
}

// parseSpan reads *, a or a-b and returns the first and the last value; the last may be past the end in Quartz.
func (p *parser) parseSpan(f field, span part, stepped bool) (a, b int, err error) {
	low, high := p.bounds(f)
	if f == dayOfWeek && p.dialect == Unix {
		high = saturday // 7 is Sunday again: a step must not count it twice
	}
	if span.text == "*" || span.text == "" && stepped && p.dialect == Quartz {
		if f == dayOfWeek && p.dialect == Spring {
			low = 1 // steps start on Monday
		}
		return low, high, nil
	}
	from, to, ranged := span.cut("-")
	if a, err = p.parseValue(f, from); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		if b, err = p.parseValue(f, to); err != nil {
			return 0, 0, err
		}
	case stepped:
		b = high
	default:
		return a, a, nil
	}
	if f == dayOfWeek {
		a, b = p.sundays(a, b, ranged)
	}
	switch {
	case a <= b:
	case p.dialect == Quartz && f != year:
		b += high - low + 1
	default:
		return 0, 0, p.fail(f.String(), span.text, span.offset, "ends before it starts: list two ranges instead")
	}
	return a, b, nil
}

// sundays settles which of its two numbers a Sunday at the end of a span has.
func (p *parser) sundays(a, b int, ranged bool) (int, int) {
	switch p.dialect {
	case Spring:
		if a == 7 && ranged { // so 7-7 is the whole week, as it is in Spring
			a = 0
		}
	case Unix:
		switch {
		case ranged && a == b:
		case a == 7:
			a = 0
		case ranged && b == 0:
			b = 7
		}
	}
	return a, b
}

// parseValue reads a number or a name.
func (p *parser) parseValue(f field, value part) (int, error) {
	low, high := p.bounds(f)
	if f == month || f == dayOfWeek {
		if n := p.parseName(f, value.text); n >= 0 {
			return n, nil
		}
	}
	n, err := strconv.ParseUint(value.text, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > uint64(high):
		return 0, p.fail(f.String(), value.text, value.offset, "at most %d", high)
	case err != nil:
		return 0, p.fail(f.String(), value.text, value.offset, "%s", p.want(f))
	case n < uint64(low):
		return 0, p.fail(f.String(), value.text, value.offset, "at least %d", low)
	}
	return int(n), nil
}

// parseName returns the value of a name, -1 when it is none.
func (p *parser) parseName(f field, name string) int {
	names := "SUNMONTUEWEDTHUFRISAT"
	if f == month {
		names = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
	}
	const lower = 'a' - 'A'
	i := 0
	for len(name) != 3 || name[0]&^lower != names[i] || name[1]&^lower != names[i+1] || name[2]&^lower != names[i+2] {
		if i += 3; i == len(names) {
			return -1
		}
	}
	switch {
	case f == month || p.dialect == Quartz:
		return i/3 + 1
	case p.dialect == Spring && i == 0:
		return 7
	}
	return i / 3
}

// list cuts a part at its commas.
func (t part) list() (items []part) {
	offset := t.offset
	for item := range strings.SplitSeq(t.text, ",") {
		items = append(items, part{item, offset})
		offset += len(item) + 1
	}
	return items
}

// cut cuts a part around the first separator.
func (t part) cut(separator string) (before, after part, found bool) {
	a, b, found := strings.Cut(t.text, separator)
	return part{a, t.offset}, part{b, t.offset + len(t.text) - len(b)}, found
}
