package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A group without a ledger answers with an error, and never with a panic; and so does one
// whose ledger keeps no archive and knows no replicas, where it needs them.
func TestGroupWithoutALedger(t *testing.T) {
	t.Parallel()
	past := jobs.Backfill{From: noon, To: noon.Add(time.Hour)}
	for _, g := range []jobs.Group{{}, jobs.NewGroup(nil, "g"), jobs.NewGroup(struct{ jobs.Control }{ledger(t)}, "g")} {
		ctx, errs, more := t.Context(), map[string]error{}, map[string]error{}
		_, more["Args"] = g.Args(ctx, jobs.Key{})
		_, more["Trigger"] = g.Trigger(ctx, "job")
		_, more["Run"] = g.Run(ctx, jobs.Key{})
		_, more["Next"] = g.Next(ctx, "job", 1)
		_, more["Backfill"] = g.Backfill(ctx, "job", past)
		_, more["CancelBackfills"] = g.CancelBackfills(ctx, "job")
		more["Pause"], more["Resume"], more["Cancel"] = g.Pause(ctx, "job"), g.Resume(ctx, "job"), g.Cancel(ctx, jobs.Key{})
		more["ResumeSkipping"] = g.ResumeSkipping(ctx, "job")
		_, runs := g.Runs(ctx, jobs.Filter{})
		_, loaded := g.Load(ctx)

		_, errs["Roster"] = g.Roster(ctx)
		errs["Forget"] = g.Forget(ctx, "job")
		_, errs["Names"] = g.Names(ctx)
		_, errs["LoadOf"] = g.LoadOf(ctx, nil)
		_, errs["Newest"] = g.Newest(ctx, jobs.Newest{})
		_, errs["Counts"] = g.Counts(ctx, jobs.CountFilter{})
		_, errs["Audit"] = g.Audit(ctx, jobs.AuditFilter{})
		_, errs["PausedBy"] = g.PausedBy(ctx)
		_, errs["Terms"] = g.Terms(ctx, jobs.TermFilter{})
		_, errs["Attempts"] = g.Attempts(ctx, jobs.Key{})
		_, errs["Output"] = g.Output(ctx, jobs.Key{})
		has := loaded == nil
		if has != (runs == nil) {
			t.Errorf("Runs: %v, Load: %v", runs, loaded)
		}
		for what, err := range errs {
			if err == nil || errors.Is(err, errors.ErrUnsupported) != has {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, err := range more {
			if err == nil || errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v", what, err)
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
