package scheduler_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A fixed rate keeps its phase over restarts and takeovers; a fixed delay counts
// from the last end, also over them.
func TestFixedOverTakeovers(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start(nil).stop()
		c.until(7 * time.Second)
		declared := []jobs.Job{
			{Name: "rate", Schedule: jobs.FixedRate(time.Minute), Do: sleep(10 * time.Second)},
			{Name: "rate-later", Schedule: jobs.FixedRate(time.Minute).InitialDelay(30 * time.Second)},
			{Name: "delay", Schedule: jobs.FixedDelay(time.Minute), Do: sleep(10 * time.Second)},
			{Name: "delay-later", Schedule: jobs.FixedDelay(time.Minute).InitialDelay(30 * time.Second)},
		}
		first := c.start(declared)
		c.until(3 * time.Minute)
		c.until(190 * time.Second)
		first.kill()
		c.start(append(declared, jobs.Job{Name: "new", Schedule: jobs.FixedRate(time.Minute)}))
		c.until(5*time.Minute - 1)
		c.wantRows("rate", "7s succeeded", "1m7s succeeded", "2m7s succeeded", "3m7s interrupted: not finished by "+first.Owner(), "4m7s succeeded")
		c.wantRows("rate-later", "37s succeeded", "1m37s succeeded", "2m37s succeeded", "3m37s succeeded", "4m37s succeeded")
		c.wantRows("delay", "7s succeeded", "1m17s succeeded", "2m27s succeeded", "3m37s succeeded", "4m47s succeeded")
		if run := c.runs("new")[1]; !run.Tick.Equal(c.begin.Add(run.began)) {
			t.Errorf("the tick %v began at %v: its own alarm did not wake it", run.Tick, run.began)
		}
		c.wantRows("delay-later", "37s succeeded", "1m37s succeeded", "2m37s succeeded", "3m37s succeeded", "4m37s succeeded")
	})
}

// A database clock that is ahead of every replica's does not make a fixed delay
// longer: no run has ended in the future.
func TestFixedDelayWithTheDatabaseAhead(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "delay", Schedule: jobs.FixedDelay(time.Minute)}}
		first := c.start(declared, byWorker)
		c.until(90 * time.Second)
		c.store.StepClock(time.Hour)
		c.until(2*time.Minute + time.Second)
		first.stop()
		c.start(declared, byWorker)
		c.until(3*time.Minute + 10*time.Second)
		c.wantRows("delay", "0s succeeded", "1m succeeded", "2m succeeded", "3m succeeded")
	})
}

// A changed fixed schedule is in force from the end of the previous term.
func TestFixedScheduleChanges(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := func(d time.Duration) []jobs.Job {
			return []jobs.Job{{Name: "delay", Schedule: jobs.FixedDelay(d)}, {Name: "rate", Schedule: jobs.FixedRate(d)}}
		}
		c.start(declared(time.Hour)).stop()
		c.until(30 * time.Minute)
		c.start(declared(time.Minute))
		c.until(30*time.Minute + 90*time.Second)
		c.wantRows("delay", "0s succeeded", "1m succeeded", "31m succeeded")
		c.wantRows("rate", "0s succeeded", "30m succeeded, missed 29", "31m succeeded")
	})
}

// A fixed delay waits for every run of the job, and counts from the last one.
func TestFixedDelayCountsFromTheLastEnd(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{
			{Name: "retried", Schedule: jobs.FixedDelay(time.Minute), Retry: exact(2, 30*time.Second), Do: failing(1)},
			{Name: "triggered", Schedule: jobs.FixedDelay(time.Minute), Do: sleep(20 * time.Second)},
			{Name: "locked", Schedule: jobs.FixedDelay(time.Minute), LockAtLeastFor: 90 * time.Second},
		})
		c.until(70*time.Second + time.Millisecond)
		if _, err := c.Trigger(t.Context(), "triggered"); err != nil {
			t.Fatal(err)
		}
		c.until(3 * time.Minute)
		c.wantRows("retried", "0s succeeded, attempt 2", "1m*s succeeded", "2m*s succeeded")
		c.wantRows("triggered", "0s succeeded", "1m10.001s succeeded", "2m30.001s succeeded")
		c.wantBegan("locked", 0, 90*time.Second, 3*time.Minute)
	})
}

