package jobs

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// CronSchedule has its ticks where a cron expression matches. See [Cron].
type CronSchedule struct {
	expression string
	zone       string
	dialect    cron.Dialect
	dst        cron.DST
	parsed     *cron.Expression
	err        error
}

// Cron has its ticks where the expression matches, in UTC unless [CronSchedule.In]
// says otherwise. Five fields are Unix cron, six (the first for seconds) are
// Spring's; [CronSchedule.Dialect] chooses another dialect. What is wrong with
// the expression is reported when the job is added.
func Cron(expression string) CronSchedule {
	return CronSchedule{expression: expression, zone: "UTC"}.parse()
}

// In returns the schedule in a time zone by its IANA name, such as
// "Europe/Berlin". The names come from the machine or, where it has none, from
// the package time/tzdata if the program imports it.
func (s CronSchedule) In(zone string) CronSchedule {
	s.zone = zone
	return s.parse()
}

// Dialect returns the schedule with its expression read as another dialect.
func (s CronSchedule) Dialect(d cron.Dialect) CronSchedule {
	s.dialect = d
	return s.parse()
}

// DST returns the schedule with another rule for clock changes.
func (s CronSchedule) DST(p cron.DST) CronSchedule {
	s.dst = p
	return s.parse()
}

func (s CronSchedule) parse() CronSchedule {
	s.parsed, s.err = nil, nil
	location, wrong := zoneNamed(s.zone)
	if wrong != nil {
		location = time.UTC // to find what is wrong with the expression, too
	}
	parsed, err := cron.Parse(s.expression, cron.In(location), cron.WithDialect(s.dialect), cron.WithDST(s.dst))
	switch {
	case wrong == nil && err == nil:
		s.parsed = parsed
	case wrong == nil:
		s.err = err
	case err == nil:
		s.err = wrong
	default:
		s.err = errors.Join(wrong, err)
	}
	return s
}

// locations caches zones by name. A zone that is loaded twice has two pointers, and
// each job in a list would then keep its own table of the zone's changes.
var locations sync.Map

// zoneNamed returns the zone of an IANA name. LoadLocation takes "" for UTC and
// "Local" for whatever the machine has: neither is the same on every replica.
func zoneNamed(name string) (*time.Location, error) {
	location, err := loadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("zone %q: not known: give an IANA name such as Europe/Berlin", name)
	}
	return location, nil
}

func loadLocation(name string) (*time.Location, error) {
	if known, ok := locations.Load(name); ok {
		return known.(*time.Location), nil
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	known, _ := locations.LoadOrStore(name, location)
	return known.(*time.Location), nil
}

// Zone is the zone's name.
func (s CronSchedule) Zone() string { return s.zone }

// Err reports what is wrong with the expression or the zone; a [*cron.Error]
// points at the field.
func (s CronSchedule) Err() error {
	if s.err == nil && s.parsed == nil {
		return errors.New("cron: no expression: make the schedule with jobs.Cron")
	}
	return s.err
}

// Next implements [Schedule].
func (s CronSchedule) Next(after time.Time) time.Time {
	if s.parsed == nil {
		return time.Time{}
	}
	return s.parsed.Next(after)
}

// Prev implements [Backward].
func (s CronSchedule) Prev(before time.Time) time.Time {
	if s.parsed == nil {
		return time.Time{}
	}
	return s.parsed.Prev(before)
}

func (s CronSchedule) String() string {
	return fmt.Sprintf("cron %q in %s, %s, dst %s", s.expression, s.zone, s.dialect, s.dst)
}
