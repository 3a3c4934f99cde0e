package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// Calendar says when a schedule has no ticks. The zero value leaves all of them.
type Calendar struct {
	// From and Until bound the ticks: those before From, and from Until on, are
	// none. Zero: no bound.
	From, Until time.Time
	// Except leaves out days and times of day in Zone. Each is one of these:
	//
	//	2026-12-24               a day
	//	2026-12-24..2027-01-06   days from one to the other, both included
	//	12-24, 12-24..01-06      the same in each year
	//	* 0-6 * * *              what a cron expression matches
	//
	// A cron expression leaves out each instant at which the zone's clock shows a
	// matching time, in both passes of an hour that comes twice. Five fields match
	// whole minutes. Six are of seconds, in the dialect that the schedule has, if it
	// is a cron expression: "* * 0-6 * * *" is the same as the one above, and
	// "0 0 0-6 * * *" leaves out seven seconds of a day.
	Except []string
	// Zone is an IANA name. Empty: that of the schedule, if it is a cron expression,
	// and otherwise UTC.
	Zone string
}

// Within returns the schedule without the ticks that the calendar leaves out. A
// tick that is left out is none: it is neither missed nor skipped. A fixed delay
// that would end at such an instant has its tick at the first one that is not left
// out. What is wrong with the calendar is reported when the job is added.
//
// A search for a tick ends after 500,000 stretches of time that are left out, one
// after the other: the schedule then counts as never due. So write what is left out
// as whole days and hours where it is.
func Within(s Schedule, c Calendar) Schedule {
	if c.From.IsZero() && c.Until.IsZero() && len(c.Except) == 0 {
		return s
	}
	b := bounded{base: s, from: c.From.UTC().Truncate(time.Microsecond), until: c.Until.UTC().Truncate(time.Microsecond)}
	var wrong error
	b.exceptions, wrong = newExceptions(s, c)
	relative, ok := s.(Relative)
	_, isManual := s.(ManualSchedule)
	_, isAfter := s.(AfterSchedule)
	_, notifies := s.(NotifySchedule)
	switch _, twice := s.(interface{ within() Schedule }); {
	case wrong != nil:
		b.err = wrong
	case twice:
		b.err = errors.New("calendar: the schedule has one already")
	case s == nil:
		b.err = errors.New("calendar: no schedule: give one, for example jobs.Every(time.Minute)")
	case isManual:
		b.err = errors.New("calendar: a job that is only run by hand has no ticks to leave out")
	case isAfter:
		b.err = errors.New("calendar: a job after another one has that one's ticks: give the calendar to that")
	case notifies:
		b.err = errors.New("calendar: a job that tells of other jobs has no ticks to leave out")
	case !c.From.IsZero() && !c.Until.IsZero() && !c.Until.After(c.From):
		b.err = fmt.Errorf("calendar: until %s: must be later than from, %s", b.until.Format(time.RFC3339), b.from.Format(time.RFC3339))
	}
	if ok {
		return boundedRelative{b, relative}
	}
	return b
}

// Base returns the schedule that [Within] was given, and any other as it is.
func Base(s Schedule) Schedule {
	if b, ok := s.(interface{ within() Schedule }); ok {
		return b.within()
	}
	return s
}

// bounded is a schedule with a calendar.
type bounded struct {
	base        Schedule
	from, until time.Time
	*exceptions
	err error
}

func (b bounded) within() Schedule { return b.base }

// Err reports what is wrong with the schedule or its calendar.
func (b bounded) Err() error {
	if v, ok := b.base.(interface{ Err() error }); ok {
		if err := v.Err(); err != nil {
			return errors.Join(append(parts(err), parts(b.err)...)...)
		}
	}
	return b.err
}

// Zone is that of the days that are left out.
func (b bounded) Zone() string {
	if b.exceptions != nil {
		return b.zone
	}
	if z, ok := b.base.(interface{ Zone() string }); ok {
		return z.Zone()
	}
	return "UTC"
}

// maxPassed bounds how many stretches a search passes over, and the end of what
// package cron deals in how far it goes.
const maxPassed = 500_000

var endOfSearch = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)

// ends reports whether there are no ticks from an instant on.
func (b bounded) ends(t time.Time) bool {
	return !b.until.IsZero() && !t.Before(b.until) || b.exceptions != nil && !t.Before(endOfSearch)
}

// Next implements [Schedule].
func (b bounded) Next(after time.Time) time.Time {
	if b.Err() != nil {
		return time.Time{}
	}
	if first := b.from.Add(-1); !b.from.IsZero() && after.Before(first) {
		after = first
	}
	for range maxPassed {
		tick := b.base.Next(after)
		if tick.IsZero() || b.ends(tick) {
			return time.Time{}
		}
		end, out := b.leftOut(tick)
		if !out {
			return tick
		}
		after = end.Add(-1)
	}
	return time.Time{}
}

// first returns the first instant at or after t that is not left out: zero if
// there is none.
func (b bounded) first(t time.Time) time.Time {
	if b.Err() != nil {
		return time.Time{}
	}
	if t.Before(b.from) {
		t = b.from
	}
	for range maxPassed {
		end, out := b.leftOut(t)
		switch {
		case b.ends(t):
			return time.Time{}
		case !out:
			return t
		}
		t = end
	}
	return time.Time{}
}

