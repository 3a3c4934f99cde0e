package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

func historyJob(name string, every time.Duration, h jobs.History) []jobs.Job {
	return []jobs.Job{{Name: name, Schedule: jobs.Every(every), History: h, Do: func(context.Context, jobs.Run) error { return nil }}}
}

// Nothing was restored: a follower has seen a tick once, which was pruned because
// of its age before that follower comes to lead.
func TestPrunedByAgeIsNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := historyJob("a", 5*time.Minute, jobs.History{Keep: 10_000, For: time.Hour})
		first := c.start(job)
		c.until(11 * time.Minute)
		c.start(job)
		c.until(4*time.Hour + time.Minute)
		c.wantPaused(false)
		first.kill()
		c.until(4*time.Hour + 5*time.Minute)
		c.wantPaused(false)
	})
}

// The same, in one process that leads all the time: a job that is rarer than what
// is kept.
func TestRareJobIsNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(historyJob("rare", 2*time.Hour, jobs.History{Keep: 10_000, For: time.Hour}))
		c.until(9*time.Hour + time.Minute)
		_ = r.Resign(c.Context())
		synctest.Wait()
		c.until(9*time.Hour + 5*time.Minute)
		c.wantPaused(false)
	})
}

// The release that leads keeps fewer runs than the one that follows.
func TestOtherReleaseKeepsLess(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.start(historyJob("a", time.Second, jobs.History{Keep: 10}))
		c.until(time.Minute)
		c.start(historyJob("a", time.Second, jobs.History{}))
		c.until(12*time.Minute + 500*time.Millisecond)
		first.kill()
		c.until(15 * time.Minute)
		c.wantPaused(false)
	})
}

// The schedule was changed while the database's clock was ahead. Its newest tick
// is of the schedule before.
func TestChangedScheduleAndClockSetBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := historyJob("a", 12*time.Hour, jobs.History{})
		job[0].Misfire, job[0].CatchUp = jobs.MisfireAll, jobs.CatchUp{Limit: 1000}
		c.store.StepClock(5 * time.Minute)
		first := c.start(job)
		c.until(20 * time.Hour)
		first.stop()
		changed := historyJob("a", 7*time.Minute, jobs.History{})
		changed[0].Misfire, changed[0].CatchUp = job[0].Misfire, job[0].CatchUp
		second := c.start(changed)
		c.until(20*time.Hour + 10*time.Second)
		c.store.StepClock(-5 * time.Minute)
		c.until(20*time.Hour + 90*time.Second)
		second.stop()
		c.start(changed)
		c.until(20*time.Hour + 15*time.Minute)
		early := 0
		c.mu.Lock()
		for _, r := range c.ran {
			if d := r.Tick.Sub(c.begin); d < 20*time.Hour && d != 12*time.Hour {
				early++
			}
		}
		c.mu.Unlock()
		if early > 0 {
			t.Errorf("%d ticks of before the schedule was changed ran", early)
		}
	})
}

// The database's clock is set back by two seconds right after Resume.
func TestResumedAndClockSetBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := historyJob("a", time.Minute, jobs.History{})
		job[0].Misfire, job[0].CatchUp = jobs.MisfireAll, jobs.CatchUp{Limit: 1000}
		r := c.start(job)
		c.until(10*time.Minute + 5300*time.Millisecond)
		check(t, c.Pause(c.Context(), ""))
		r.stop()
		c.until(20*time.Minute + 5300*time.Millisecond)
		check(t, c.Resume(c.Context(), ""))
		c.store.StepClock(-2 * time.Second)
		c.start(job)
		c.until(22*time.Minute + 30*time.Second)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range c.ran {
			if d := r.Tick.Sub(c.begin); d > 10*time.Minute+10*time.Second && d <= 20*time.Minute {
				t.Errorf("tick %v of the pause ran", d)
			}
		}
	})
}

// One reading lacks the newest tick, as a scan that goes backwards was seen to do.
type lackingStore struct {
	*memdb.Store
	lack atomic.Bool
}

func (s *lackingStore) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	snapshot, err := s.Store.Load(ctx, group)
	if err == nil && s.lack.CompareAndSwap(true, false) {
		known := snapshot.Jobs["a"]
		known.Cursor = known.Cursor.Add(-5 * time.Minute)
		snapshot.Jobs["a"] = known
	}
	return snapshot, err
}

