package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// The history of a job is kept as it says, and its cursor with it.
func TestHistoryIsPruned(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "keep", Schedule: jobs.Every(time.Second), History: jobs.History{Keep: 10}},
			{Name: "for", Schedule: jobs.Every(time.Minute), History: jobs.History{For: time.Hour}},
			{Name: "once", Schedule: jobs.At(c.begin.Add(time.Minute)), History: jobs.History{For: time.Minute}},
		})
		c.until(10 * time.Minute)
		if n := len(c.records("keep")); n < 10 || n > 10+201 {
			t.Errorf("%d rows, want 10 and at most 200 more", n)
		}
		c.until(6 * time.Hour)
		if n := len(c.records("for")); n < 60 || n > 121 {
			t.Errorf("%d rows, want those of an hour and at most one more hour", n)
		}
		r.stop()
		c.wantRows("once", "1m succeeded")
	})
}

// Jobs that do not run are pruned once a day, and not each hour: their rows only grow
// old.
func TestJobsAtRestArePrunedOnceADay(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "trigger", Schedule: jobs.Manual(), History: jobs.History{For: time.Hour}}}
		for i := range 100 {
			declared = append(declared, jobs.Job{Name: fmt.Sprint("rest-", i), Schedule: jobs.Manual()})
		}
		r := c.start(declared)
		_, err := c.Trigger(t.Context(), "trigger")
		check(t, err)
		c.until(50 * time.Hour)
		r.link.mu.Lock()
		sent := r.link.sent["Prune"]
		r.link.mu.Unlock()
		if most := 3*len(declared) + 20; sent < len(declared) || sent > most {
			t.Errorf("%d statements in 50 hours, want about two for each of %d jobs", sent, len(declared))
		}
		if n := len(c.records("trigger")); n != 0 {
			t.Errorf("%d rows of a job are kept that ran two days ago, and whose rows are for an hour", n)
		}
	})
}
