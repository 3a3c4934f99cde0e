package jobs_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A schedule that has no tick any more is told from one that has none on purpose.
func TestNeverDue(t *testing.T) {
	t.Parallel()
	until, always := jobs.Calendar{Until: noon}, jobs.Calendar{Except: []string{"01-01..12-31"}}
	for _, test := range []struct {
		schedule jobs.Schedule
		want     bool
	}{
		{nil, false},
		{jobs.Manual(), false},
		{jobs.Cron(" - "), false},
		{jobs.Cron("0 0 30 2 *"), true},
		{jobs.Cron("0 0 29 2 *"), false},
		{jobs.At(noon), false}, // it has had its tick
		{jobs.Within(jobs.At(noon.Add(-time.Hour)), until), false},
		{jobs.Within(jobs.At(noon), until), true},
		{jobs.Within(jobs.Every(time.Hour), until), true},
		{jobs.Within(jobs.FixedRate(time.Hour), until), true},
		{jobs.FixedRate(time.Hour), false},
		{jobs.FixedDelay(time.Hour), false},
		{jobs.Within(jobs.FixedDelay(time.Hour), always), true},
	} {
		if got := jobs.NeverDue(test.schedule, noon); got != test.want {
			t.Errorf("%v: %t, want %t", test.schedule, got, test.want)
		}
	}
}
