package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// A thousand jobs of one tick share ten slots, first come first served, and
// each of them has its run.
func TestThousandJobsOnTenSlots(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var declared []jobs.Job
		most, now := 0, 0
		for i := range 1000 {
			declared = append(declared, jobs.Job{Name: fmt.Sprintf("job-%03d", i), Schedule: jobs.Every(time.Hour), Do: func(ctx context.Context, run jobs.Run) error {
				c.mu.Lock()
				now++
				most = max(most, now)
				c.mu.Unlock()
				err := sleep(time.Second)(ctx, run)
				c.mu.Lock()
				now--
				c.mu.Unlock()
				return err
			}})
		}
		c.start(declared, scheduler.WithMaxRuns(10))
		c.until(time.Hour + 100*time.Second)
		if most != 10 {
			t.Errorf("%d runs at a time", most)
		}
		records, err := c.Runs(t.Context(), jobs.Filter{Limit: 2000, State: jobs.Succeeded})
		if err != nil || len(records) != 1000 {
			t.Errorf("%d rows, %v", len(records), err)
		}
		for i, r := range c.ran { // ten at a time, in their order
			if want := time.Hour + time.Duration(i/10)*time.Second; r.began != want {
				t.Fatalf("run %d began at %v, want %v", i, r.began, want)
			}
		}
	})
}

// A job that always has a tick waiting does not keep the others from the slots.
func TestSlotsAreFair(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{
			{Name: "greedy", Schedule: jobs.Every(time.Second), Overlap: jobs.OverlapQueue, Do: sleep(10 * time.Second)},
			{Name: "meek", Schedule: jobs.Every(time.Minute), Do: sleep(time.Second)},
		}, scheduler.WithMaxRuns(1))
		c.until(10 * time.Minute)
		for i, r := range c.runs("meek") {
			if late := r.began - time.Duration(i+1)*time.Minute; late > 10*time.Second {
				t.Errorf("a run was %v late", late)
			}
		}
		if n := len(c.runs("meek")); n < 9 {
			t.Errorf("ran %d times", n)
		}
	})
}

// Of the runs that wait for a slot, those of a higher priority start first, in groups of both modes.
func TestPriority(t *testing.T) {
	for name, options := range map[string][]scheduler.Option{"leader": nil, "spread": {scheduler.WithSpread()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var declared []jobs.Job
				for i, p := range []jobs.Priority{jobs.PriorityLow, jobs.PriorityNormal, jobs.PriorityHigh, jobs.PriorityLow, jobs.PriorityNormal, jobs.PriorityHigh} {
					declared = append(declared, jobs.Job{Name: fmt.Sprintf("%v-%d", p, i), Priority: p, Schedule: jobs.Every(time.Hour), Do: sleep(time.Second)})
				}
				first := jobs.Job{Name: "first", Schedule: jobs.Cron("59 59 * * * *"), Do: sleep(10 * time.Second)}
				c.start(append(declared, first), append(options, scheduler.WithMaxRuns(1))...)
				c.until(time.Hour + time.Minute)
				var order []string
				for _, r := range c.allRuns() {
					order = append(order, r.Job)
				}
				for i := range order {
					order[i], _, _ = strings.Cut(order[i], "-")
				}
				if want := []string{"first", "high", "high", "normal", "normal", "low", "low"}; !slices.Equal(order, want) {
					t.Errorf("%q, want %q", order, want)
				}
			})
		})
	}
}

// A job that stays occupied after its run takes no slot meanwhile, and does not
// hold up the end of the term.
func TestLockAtLeastTakesNoSlot(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "lock", Schedule: jobs.Every(time.Minute), LockAtLeastFor: time.Hour},
			{Name: "other", Schedule: jobs.Every(time.Minute)},
		}
		r := c.start(declared, scheduler.WithMaxRuns(1))
		c.until(3*time.Minute + time.Second)
		c.wantRows("other", "1m succeeded", "2m succeeded", "3m succeeded")
		begin := time.Now()
		r.stop()
		if took := time.Since(begin); took > 0 {
			t.Errorf("stopped after %v", took)
		}
		c.start(declared)
		c.until(4*time.Minute + time.Second)
		c.wantRows("lock", "1m succeeded", "3m skipped, missed 1: "+resting, "4m skipped: "+resting)
	})
}