func (b bounded) String() string {
	text := new(strings.Builder)
	if b.base == nil {
		text.WriteString("none")
	} else {
		text.WriteString(b.base.String())
	}
	if !b.from.IsZero() {
		text.WriteString("; from " + b.from.Format(time.RFC3339Nano))
	}
	if !b.until.IsZero() {
		text.WriteString("; until " + b.until.Format(time.RFC3339Nano))
	}
	if b.exceptions != nil {
		text.WriteString("; " + b.exceptions.String())
	}
	return text.String()
}

// boundedRelative is a relative schedule with a calendar.
type boundedRelative struct {
	bounded
	relative Relative
}

// Next implements [Schedule]: there is none without From.
func (b boundedRelative) Next(time.Time) time.Time { return time.Time{} }

// From implements [Relative].
func (b boundedRelative) From(known Known) Schedule {
	s := b.relative.From(known)
	if _, ok := b.relative.(FixedDelaySchedule); ok {
		if at := b.first(s.Next(time.Time{})); !at.IsZero() {
			return AtSchedule{at}
		}
		return Manual()
	}
	ruling := b.bounded
	ruling.base = s
	return ruling
}

// exceptions are the days and times that a calendar leaves out.
type exceptions struct {
	texts    []string
	zone     string
	location *time.Location
	days     []daySpan
	times    []*cron.Expression
}

// newExceptions returns those of a calendar of the schedule, and nil if there are
// none.
func newExceptions(s Schedule, c Calendar) (*exceptions, error) {
	if len(c.Except) == 0 {
		return nil, nil
	}
	e := &exceptions{texts: c.Except, zone: c.Zone}
	of, isCron := s.(CronSchedule)
	if isCron && e.zone == "" {
		e.zone = of.zone
	}
	if e.zone == "" {
		e.zone = "UTC"
	}
	var wrong []error
	var err error
	if e.location, err = zoneNamed(e.zone); err != nil {
		wrong = append(wrong, err)
		e.location = time.UTC // to find what else is wrong
	}
	for _, text := range c.Except {
		if span, ok := parseDays(text); ok {
			e.days = append(e.days, span)
			continue
		}
		dialect := cron.Auto
		if isCron && of.dialect == cron.Quartz && len(strings.Fields(text)) > 5 {
			dialect = cron.Quartz
		}
		times, err := cron.Parse(text, cron.WithDialect(dialect), cron.In(e.location))
		switch {
		case err != nil && len(strings.Fields(text)) == 1 && strings.Trim(text, "0123456789-.") == "":
			wrong = append(wrong, fmt.Errorf("except %.100q: expected a day such as 2026-12-24 or 12-24, days such as 12-24..12-26, or a cron expression: no such day, or the last one comes before the first", text))
		case err != nil:
			wrong = append(wrong, fmt.Errorf("except %.100q: expected a day such as 2026-12-24 or 12-24, days such as 12-24..12-26, or a cron expression: %w", text, err))
		}
		e.times = append(e.times, times)
	}
	return e, errors.Join(wrong...)
}

// leftOut reports whether an instant is left out, and how far that goes on at
// least.
func (e *exceptions) leftOut(t time.Time) (end time.Time, out bool) {
	if e == nil {
		return time.Time{}, false
	}
	local := t.In(e.location)
	y, m, d := local.Date()
	for _, span := range e.days {
		if span.covers(day{y, m, d}) {
			h, m, s := local.Clock()
			end = t.Truncate(time.Second).Add(24*time.Hour - time.Duration(h)*time.Hour - time.Duration(m)*time.Minute - time.Duration(s)*time.Second)
			if _, change := local.ZoneBounds(); change.After(t) && change.Before(end) {
				end = change // the day ends earlier or later than the clock says now
			}
			return end.UTC(), true
		}
	}
	for _, times := range e.times {
		if until, covered := times.Covers(t); covered {
			return until, true
		}
	}
	return time.Time{}, false
}

func (e *exceptions) String() string {
	quoted := make([]string, len(e.texts))
	for i, text := range e.texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return "except " + strings.Join(quoted, ", ") + " in " + e.zone
}

// day is a date. Year 0 stands for each year.
type day struct {
	year  int
	month time.Month
	day   int
}

func (d day) before(other day) bool {
	return cmp.Or(cmp.Compare(d.year, other.year), cmp.Compare(d.month, other.month), cmp.Compare(d.day, other.day)) < 0
}

// daySpan are the days from first to last.
type daySpan struct{ first, last day }

func (s daySpan) covers(d day) bool {
	if s.first.year == 0 {
		d.year = 0
		if s.last.before(s.first) { // over the end of the year
			return !d.before(s.first) || !s.last.before(d)
		}
	}
	return !d.before(s.first) && !s.last.before(d)
}

// parseDays reads a day, or days from one to another.
func parseDays(text string) (daySpan, bool) {
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		to = from
	}
	first, ok1 := parseDay(from)
	last, ok2 := parseDay(to)
	ordered := first.year == 0 || !last.before(first)
	return daySpan{first, last}, ok1 && ok2 && (first.year == 0) == (last.year == 0) && ordered
}

func parseDay(text string) (day, bool) {
	if t, err := time.Parse(time.DateOnly, text); err == nil && t.Year() > 0 {
		return day{t.Year(), t.Month(), t.Day()}, true
	}
	t, err := time.Parse(time.DateOnly, "2000-"+text) // a leap year
	return day{0, t.Month(), t.Day()}, err == nil
}
