package scheduler_test

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// A schedule without a tick is logged once: at the start, or when the job is added.
func TestNeverDue(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, logs := observer.New(zap.WarnLevel)
		r := c.start([]jobs.Job{
			{Name: "leap", Schedule: jobs.Cron("0 0 30 2 *")},
			{Name: "over", Schedule: jobs.Within(jobs.Every(time.Second), jobs.Calendar{Until: c.begin})},
			{Name: "rate", Schedule: jobs.Within(jobs.FixedRate(time.Second), jobs.Calendar{Until: c.begin})},
			{Name: "off", Schedule: jobs.Cron("-")},
			{Name: "manual", Schedule: jobs.Manual()},
			{Name: "at", Schedule: jobs.At(c.begin)},
			{Name: "delay", Schedule: jobs.FixedDelay(time.Hour)},
			{Name: "good", Schedule: jobs.Within(jobs.Every(time.Hour), jobs.Calendar{From: c.begin.Add(time.Hour)})},
		}, scheduler.WithLogger(zap.New(core)))
		check(t, r.Add(jobs.Job{Name: "added", Schedule: jobs.Within(jobs.At(c.begin.Add(time.Hour)), jobs.Calendar{Except: []string{"01-01"}}), Do: sleep(0)}))
		c.until(time.Minute)
		got := map[string]int{}
		for _, line := range logs.FilterMessageSnippet("never due").All() {
			got[line.ContextMap()["job"].(string)]++
		}
		if len(got) != 4 || got["leap"] != 1 || got["over"] != 1 || got["rate"] != 1 || got["added"] != 1 {
			t.Errorf("warned of %v", got)
		}
	})
}