// Ticks of a fixed delay that are skipped do not follow each other through the
// whole gap.
func TestFixedDelayDoesNotFlood(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "paused", Schedule: jobs.FixedDelay(time.Second)},
			{Name: "skip", Schedule: jobs.FixedDelay(time.Second), Misfire: jobs.MisfireSkip},
			{Name: "late", Schedule: jobs.FixedDelay(time.Second), CatchUp: jobs.CatchUp{Deadline: time.Second}},
		}
		c.start(declared).stop()
		if err := c.Pause(t.Context(), "paused"); err != nil {
			t.Fatal(err)
		}
		c.until(14 * 24 * time.Hour)
		c.start(declared)
		c.until(14*24*time.Hour + 2500*time.Millisecond)
		c.wantRows("paused", "0s succeeded", "336h0m2s skipped, missed 2: paused")
		c.wantRows("skip", "0s succeeded", "1s skipped: missed", "336h0m1s succeeded", "336h0m2s succeeded")
		c.wantRows("late", "0s succeeded", "1s skipped: too late to start", "336h0m1s succeeded", "336h0m2s succeeded")
	})
}

func TestManualAndOneOff(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "manual", Schedule: jobs.Manual()},
			{Name: "once", Schedule: jobs.At(c.begin.Add(90 * time.Second))},
			{Name: "past", Schedule: jobs.At(c.begin.Add(-time.Second))},
		}
		c.start(declared).stop()
		c.until(time.Hour)
		c.start(declared)
		c.until(2 * time.Hour)
		if _, err := c.Trigger(t.Context(), "manual"); err != nil {
			t.Fatal(err)
		}
		c.until(3 * time.Hour)
		c.wantRows("manual", "2h succeeded")
		c.wantRows("once", "1m30s succeeded")
		c.wantRows("past")
	})
}

// A database's clock that is ahead by less than the leader can tell, so that the job
// is new at an instant that has not come yet, shortens no initial delay.
func TestInitialDelayByClockThatIsAhead(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.store.StepClock(600 * time.Nanosecond)
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.FixedRate(9 * time.Second).InitialDelay(time.Minute)}})
		c.until(time.Minute + time.Second)
		for _, r := range c.runs("job") {
			if after := r.Tick.Sub(c.begin).Round(time.Second); after != time.Minute {
				t.Errorf("the first tick is %v after the begin, want 1m", after)
			}
		}
		if len(c.runs("job")) != 1 {
			t.Errorf("%d runs, want 1", len(c.runs("job")))
		}
	})
}

// A database's clock that is far ahead of the worker's, by which ticks are judged,
// has the job known from an instant that has not come yet: its ticks go on evenly
// when that instant comes, and in terms that begin right before it.
func TestFixedRateByClockThatIsBehind(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * time.Minute} {
		t.Run(delay.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.store.StepClock(time.Hour)
				job := []jobs.Job{{Name: "job", Schedule: jobs.FixedRate(10 * time.Minute).InitialDelay(delay), Misfire: jobs.MisfireAll}}
				r := c.start(job, byWorker)
				c.until(49*time.Minute + 50*time.Second)
				r.stop()
				c.until(58 * time.Minute)
				c.start(job, byWorker)
				c.until(90*time.Minute + time.Second)
				var last time.Time
				for _, r := range c.runs("job") {
					if !last.IsZero() && r.Tick.Sub(last) != 10*time.Minute {
						t.Errorf("tick %v follows %v", r.Tick.Sub(c.begin), last.Sub(c.begin))
					}
					last = r.Tick
				}
				if last.Sub(c.begin).Round(time.Second) < 80*time.Minute {
					t.Errorf("the last tick is %v", last.Sub(c.begin))
				}
			})
		})
	}
}