// Under a limit, allowed runs that wait for a slot count too.
func TestAllowCountsWhatWaits(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{
			{Name: "hog", Schedule: jobs.At(c.begin.Add(time.Second)), Do: sleep(10 * time.Minute)},
			{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapAllow, Limit: 2, Do: sleep(0)},
		}, scheduler.WithMaxRuns(1))
		c.until(4*time.Minute + time.Second)
		full := "as many runs as allowed have not finished"
		c.wantRows("job", "1m waiting", "2m waiting", "4m skipped, missed 1: "+full)
	})
}

// Slots also bound the runs that one gap of one job starts at once.
func TestSlotsOfACatchUp(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow, Do: sleep(time.Second)}}
		c.start(declared).stop()
		c.until(5*time.Minute + time.Second)
		c.start(declared, scheduler.WithMaxRuns(2))
		c.until(6*time.Minute - 1)
		c.wantBegan("job", 301*time.Second, 301*time.Second, 302*time.Second, 302*time.Second, 303*time.Second)
	})
}

// A run that has ended lets the next one start before its outcome is written,
// and counts until then as one that waits if it is to be retried.
func TestWhileAnOutcomeIsWritten(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "queue", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapQueue, Do: sleep(89 * time.Second)},
			{Name: "forbid", Schedule: jobs.Every(time.Minute), Retry: exact(2, time.Second), Do: func(ctx context.Context, run jobs.Run) error {
				return errors.Join(retry.Sleep(ctx, 59*time.Second), errWork)
			}},
		})
		r.link.set(func(l *link) { l.hold["Move"] = 2 * time.Second })
		c.until(3*time.Minute - 1)
		c.wantBegan("queue", time.Minute, 151*time.Second)
		c.wantRows("forbid", "1m running, attempt 2", "2m skipped: "+busy)
	})
}

// Running is what runs on this replica.
func TestRunning(t *testing.T) {
	inBubble(t, func(c *cluster) {
		free := make(chan struct{})
		r := c.start([]jobs.Job{
			{Name: "b", Schedule: jobs.At(c.begin.Add(time.Minute)), Do: sleep(10 * time.Second)},
			{Name: "a", Schedule: jobs.At(c.begin.Add(61 * time.Second)), Timeout: 5 * time.Second, Do: deaf(free)},
		})
		c.until(67 * time.Second)
		running := r.Running()
		if len(running) != 2 || running[0].Job != "b" || running[0].Cause != nil || !errors.Is(running[1].Cause, jobs.ErrTimeout) ||
			!running[0].Started.Equal(c.begin.Add(time.Minute)) {
			t.Errorf("%+v", running)
		}
		close(free)
		c.until(71 * time.Second)
		if running := r.Running(); len(running) != 0 {
			t.Errorf("%+v", running)
		}
	})
}

// Recovered runs, retries and manual runs keep to the slots as well.
func TestSlotsAfterATakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var declared []jobs.Job
		for i := range 6 {
			declared = append(declared, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Hour), Recover: jobs.RecoverRerun, Do: sleep(time.Minute)})
		}
		first := c.start(declared)
		c.until(time.Hour + time.Second)
		first.kill()
		for i := range 6 {
			if _, err := c.Trigger(t.Context(), fmt.Sprint("job-", i)); err != nil {
				t.Fatal(err)
			}
		}
		c.start(declared, scheduler.WithMaxRuns(4))
		c.until(time.Hour + 5*time.Minute)
		runs := c.ran[6:]
		if len(runs) != 12 {
			t.Fatalf("%d runs", len(runs))
		}
		for i, r := range runs {
			if want := runs[0].began + time.Duration(i/4)*time.Minute; r.began != want {
				t.Errorf("run %d began at %v, want %v", i, r.began, want)
			}
		}
		triggers := slices.ContainsFunc(runs[:4], func(r ran) bool { return r.Trigger > 0 })
		if triggers {
			t.Error("manual runs went before older ones")
		}
	})
}
