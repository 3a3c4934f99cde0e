package jobs

import (
	"context"
	"fmt"
	"time"
)

// NextTicks returns the next ticks of a schedule after an instant, at most n: those
// that the ledger has not had yet by what is known of the job. The zero Known will do
// for a schedule that is not [Relative]; of a fixed delay only the first one is known.
func NextTicks(s Schedule, known Known, after time.Time, n int) []time.Time {
	if relative, ok := s.(Relative); ok {
		s = relative.From(known)
		if known.Cursor.Before(known.ScheduleSince) {
			known.ScheduleSince = known.ScheduleSince.Add(-1) // the first tick may be the very instant
		}
	}
	after = later(after, later(known.Cursor, known.ScheduleSince))
	var ticks []time.Time
	for range n {
		if after = s.Next(after); after.IsZero() {
			break
		}
		ticks = append(ticks, after)
	}
	return ticks
}

// Next returns the next ticks of a job after the present instant of the database's
// clock, at most n, by the schedule that the ledger has. None has become due yet; a
// pause leaves out none. It is an error if [ParseSchedule] does not know the schedule:
// call [NextTicks] with it then.
func (g Group) Next(ctx context.Context, job string, n int) ([]time.Time, error) {
	snapshot, err := g.Load(ctx)
	if err != nil {
		return nil, err
	}
	known, ok := snapshot.Jobs[job]
	if !ok {
		return nil, noJob(snapshot, g.name, job)
	}
	s, ok := ParseSchedule(known.Schedule)
	if !ok {
		return nil, fmt.Errorf("jobs: job %q: its schedule is not one of this package: %.150s", job, known.Schedule)
	}
	return NextTicks(s, known, snapshot.Now, n), nil
}
