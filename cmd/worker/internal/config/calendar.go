package config

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
)

// withTicks are the keys of schedules that have ticks of their own.
var withTicks = []string{"cron", "every", "at", "fixed_rate", "fixed_delay"}

// calendarFile is a job's calendar while it is read.
type calendarFile struct {
	from, until time.Time
	except      []text
}

const instantForm = "an instant such as 2027-01-01T00:00:00Z"

// readInstant reads an instant. It returns the zero time after it has reported.
func readInstant(v value) time.Time {
	t, ok := readText(v, instantForm)
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, t.expanded)
	if err != nil || at.IsZero() {
		t.bad("expected %s", instantForm)
		return time.Time{}
	}
	return at
}

const exceptForm = "a day such as 2026-12-24 or 12-24, days such as 12-24..12-26, or a cron expression"

func readExcept(v value, f *jobFile) {
	readList(v, "a list of what is left out: "+exceptForm, func(v value) {
		if t, ok := readText(v, exceptForm); ok {
			f.calendar.except = append(f.calendar.except, t)
		}
	})
}

// within adds the calendar to the job's schedule.
func (f *jobFile) within(found map[string]value, s jobs.Schedule) jobs.Schedule {
	c := jobs.Calendar{From: f.calendar.from, Until: f.calendar.until}
	if f.zone != nil {
		c.Zone = f.zone.expanded
	}
	v, ok := s.(interface{ Err() error })
	if _, manual := s.(jobs.ManualSchedule); s == nil || manual || ok && v.Err() != nil {
		return s // reported
	}
	for _, t := range f.calendar.except {
		one := jobs.Within(s, jobs.Calendar{Except: []string{t.expanded}, Zone: c.Zone})
		err := one.(interface{ Err() error }).Err()
		var bad *cron.Error
		switch {
		case err == nil:
			c.Except = append(c.Except, t.expanded)
		case strings.Trim(t.raw, "0123456789-.") == "":
			t.bad("expected %s: no such day, or the last one comes before the first", exceptForm)
		case errors.As(err, &bad) && t.raw == t.expanded:
			t.bad("expected %s: %s: %s", exceptForm, bad.Field, bad.Reason)
		default:
			t.bad("expected %s", exceptForm)
		}
	}
	if until, ok := found["until"]; ok && !c.From.IsZero() && !c.Until.IsZero() && !c.Until.After(c.From) {
		until.report("expected an instant after from, %s", c.From.Format(time.RFC3339))
		return s
	}
	return jobs.Within(s, c)
}

// checkCounts reports a jitter or a limit of failures that does not fit the schedule
// or the history.
func checkCounts(found map[string]value, job jobs.Job) {
	if s, ok := job.Schedule.(interface{ Err() error }); job.Schedule == nil || ok && s.Err() != nil {
		return // reported
	}
	check := func(key, field string, j jobs.Job) {
		at, ok := found[key]
		if !ok {
			return
		}
		j.Name, j.Schedule, j.Do = "x", job.Schedule, func(context.Context, jobs.Run) error { return nil }
		if err := j.Validate(); err != nil {
			text := strings.TrimPrefix(err.Error(), `jobs: job "x": `+field+" ")
			at.report("%s", strings.NewReplacer("History.Keep", "history.keep", "History.For", "history.for").Replace(text))
		}
	}
	if _, manual := job.Schedule.(jobs.ManualSchedule); !manual { // reported
		check("jitter", "Jitter", jobs.Job{Jitter: job.Jitter})
	}
	check("pause_after", "PauseAfter", jobs.Job{PauseAfter: job.PauseAfter, History: job.History})
}
