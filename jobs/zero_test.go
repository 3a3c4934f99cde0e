package jobs_test

import (
	"context"
	"testing"

	"github.com/cronlease/cronlease/jobs"
)

// A group without a ledger answers with an error, and never with a panic.
func TestGroupWithoutALedger(t *testing.T) {
	t.Parallel()
	for _, g := range []jobs.Group{{}, jobs.NewGroup(nil, "g")} {
		_, triggered := g.Trigger(t.Context(), "job")
		_, runs := g.Runs(t.Context(), jobs.Filter{})
		_, loaded := g.Load(t.Context())
		for what, err := range map[string]error{
			"Pause": g.Pause(t.Context(), "job"), "Resume": g.Resume(t.Context(), "job"), "Cancel": g.Cancel(t.Context(), jobs.Key{}),
			"Trigger": triggered, "Runs": runs, "Load": loaded,
		} {
			if err == nil {
				t.Errorf("%s: no error", what)
			}
		}
	}
}

// The zero values of schedules are refused, except that of ManualSchedule.
func TestZeroSchedules(t *testing.T) {
	t.Parallel()
	for _, s := range []jobs.Schedule{jobs.EverySchedule{}, jobs.CronSchedule{}, jobs.AtSchedule{}, jobs.FixedRateSchedule{}, jobs.FixedDelaySchedule{}} {
		job := jobs.Job{Name: "job", Schedule: s, Do: func(context.Context, jobs.Run) error { return nil }}
		if err := job.Validate(); err == nil {
			t.Errorf("%T: no error", s)
		}
	}
}
