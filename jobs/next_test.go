package jobs_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/jobs"
)

// Of a schedule that counts from when it rules, the first tick may be that very instant, also of a job that had
// ticks of another schedule before. What shows ticks and what looks for late ones agree.
func TestFirstTickOfAChangedSchedule(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		cursor time.Time
		want   time.Time
	}{
		"of a new job":                  {time.Time{}, since},
		"after ticks of another":        {since.Add(-time.Hour), since},
		"which was claimed":             {since, since.Add(time.Minute)},
		"of which later ones have run":  {since.Add(time.Minute), since.Add(2 * time.Minute)},
		"after a tick in between, once": {since.Add(90 * time.Second), since.Add(2 * time.Minute)},
	} {
		known := jobs.Known{Since: since.Add(-2 * time.Hour), ScheduleSince: since, Cursor: test.cursor}
		ticks := jobs.NextTicks(jobs.FixedRate(time.Minute), known, since.Add(-time.Hour), 1)
		if len(ticks) != 1 || !ticks[0].Equal(test.want) {
			t.Errorf("the tick %s: NextTicks says %v, want %v", name, ticks, test.want)
		}
		if got := overdue.NextTick(jobs.FixedRate(time.Minute), known, since.Add(-time.Hour), false); !got.Equal(test.want) {
			t.Errorf("the tick %s: overdue says %v, want %v", name, got, test.want)
		}
	}
}
