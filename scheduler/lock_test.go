package scheduler_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// locked are jobs that are occupied for 80 s by a run of 10 s.
func locked(begin time.Time) []jobs.Job {
	job := func(name string, overlap jobs.Overlap, s jobs.Schedule) jobs.Job {
		return jobs.Job{Name: name, Schedule: s, Overlap: overlap, LockAtLeastFor: 80 * time.Second, Do: sleep(10 * time.Second)}
	}
	minute := jobs.Every(time.Minute)
	twice := job("twice", jobs.OverlapAllow, minute)
	twice.Limit = 2
	rerun := job("rerun", jobs.OverlapForbid, jobs.At(begin.Add(time.Minute)))
	rerun.Recover, rerun.Do = jobs.RecoverRerun, sleep(20*time.Second)
	return []jobs.Job{
		job("forbid", jobs.OverlapForbid, minute), job("queue", jobs.OverlapQueue, minute), twice, rerun,
		job("delay", jobs.OverlapForbid, jobs.FixedDelay(20*time.Second).InitialDelay(time.Minute)),
		job("manual", jobs.OverlapForbid, jobs.Manual()),
	}
}

// LockAtLeastFor counts from the start of the last run, on whichever replica that
// was: here over a clean stop, after which the next replica leads at once.
func TestLockAtLeastOverACleanStop(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := locked(c.begin)
		first := c.start(declared)
		c.start(declared)
		c.until(time.Minute + 15*time.Second)
		first.stop()
		c.until(4*time.Minute + 1)
		c.wantRows("forbid", "1m succeeded", "2m skipped: "+resting, "3m succeeded", "4m skipped: "+resting)
		c.wantRows("queue", "1m succeeded", "2m succeeded", "3m succeeded", "4m waiting")
		c.wantBegan("queue", time.Minute, 140*time.Second, 220*time.Second)
		c.wantRows("twice", "1m succeeded", "2m succeeded", "3m succeeded", "4m running")
		c.wantBegan("rerun", time.Minute, 140*time.Second)
		c.wantBegan("delay", time.Minute, 140*time.Second, 220*time.Second)
	})
}

// And over a crash, in the middle of a run or after it. A run that was asked for
// by hand waits as well.
func TestLockAtLeastOverACrash(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := locked(c.begin)
		first := c.start(declared)
		c.start(declared)
		c.until(time.Minute - time.Second)
		if _, err := c.Trigger(t.Context(), "manual"); err != nil {
			t.Fatal(err)
		}
		c.until(time.Minute + 12*time.Second)
		first.kill()
		if _, err := c.Trigger(t.Context(), "manual"); err != nil {
			t.Fatal(err)
		}
		c.until(4*time.Minute + 1)
		c.wantRows("forbid", "1m succeeded", "2m skipped: "+resting, "3m succeeded", "4m skipped: "+resting)
		c.wantRows("rerun", "1m succeeded, attempt 2")
		for _, name := range []string{"rerun", "manual"} { // the database has microseconds
			if runs := c.runs(name); len(runs) != 2 || (runs[1].began-runs[0].began-80*time.Second).Abs() > time.Microsecond {
				t.Errorf("runs of %s: %+v", name, runs)
			}
		}
	})
}

// The database's clock says how much is left, and a step of it never makes that
// more than the whole.
func TestLockAtLeastByTheDatabasesClock(t *testing.T) {
	for name, test := range map[string]struct{ by, second time.Duration }{
		"set back": {-10 * time.Hour, 75*time.Second + 90*time.Second},
		"forward":  {10 * time.Hour, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapQueue, LockAtLeastFor: 90 * time.Second}}
				first := c.start(declared, byWorker)
				c.until(time.Minute + 15*time.Second)
				first.stop()
				c.store.StepClock(test.by)
				c.start(declared, byWorker)
				c.until(3*time.Minute - 1)
				c.wantBegan("job", time.Minute, test.second)
			})
		})
	}
}
