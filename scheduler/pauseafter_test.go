package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// bad is work that fails in the minutes since the begin that are listed.
func (c *cluster) bad(minutes ...int) func(context.Context, jobs.Run) error {
	return func(_ context.Context, run jobs.Run) error {
		if slices.Contains(minutes, int(run.Tick.Sub(c.begin)/time.Minute)) {
			return errWork
		}
		return nil
	}
}

// paused are the pauses of a job, since the begin.
func (c *cluster) pauses(job string) (began []time.Duration) {
	c.Helper()
	snapshot, err := c.Load(c.Context())
	check(c.T, err)
	for _, p := range snapshot.Pauses[job] {
		began = append(began, p.Began.Sub(c.begin).Truncate(time.Second))
	}
	return began
}

func (c *cluster) wantPauses(job string, want ...time.Duration) {
	c.Helper()
	if got := c.pauses(job); !slices.Equal(got, want) {
		c.Errorf("%s was paused at %v, want %v", job, got, want)
	}
}

func TestPauseAfter(t *testing.T) {
	inBubble(t, func(c *cluster) {
		every := jobs.Every(time.Minute)
		core, logs := observer.New(zap.WarnLevel)
		c.start([]jobs.Job{
			{Name: "fails", Schedule: every, PauseAfter: 3, Do: failing(1000)},
			{Name: "recovers", Schedule: every, PauseAfter: 3, Do: c.bad(1, 2, 4, 5, 7, 8, 9)},
			{Name: "retried", Schedule: every, PauseAfter: 2, Retry: exact(2, time.Second), Do: failing(6)},
			{Name: "panics", Schedule: every, PauseAfter: 2, Do: func(context.Context, jobs.Run) error { panic("boom") }},
			{Name: "times-out", Schedule: every, PauseAfter: 2, Timeout: time.Second, Do: sleep(time.Hour)},
			{Name: "skips", Schedule: every, PauseAfter: 2, Do: func(ctx context.Context, _ jobs.Run) error {
				_ = retry.Sleep(ctx, 150*time.Second)
				return errWork
			}},
			{Name: "queue", Schedule: every, PauseAfter: 2, Overlap: jobs.OverlapQueue, Do: func(ctx context.Context, _ jobs.Run) error {
				_ = retry.Sleep(ctx, 90*time.Second)
				return errWork
			}},
			{Name: "parallel", Schedule: every, PauseAfter: 2, Overlap: jobs.OverlapAllow, Do: func(ctx context.Context, run jobs.Run) error {
				_ = retry.Sleep(ctx, time.Until(c.begin.Add(5*time.Minute)))
				return errWork
			}},
			{Name: "never", Schedule: every, Do: failing(1000)},
		}, scheduler.WithLogger(zap.New(core)))
		c.until(20*time.Minute + time.Second)
		c.wantPauses("fails", 3*time.Minute)
		c.wantPauses("recovers", 9*time.Minute)
		c.wantPauses("retried", 2*time.Minute+time.Second)
		c.wantPauses("panics", 2*time.Minute)
		c.wantPauses("skips", 6*time.Minute+30*time.Second)
		c.wantPauses("queue", 4*time.Minute)
		c.wantPauses("parallel", 5*time.Minute)
		c.wantPauses("never")
		if rows := c.lines("fails"); len(rows) != 4 || rows[2] != "3m failed: no luck" || rows[3] != "20m skipped, missed 16: paused" {
			t.Errorf("fails: %q", rows)
		}
		if n := len(c.runs("queue")); n != 2 {
			t.Errorf("the tick that waited ran: %d runs", n)
		}
		if n := logs.FilterMessageSnippet("the job is paused").FilterField(zap.String("job", "fails")).Len(); n != 1 {
			t.Errorf("%d lines about the pause", n)
		}

		// The count starts over when the job is resumed; manual runs count.
		check(t, c.Resume(t.Context(), "fails"))
		c.until(21*time.Minute + time.Second)
		for range 2 {
			_, err := c.Trigger(t.Context(), "fails")
			check(t, err)
			time.Sleep(10 * time.Second)
		}
		c.until(25 * time.Minute)
		c.wantPauses("fails", 3*time.Minute, 21*time.Minute+11*time.Second)
	})
}

// The count goes on over takeovers.
func TestPauseAfterSurvivesATakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), PauseAfter: 3, Do: failing(1000)}}
		first := c.start(declared)
		c.start(declared)
		c.until(2*time.Minute + time.Second)
		first.kill()
		c.until(6 * time.Minute)
		c.wantPauses("job", 3*time.Minute)
		c.leader().stop()
		c.start(declared)
		c.until(8 * time.Minute)
		check(t, c.Resume(t.Context(), "job"))
		c.until(8*time.Minute + 30*time.Second)
		c.leader().stop()
		c.start(declared)
		c.until(12 * time.Minute)
		c.wantPauses("job", 3*time.Minute, 11*time.Minute)
	})
}

// A leader that dies when it has recorded the last failure, and before it could pause
// the job, has that done by the next: once, and before the job runs again.
func TestPauseAfterTheLeaderDied(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), PauseAfter: 2, Do: failing(1000)}}
		first := &noPauses{link: newLink(c.store)}
		s, err := scheduler.New(first, "g")
		check(t, err)
		check(t, s.Add(declared...))
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		c.until(2*time.Minute + 30*time.Second)
		if first.asked.Load() == 0 {
			t.Fatal("the leader did not try to pause the job")
		}
		first.set(func(l *link) { l.cut = true })
		c.store.Cut("g")
		stop()
		<-done
		c.until(3*time.Minute + 30*time.Second)
		c.start(declared)
		c.until(10 * time.Minute)
		if pauses := c.pauses("job"); len(pauses) != 1 || pauses[0] > 4*time.Minute {
			t.Errorf("paused at %v", pauses)
		}
		if n := len(c.runs("job")); n != 0 {
			t.Errorf("%d runs of the next leader", n)
		}
	})
}

// noPauses is a link that fails to pause.
type noPauses struct {
	*link
	asked atomic.Int64
}

func (l *noPauses) Pause(context.Context, string, string) error {
	l.asked.Add(1)
	return errors.New("no pauses")
}

var _ store.Jobs = (*noPauses)(nil)
