package scheduler_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// Over a month with jobs of every minute and leaders that are killed at random,
// each tick has its row, and none ran twice.
func TestMonth(t *testing.T) {
	seed := seed(t)
	inBubble(t, func(c *cluster) {
		random := rand.New(rand.NewPCG(seed, 0))
		history := jobs.History{Keep: 1e6}
		declared := []jobs.Job{
			{Name: "minute", Schedule: jobs.Cron("* * * * *"), Misfire: jobs.MisfireAll, History: history},
			{Name: "rerun", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, Recover: jobs.RecoverRerun, Overlap: jobs.OverlapAllow, History: history, Do: sleep(2 * time.Second)},
		}
		timing := scheduler.WithTiming(lease.Timing{TTL: time.Minute})
		for range 3 {
			c.start(declared, timing)
		}
		const month = 30 * 24 * time.Hour
		kills := 0
		for ; time.Since(c.begin) < month; kills++ {
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Hour))))
			r := c.leader()
			r.kill()
			time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
			c.start(declared, timing)
		}
		time.Sleep(10 * time.Minute)
		for _, job := range []string{"minute", "rerun"} {
			c.wantOnce(job, jobs.Every(time.Minute), month)
			c.wantAllOver(job, len(c.records(job)))
		}
		for _, r := range c.records("rerun") {
			if r.State != jobs.Succeeded || r.Missed > 0 {
				t.Errorf("the tick %v is %v, missed %d", r.Tick, r.State, r.Missed)
			}
		}
		t.Logf("%d rows, %d kills", 2*len(c.records("rerun")), kills)
	})
}
