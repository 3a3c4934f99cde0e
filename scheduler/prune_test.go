package scheduler_test

import (
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
