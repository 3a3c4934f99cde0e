package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// What jobs.RecoverRerun promises.
const maxInterrupted = 5

// A run that its leader did not finish is interrupted, and run again only if the
// job says so, and not before the old term is over.
func TestRecover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "skip", Schedule: jobs.Every(time.Hour), Do: sleep(time.Minute)},
			{Name: "rerun", Schedule: jobs.Every(time.Hour), Recover: jobs.RecoverRerun, Do: sleep(time.Minute)},
		}
		first := c.start(declared)
		c.start(declared)
		c.until(time.Hour + 10*time.Second)
		first.kill()
		c.until(time.Hour + 2*time.Minute)
		c.wantRows("skip", "1h interrupted: not finished by "+first.Owner())
		c.wantRows("rerun", "1h succeeded, attempt 2")
		runs := c.runs("rerun")
		if len(runs) != 2 || runs[0].Token >= runs[1].Token || runs[1].Attempt != 2 || runs[1].began < runs[0].ended {
			t.Errorf("ran %+v", runs)
		}
	})
}

// Work that was cut short in a term that goes on is interrupted: the policy for that
// decides, and it is no failure of the job.
func TestCutShort(t *testing.T) {
	inBubble(t, func(c *cluster) {
		cut := func(_ context.Context, run jobs.Run) error {
			if run.Attempt > 1 {
				return nil
			}
			return fmt.Errorf("stopped: %w", keeper.ErrCutShort)
		}
		always := func(context.Context, jobs.Run) error { return keeper.ErrCutShort }
		c.start([]jobs.Job{
			{Name: "rerun", Schedule: jobs.At(c.begin.Add(time.Minute)), Recover: jobs.RecoverRerun, PauseAfter: 1, Do: cut},
			{Name: "left", Schedule: jobs.Every(time.Minute), Retry: jobs.Retry{Attempts: 3}, PauseAfter: 1, Do: always},
			{Name: "again", Schedule: jobs.At(c.begin.Add(time.Minute)), Recover: jobs.RecoverRerun, Do: always},
		})
		c.until(2*time.Minute + 30*time.Second)
		c.wantRows("rerun", "1m succeeded, attempt 2")
		if runs := c.runs("rerun"); len(runs) != 2 || runs[0].Token != runs[1].Token || runs[1].Previous.State != jobs.Interrupted {
			t.Errorf("ran %+v", runs)
		}
		const why = "cut short in a term that goes on"
		c.wantRows("left", "1m interrupted: "+why, "2m interrupted: "+why)
		c.wantRows("again", fmt.Sprintf("1m interrupted, attempt %d: %s", maxInterrupted, why))
	})
}

// A clean stop leaves a run that may be rerun to the next leader at once.
func TestCleanStopHandsOn(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "skip", Schedule: jobs.Every(time.Hour), Do: sleep(time.Minute)},
			{Name: "rerun", Schedule: jobs.Every(time.Hour), Recover: jobs.RecoverRerun, Do: sleep(time.Minute)},
		}
		first := c.start(declared)
		c.start(declared)
		c.until(time.Hour + 9*time.Second)
		first.link.set(func(l *link) { l.hold["Move"] = time.Second }) // the end waits for what became of the runs
		first.stop()
		c.until(time.Hour + 75*time.Second)
		c.wantRows("skip", "1h cancelled: election: stopped: context canceled")
		c.wantRows("rerun", "1h succeeded, attempt 2")
		c.wantBegan("rerun", time.Hour, time.Hour+10*time.Second)
	})
}

// A run that was cancelled, or replaced by a newer tick, is not run again when
// the term ends before the run has stopped.
func TestCancelledIsNotRecovered(t *testing.T) {
	inBubble(t, func(c *cluster) {
		slow := func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			time.Sleep(1500 * time.Millisecond) // its clean-up
			return ctx.Err()
		}
		declared := []jobs.Job{
			{Name: "cancelled", Schedule: jobs.Every(time.Minute), Recover: jobs.RecoverRerun, Do: slow},
			{Name: "replaced", Schedule: jobs.Every(time.Minute), Recover: jobs.RecoverRerun, Overlap: jobs.OverlapReplace, Do: slow},
		}
		first := c.start(declared)
		c.until(119 * time.Second)
		if err := c.Cancel(t.Context(), jobs.Key{Job: "cancelled", Tick: c.begin.Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		c.until(2*time.Minute + 100*time.Millisecond)
		first.stop()
		c.wantRows("cancelled", "1m cancelled: jobs: cancelled on request: context canceled", "2m skipped: "+busy)
		c.wantRows("replaced", "1m cancelled: jobs: replaced by a newer tick: context canceled", "2m waiting")
	})
}

// A tick that kills its worker again and again is stopped after a limit, and
// says so.
func TestPoison(t *testing.T) {
	inBubble(t, func(c *cluster) {
		poison := func(name string, retry jobs.Retry) jobs.Job {
			return jobs.Job{Name: name, Schedule: jobs.At(c.begin.Add(time.Second)), Recover: jobs.RecoverRerun, Retry: retry, Do: sleep(30 * time.Minute)}
		}
		declared := []jobs.Job{poison("poison", jobs.Retry{}), poison("retried", jobs.Retry{Attempts: maxInterrupted + 2})}
		c.start(declared)
		owner := ""
		for i := range 8 {
			c.until(time.Duration(i+1) * time.Minute)
			r := c.leader()
			if i+1 == maxInterrupted {
				owner = r.Owner()
			}
			r.kill()
			c.start(declared)
		}
		c.until(10 * time.Minute)
		if runs := c.runs("poison"); len(runs) != maxInterrupted {
			t.Errorf("ran %d times", len(runs))
		}
		if runs := c.runs("retried"); len(runs) != maxInterrupted+2 {
			t.Errorf("with retries ran %d times", len(runs))
		}
		c.wantRows("poison", fmt.Sprintf("1s interrupted, attempt %d: not finished by %s, and interrupted too often to be run again", maxInterrupted, owner))
	})
}

// A run of the replica's own earlier term that is still alive is not run a second
// time beside it: the replica does not lead meanwhile.
func TestZombie(t *testing.T) {
	inBubble(t, func(c *cluster) {
		free := make(chan struct{})
		core, log := observer.New(zap.ErrorLevel)
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Recover: jobs.RecoverRerun, Do: deaf(free)}}, scheduler.WithLogger(zap.New(core)))
		c.until(70 * time.Second)
		r.link.set(func(l *link) { l.away = time.Now().Add(time.Minute) })
		c.until(5 * time.Minute)
		if n := len(c.runs("job")); n != 1 {
			t.Fatalf("%d runs beside each other", n)
		}
		if n := log.FilterMessageSnippet("ignores its context").FilterField(zap.String("job", "job")).Len(); n != 1 {
			t.Errorf("it was named %d times", n)
		}
		close(free)
		c.until(6*time.Minute - time.Second)
		// Its outcome still counts: the group has had no other holder.
		c.wantRows("job", "1m succeeded", "5m succeeded, missed 3")
	})
}

// The outcome of a run whose term was taken over is refused.
func TestOutcomeAfterATakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		free := make(chan struct{})
		first := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: deaf(free)}})
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}})
		c.until(70 * time.Second)
		first.link.set(func(l *link) { l.away = time.Now().Add(time.Minute) })
		c.until(170 * time.Second)
		close(free)
		c.until(171 * time.Second)
		if role := first.State().Role; role != election.Following {
			t.Errorf("the replica whose outcome was refused is %v", role)
		}
		c.wantRows("job", "1m interrupted: not finished by "+first.Owner(), "2m succeeded")
	})
}
