package cron

import "time"

// Expression is a parsed cron expression. It is immutable and safe for concurrent use.
type Expression struct {
	text     string
	calendar calendar
	zone     *zone
	disabled bool // nothing matches
	minutes  bool // it has no field for seconds: see Covers
	// onceADay makes a repeated time count in its first pass only, and a skipped one at the instant it would have come
	// without the change. Otherwise a time counts whenever the wall clock shows it.
	onceADay bool
	native   *native // set when the search of the dialect's own engine is asked for
}

// Option sets how Parse reads an expression.
type Option func(*config)

type config struct {
	dialect Dialect
	dst     DST
	loc     *time.Location
}

// In sets the time zone whose clocks the expression is about. The default, and nil, is UTC. The package brings no time
// zone data: a binary that must not depend on its machine's should import time/tzdata.
func In(loc *time.Location) Option { return func(c *config) { c.loc = loc } }

// WithDialect sets the rules to read the expression by. The default is Auto.
func WithDialect(d Dialect) Option { return func(c *config) { c.dialect = d } }

// WithDST sets what happens when the clocks are changed. The default is Once.
func WithDST(p DST) Option { return func(c *config) { c.dst = p } }

// Parse reads an expression. The error, if any, is an *Error.
func Parse(expression string, options ...Option) (*Expression, error) {
	c := config{loc: time.UTC}
	for _, option := range options {
		if option == nil {
			return nil, (&parser{expression: expression}).fail("option", "nil", 0, "want one that is not nil, or none")
		}
		option(&c)
	}
	if c.loc == nil {
		c.loc = time.UTC
	}
	p := &parser{expression: expression, dialect: c.dialect}
	if c.dialect > Quartz {
		return nil, p.fail("dialect", c.dialect.String(), 0, "want auto, unix, spring or quartz")
	}
	if c.dst > Native {
		return nil, p.fail("dst", c.dst.String(), 0, "want once or native")
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	e := &Expression{text: expression, disabled: p.disabled, minutes: p.dialect == Unix}
	if e.disabled {
		return e, nil
	}
	e.zone = zoneOf(c.loc)
	e.calendar = calendar{
		seconds: p.sets[seconds][0],
		minutes: p.sets[minutes][0],
		hours:   uint32(p.sets[hours][0]),
		months:  uint16(p.sets[month][0]),
		days:    table(p.dialect, &p.monthDays, &p.weekDays),
		years:   p.years(),
	}
	switch {
	case c.dst == Once:
		e.onceADay = e.calendar.hours != 1<<24-1
	case p.dialect != Unix:
		e.native = &native{p.dialect, &e.calendar, e.zone, p.monthDays, p.weekDays}
	}
	// What can match on no day at all is known now, so that no search has to find out.
	_, found := e.next(firstInstant)
	e.disabled = !found
	return e, nil
}

// String returns the expression as it was given to Parse.
func (e *Expression) String() string { return e.text }

// Next returns the first instant that is strictly later than after and matches, in UTC and in whole seconds. It is the
// zero time when there is none before the year 2200, and always for "-". An instant before 1970 counts as the end of
// 1969.
func (e *Expression) Next(after time.Time) time.Time {
	s := after.Unix()
	if e.disabled || s >= endInstant-1 {
		return time.Time{}
	}
	s = max(s, firstInstant-1)
	t, ok := e.next(s + 1)
	if !ok {
		return time.Time{}
	}
	if e.native != nil {
		t = e.native.next(s, t)
	}
	return time.Unix(t, 0).UTC()
}

// Prev returns the last instant that is strictly earlier than before and matches, in UTC and in whole seconds. It is
// the zero time when there is none since 1970, and always for "-". An instant after 2199 counts as the start of 2200.
//
// Under Native an instant matches if Next returns it when asked one second earlier.
func (e *Expression) Prev(before time.Time) time.Time {
	s := before.Unix()
	if before.Nanosecond() == 0 {
		s--
	}
	if e.disabled || s < firstInstant {
		return time.Time{}
	}
	t, ok := e.prev(s)
	for ok && e.native != nil && e.native.next(t-1, t) != t {
		t, ok = e.prev(t - 1)
	}
	if !ok {
		return time.Time{}
	}
	return time.Unix(t, 0).UTC()
}
