package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// What needs the ledger is an error for a job that runs everywhere, and all of it is
// named at once.
func TestValidateEverywhere(t *testing.T) {
	t.Parallel()
	do := func(context.Context, jobs.Run) error { return nil }
	ok := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: do, Timeout: time.Second, LockAtMostFor: time.Second, Jitter: time.Second, Retry: jobs.Retry{Attempts: 2}}
	for _, spread := range []bool{false, true} {
		if err := ok.ValidateIn(spread); err != nil {
			t.Error(err)
		}
	}
	bad := jobs.Job{
		Name: "job", Schedule: jobs.Manual(), Everywhere: true, Do: do, Misfire: jobs.MisfireSkip, CatchUp: jobs.CatchUp{Limit: 1}, Recover: jobs.RecoverRerun,
		Overlap: jobs.OverlapQueue, LockAtLeastFor: time.Second, History: jobs.History{Keep: 10}, PauseAfter: 3,
	}
	err := bad.ValidateIn(false)
	for _, want := range []string{"cannot be triggered", "Misfire does", "CatchUp does", "Recover does", "Overlap does", "LockAtLeastFor does", "History does", "PauseAfter does"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no %q", err, want)
		}
	}
	if err := bad.ValidateIn(true); err != nil {
		t.Error(err)
	}
	bad.Everywhere = false
	if err := bad.ValidateIn(false); err != nil {
		t.Error(err)
	}
}

// Where runs are spread, it is divided as jobs with shards are, and what does not apply to those does not to it.
func TestValidateEverywhereSpread(t *testing.T) {
	t.Parallel()
	bad := jobs.Job{
		Name: "a" + strings.Repeat("b", 122), Schedule: jobs.OnFailure(), Everywhere: true, Do: func(context.Context, jobs.Run) error { return nil }, Overlap: jobs.OverlapAllow,
		ConcurrencyKey: "x", Sticky: true, Prefer: jobs.Labels{"a": "b"}, Shards: 2,
	}
	for _, want := range []string{"Shards does not apply to a job that runs everywhere", "at most 121 bytes"} {
		if err := bad.ValidateIn(true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no %q", err, want)
		}
	}
	bad.Shards = 0
	for _, want := range []string{"Everywhere, which divides its runs: ", "at most 121 bytes", "tells of no other jobs", "ConcurrencyKey does", "Sticky does", "Prefer does"} {
		if err := bad.ValidateIn(true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no %q", err, want)
		}
	}
}