func TestOneBadReadingIsNoRestore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lackingStore{Store: memdb.New()}
		s, err := scheduler.New(store, "g")
		check(t, err)
		check(t, s.Add(historyJob("a", 5*time.Minute, jobs.History{})...))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(12 * time.Minute)
		store.lack.Store(true)
		_, err = s.Jobs().Trigger(ctx, "a") // the leader reads the ledger
		check(t, err)
		time.Sleep(5 * time.Second)
		if snapshot, err := s.Jobs().Load(ctx); err != nil || snapshot.Paused {
			t.Errorf("paused %v, %v", snapshot.Paused, err)
		}
		cancel()
		check(t, <-done)
	})
}

// A leader whose signal is cut lives on, and finds that the next one has claimed a tick
// before it. The row of that tick then moves on with the ticks that are skipped after it.
func TestExtendedByTheNextTermIsNoRestore(t *testing.T) {
	long := func(ctx context.Context, run jobs.Run) error {
		if run.Tick.Before(time.Date(2000, 1, 1, 0, 1, 7, 0, time.UTC)) {
			return nil
		}
		return sleep(20*time.Second)(ctx, run)
	}
	for name, test := range map[string]struct {
		pause bool
		do    func(context.Context, jobs.Run) error
	}{"paused": {pause: true}, "busy": {do: long}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.until(900 * time.Millisecond) // so that heartbeats come between the ticks
				leader := c.watched(2, []jobs.Job{
					{Name: "often", Schedule: jobs.Every(time.Second), Do: test.do},
					{Name: "slow", Schedule: jobs.Every(10 * time.Second)},
				})
				if test.pause {
					check(t, c.Pause(c.Context(), "often"))
				}
				done := c.backfill("slow", jobs.Backfill{From: c.begin, Every: 15 * time.Second})
				leader.link.set(func(l *link) { l.hold["Claim"] = 5 * time.Millisecond })
				c.until(66500 * time.Millisecond)
				c.store.Cut("g")
				c.until(5 * time.Minute)
				c.wantPaused(false)
				if c.leader() == leader {
					t.Errorf("no other replica took over: %+v", leader.State())
				}
				if ticks, _ := c.hours("slow", done.ID); len(ticks) != len(done.Ticks) {
					t.Errorf("%d of %d ticks of the backfill ran:\n%s", len(ticks), len(done.Ticks), c.rows("slow"))
				}
			})
		})
	}
}

// One row counts the ticks that a pause of days skips, and replicas come to know some of
// them. Pruning then leaves that row alone, or only rows of after the pause.
func TestExtendedAndPrunedIsNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := historyJob("a", time.Minute, jobs.History{Keep: 3, For: 5 * time.Hour})
		c.start(job)
		c.until(30 * time.Minute)
		check(t, c.Pause(c.Context(), "a"))
		for hour := 1; hour <= 30; hour++ {
			c.until(time.Duration(hour)*time.Hour + 30*time.Second)
			switch leader := c.leader(); hour % 5 {
			case 0:
				leader.kill()
				c.start(job)
			case 1, 3:
				_ = leader.Resign(c.Context())
				c.start(job)
			}
			if hour == 10 {
				check(t, c.Resume(c.Context(), "a"))
			}
			c.wantPaused(false)
		}
	})
}

// A job that was removed, forgotten and added again is another one, in the same process too.
func TestForgottenIsNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := historyJob("a", time.Minute, jobs.History{})
		other := historyJob("b", time.Minute, jobs.History{})
		c.start(append(job, other...))
		c.start(append(job, other...))
		c.until(30 * time.Minute)
		for _, r := range c.replicas {
			check(t, r.Remove("a"))
		}
		c.until(50 * time.Minute)
		check(t, c.Forget(c.Context(), "a"))
		_ = c.leader().Resign(c.Context())
		c.until(51*time.Minute + 30*time.Second)
		c.wantPaused(false)
		for _, r := range c.replicas {
			check(t, r.Add(job...))
		}
		c.until(60*time.Minute + 30*time.Second)
		_ = c.leader().Resign(c.Context())
		c.until(70 * time.Minute)
		c.wantPaused(false)
		if known := c.known("a"); !known.Since.After(c.begin.Add(50 * time.Minute)) {
			t.Errorf("the job is known since %v", known.Since)
		}
	})
}
