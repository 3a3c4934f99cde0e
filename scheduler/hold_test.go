package scheduler_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// Each run is done under its term's hold, whatever started it: its tick, a gap, a
// retry, a recovery or a manual trigger.
func TestRunsHaveTheirTermsHold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var mu sync.Mutex
		seen := map[string]int{}
		count := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen[what]++
		}
		do := func(ctx context.Context, run jobs.Run) error {
			holds := lease.Holds(ctx)
			if len(holds) != 1 || holds[0].Kind != lease.HoldLease || holds[0].Name != run.Group || holds[0].Owner != run.Owner || holds[0].Token != run.Token {
				c.Errorf("%s at %v has the holds %+v, not those of %s under token %d", run.Job, run.Tick, holds, run.Owner, run.Token)
				return nil
			}
			if !holds[0].Trusted() {
				c.Errorf("%s at %v began untrusted", run.Job, run.Tick)
			}
			switch {
			case run.Trigger != 0:
				count("by hand")
			case run.Missed > 0:
				count("after a gap")
			case run.Attempt > 1:
				count(run.Job)
			default:
				count("tick")
			}
			if run.Job == "retry" && run.Attempt == 1 {
				return errWork
			}
			if run.Job == "recover" && run.Attempt == 1 {
				<-ctx.Done()
				if holds[0].Trusted() {
					c.Error("trusted after its term")
				}
				return ctx.Err()
			}
			return nil
		}
		declared := []jobs.Job{
			{Name: "gap", Schedule: jobs.Every(time.Minute), Do: do},
			{Name: "retry", Schedule: jobs.Every(time.Hour), Retry: jobs.Retry{Attempts: 2}, Do: do},
			{Name: "recover", Schedule: jobs.Every(time.Hour), Recover: jobs.RecoverRerun, Do: do},
		}
		first := c.start(declared)
		c.until(time.Hour + 90*time.Second)
		if _, err := c.Trigger(c.Context(), "gap"); err != nil {
			c.Error(err)
		}
		c.until(time.Hour + 100*time.Second)
		first.stop()
		c.until(time.Hour + 10*time.Minute)
		c.start(declared)
		c.until(time.Hour + 12*time.Minute)
		for _, what := range []string{"tick", "after a gap", "by hand", "retry", "recover"} {
			if seen[what] == 0 {
				c.Errorf("no run: %s (%v)", what, seen)
			}
		}
	})
}
