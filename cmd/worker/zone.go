package main

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// zones are the time zones in which a command prints the instants of jobs: nil
// for UTC.
type zones map[string]*time.Location

// zonesOf are those of the jobs' cron expressions and calendars, as the leader has them or, for
// jobs that none has had, as the file does.
func zonesOf(snapshot jobs.Snapshot, declared map[string]jobs.Schedule) zones {
	all := zones{}
	for name, schedule := range declared {
		all.add(name, schedule)
	}
	for name, known := range snapshot.Jobs {
		if schedule, ok := jobs.ParseSchedule(known.Schedule); ok {
			all.add(name, schedule)
		}
	}
	return all
}

func (z zones) add(job string, schedule jobs.Schedule) {
	delete(z, job)
	if s, ok := schedule.(interface{ Zone() string }); ok {
		if location, err := time.LoadLocation(s.Zone()); err == nil {
			z[job] = location
		}
	}
}

// in returns the instant as it is printed of a job.
func (z zones) in(job string, t time.Time) time.Time {
	if location := z[job]; location != nil {
		return t.In(location)
	}
	return t
}

// stampIn is the same for one that may be missing.
func (z zones) stampIn(job string, t *stamp) *stamp {
	if t == nil {
		return nil
	}
	return &stamp{Time: z.in(job, t.Time)}
}
