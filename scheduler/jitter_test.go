package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// start is when the run of a tick of the job is due, since the cluster's begin.
func (c *cluster) starts(job jobs.Job, tick time.Duration) time.Duration {
	return tick + job.Delay("g", c.begin.Add(tick))
}

// wantStarted compares when the runs of a job began, to the microsecond.
func (c *cluster) wantStarted(job string, want ...time.Duration) {
	c.Helper()
	runs := c.runs(job)
	same := len(runs) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = (runs[i].began - want[i]).Abs() <= 10*time.Microsecond
	}
	if !same {
		c.Errorf("%s: ran %+v, want %v", job, runs, want)
	}
}

// Many jobs of one instant start one after the other, each at an instant of its own
// that every replica knows. The tick stays what it is.
func TestJitterSpreads(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var declared []jobs.Job
		const many = 1000
		for i := range many {
			declared = append(declared, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Cron("0 1 * * *"), Jitter: 30 * time.Second})
		}
		c.start(declared)
		c.until(2 * time.Hour)
		var seconds [30]int
		for _, job := range declared {
			c.wantStarted(job.Name, c.starts(job, time.Hour))
			c.wantRows(job.Name, "1h succeeded")
			run := c.runs(job.Name)[0]
			seconds[int((run.began-time.Hour)/time.Second)]++
		}
		if least, most := slices.Min(seconds[:]), slices.Max(seconds[:]); least < many/90 || most > many/15 {
			t.Errorf("starts in each second: %v", seconds)
		}
	})
}

// A run that waits for its start goes on waiting under the next leader, and one whose
// start has passed is not put off again.
func TestJitterSurvivesATakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Jitter: 30 * time.Minute}
		early := jobs.Job{Name: "early", Schedule: jobs.Every(time.Hour), Jitter: time.Second}
		declared := []jobs.Job{job, early}
		first := c.watched(2, declared)
		want := c.starts(job, time.Hour)
		if want < time.Hour+time.Minute {
			t.Fatalf("the run starts at %v: too early for this test", want)
		}
		c.until(time.Hour + 10*time.Second)
		c.wantRows("job", "1h waiting")
		first.kill()
		c.until(want + time.Second)
		c.wantStarted("job", want)
		c.leader().stop()
		c.until(2*time.Hour + time.Minute)
		c.start(declared)
		c.until(3*time.Hour - time.Second)
		c.wantRows("job", "1h succeeded", "2h succeeded")
		c.wantStarted("job", want, max(2*time.Hour+time.Minute, c.starts(job, 2*time.Hour)))
		c.wantStarted("early", c.starts(early, time.Hour), 2*time.Hour+time.Minute)
	})
}

// A start deadline counts from the planned start, and a pause holds back what waits
// for it.
func TestJitterWithADeadlineAndAPause(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Jitter: 30 * time.Minute, CatchUp: jobs.CatchUp{Deadline: time.Second}}
		paused := jobs.Job{Name: "paused", Schedule: jobs.Every(time.Hour), Jitter: 30 * time.Minute}
		c.start([]jobs.Job{job, paused})
		c.until(time.Hour + time.Second)
		check(t, c.Pause(t.Context(), "paused"))
		c.until(time.Hour + 40*time.Minute)
		c.wantRows("paused", "1h waiting")
		check(t, c.Resume(t.Context(), "paused"))
		c.until(time.Hour + 50*time.Minute)
		c.wantRows("paused", "1h succeeded")
		c.wantRows("job", "1h succeeded")
		c.wantStarted("job", c.starts(job, time.Hour))
	})
}

// The run before goes on until the one that replaces it starts.
func TestJitterUnderReplace(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Jitter: 20 * time.Minute, Overlap: jobs.OverlapReplace, Do: sleep(2 * time.Hour)}
		c.start([]jobs.Job{job})
		c.until(2*time.Hour + 30*time.Minute)
		c.wantRows("job", "1h cancelled: jobs: replaced by a newer tick*", "2h running")
		c.wantStarted("job", c.starts(job, time.Hour), c.starts(job, 2*time.Hour))
		if ended := c.runs("job")[0].ended; (ended - c.starts(job, 2*time.Hour)).Abs() > time.Millisecond {
			t.Errorf("the first run ended at %v", ended)
		}
	})
}
