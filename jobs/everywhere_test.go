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
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	bad := jobs.Job{
		Name: "job", Schedule: jobs.Manual(), Everywhere: true, Do: do, Misfire: jobs.MisfireSkip, CatchUp: jobs.CatchUp{Limit: 1}, Recover: jobs.RecoverRerun,
		Overlap: jobs.OverlapQueue, LockAtLeastFor: time.Second, History: jobs.History{Keep: 10}, PauseAfter: 3,
	}
	err := bad.Validate()
	for _, want := range []string{"cannot be triggered", "Misfire does", "CatchUp does", "Recover does", "Overlap does", "LockAtLeastFor does", "History does", "PauseAfter does"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no %q", err, want)
		}
	}
	bad.Everywhere = false
	if err := bad.Validate(); err != nil {
		t.Error(err)
	}
}
