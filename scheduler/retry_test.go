package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// exact is a backoff without jitter worth speaking of.
func exact(attempts int, initial time.Duration) jobs.Retry {
	return jobs.Retry{Attempts: attempts, Initial: initial, Jitter: 1e-9}
}

func TestRetry(t *testing.T) {
	at := func(c *cluster) jobs.Schedule { return jobs.At(c.begin.Add(time.Minute)) }
	tests := []struct {
		name  string
		job   jobs.Job
		want  string
		began []time.Duration // after the tick
	}{
		{"succeeds", jobs.Job{Retry: exact(3, 10*time.Second), Do: failing(2)}, "1m succeeded, attempt 3", []time.Duration{0, 10 * time.Second, 30 * time.Second}},
		{"fails", jobs.Job{Retry: exact(3, 10*time.Second), Do: failing(9)}, "1m failed, attempt 3: no luck", []time.Duration{0, 10 * time.Second, 30 * time.Second}},
		{"none", jobs.Job{Do: failing(9)}, "1m failed: no luck", []time.Duration{0}},
		{"permanent", jobs.Job{Retry: exact(3, 10*time.Second), Do: func(context.Context, jobs.Run) error {
			return fmt.Errorf("never: %w", jobs.Permanent(errWork))
		}}, "1m failed: never: no luck", []time.Duration{0}},
		{"maximum", jobs.Job{Retry: jobs.Retry{Attempts: 4, Initial: 10 * time.Second, Max: 15 * time.Second, Jitter: 1e-9}, Do: failing(9)}, "1m failed, attempt 4: no luck",
			[]time.Duration{0, 10 * time.Second, 25 * time.Second, 40 * time.Second}},
		{"beyond the start deadline", jobs.Job{CatchUp: jobs.CatchUp{Deadline: time.Second}, Retry: exact(2, time.Minute), Do: failing(1)}, "1m succeeded, attempt 2", []time.Duration{0, time.Minute}},
		{"panics", jobs.Job{Retry: exact(2, 10*time.Second), Do: func(context.Context, jobs.Run) error { panic("boom") }}, "1m panicked, attempt 2: jobs: panic: boom", []time.Duration{0, 10 * time.Second}},
		{"times out", jobs.Job{Retry: exact(2, 10*time.Second), Timeout: time.Second, Do: sleep(time.Minute)}, "1m timed out, attempt 2: jobs: timeout: context deadline exceeded", []time.Duration{0, 11 * time.Second}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				test.job.Name, test.job.Schedule = "job", at(c)
				c.start([]jobs.Job{test.job})
				c.until(10 * time.Minute)
				c.wantRows("job", test.want)
				runs := c.runs("job")
				if len(runs) != len(test.began) {
					t.Fatalf("ran %d times, want %d", len(runs), len(test.began))
				}
				for i, want := range test.began {
					if late := runs[i].began - time.Minute - want; late.Abs() > time.Microsecond || runs[i].Attempt != i+1 {
						t.Errorf("attempt %d began at %v, want %v", runs[i].Attempt, runs[i].began-time.Minute, want)
					}
				}
			})
		})
	}
}

// The wait for the next attempt is in the ledger: the next leader goes on with
// it, when its time has come.
func TestRetrySurvivesATakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.At(c.begin.Add(time.Minute)), Retry: exact(3, 5*time.Minute), Do: failing(1)}}
		first := c.start(declared)
		second := c.start(declared)
		c.until(2 * time.Minute)
		first.kill()
		c.until(4 * time.Minute)
		c.wantRows("job", "1m waiting: failed: no luck")
		second.stop()
		c.start(declared)
		c.until(6*time.Minute + time.Second)
		c.wantRows("job", "1m succeeded, attempt 2")
		if runs := c.runs("job"); len(runs) != 2 || (runs[1].began-6*time.Minute).Abs() > time.Millisecond {
			t.Errorf("ran %+v", runs)
		}
	})
}

// A run that fails in its own way keeps its attempts, also at the end of a term.
func TestRetryOfAFailureAtTheEndOfTheTerm(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.At(c.begin.Add(time.Minute)), Retry: exact(2, 30*time.Second), Do: func(ctx context.Context, run jobs.Run) error {
			if run.Attempt == 1 {
				<-ctx.Done()
				panic("boom")
			}
			return nil
		}}}
		first := c.start(declared)
		c.until(70 * time.Second)
		first.stop()
		c.wantRows("job", "1m waiting: panicked: election: stopped: jobs: panic: boom")
		c.start(declared)
		c.until(2 * time.Minute)
		c.wantRows("job", "1m succeeded, attempt 2")
	})
}

// The job's own error is kept beside the cause that ended the context.
func TestErrorOfACancelledRun(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Timeout: time.Second, Do: func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			return fmt.Errorf("%w, %w", errWork, context.Cause(ctx))
		}}})
		c.until(62 * time.Second)
		c.wantRows("job", "1m timed out: no luck, jobs: timeout")
	})
}

// If the database's clock is set back, a waiting run does not wait longer than its
// job's policies say: a run that has not been started yet is due, and a retry comes
// after Retry.Max at the latest.
func TestWaitingWhileTheClockIsSetBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		at := jobs.Every(time.Minute)
		retry := exact(2, 30*time.Second)
		retry.Max = 40 * time.Second
		declared := []jobs.Job{
			{Name: "queued", Schedule: at, Overlap: jobs.OverlapQueue, Do: sleep(100 * time.Second)},
			{Name: "retried", Schedule: jobs.At(c.begin.Add(2 * time.Minute)), Retry: retry, Do: failing(1)},
		}
		first := c.start(declared, byWorker)
		c.until(2*time.Minute + time.Second)
		c.wantRows("queued", "1m running", "2m waiting")
		c.wantRows("retried", "2m waiting: failed: no luck")
		c.store.StepClock(-time.Hour)
		first.kill()
		c.start(declared, byWorker)
		c.until(3*time.Minute + 30*time.Second)
		c.wantRows("retried", "2m succeeded, attempt 2")
		if runs := c.runs("queued"); len(runs) < 2 || runs[1].began > 3*time.Minute {
			t.Errorf("queued: ran %+v", runs)
		}
	})
}

// Neither does a run that a clean stop has handed on.
func TestHandedOnWhileTheClockIsSetBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.At(c.begin.Add(time.Minute)), Recover: jobs.RecoverRerun, Do: sleep(10 * time.Second)}}
		first := c.start(declared, byWorker)
		c.until(time.Minute + time.Second)
		first.stop()
		c.wantRows("job", "1m waiting: cancelled: election: stopped: context canceled")
		c.store.StepClock(-time.Hour)
		c.start(declared, byWorker)
		c.until(2 * time.Minute)
		c.wantRows("job", "1m succeeded, attempt 2")
	})
}
