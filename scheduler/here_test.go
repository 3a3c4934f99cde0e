package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// A job that runs everywhere runs on each replica, leader or not, and without a database,
// and the ledger knows nothing of it.
func TestEverywhere(t *testing.T) {
	inBubble(t, func(c *cluster) {
		local := jobs.Job{Name: "local", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: func(ctx context.Context, run jobs.Run) error {
			if run.Token != 0 || len(lease.Holds(ctx)) != 0 {
				t.Errorf("%+v has the holds %+v", run, lease.Holds(ctx))
			}
			return nil
		}}
		declared := []jobs.Job{local, {Name: "job", Schedule: jobs.Every(time.Minute)}}
		first, second := c.start(declared), c.start(declared)
		c.until(10*time.Minute + time.Second)
		second.link.set(func(l *link) { l.away = time.Now().Add(10 * time.Minute) })
		first.kill()
		c.until(20*time.Minute + time.Second)
		count := map[string]int{}
		for _, r := range c.runs("local") {
			count[r.Owner]++
			if late := r.began - r.Tick.Sub(c.begin); late < 0 || late > time.Second {
				t.Errorf("%v began at %v", r.Tick, r.began)
			}
		}
		if count[first.Owner()] != 10 || count[second.Owner()] != 20 {
			t.Errorf("runs: %v", count)
		}
		c.until(25 * time.Minute)
		if len(c.records("local")) != 0 {
			t.Errorf("the ledger has\n%s", c.rows("local"))
		}
		if _, err := c.Trigger(c.Context(), "local"); !errors.Is(err, jobs.ErrNoJob) {
			t.Errorf("Trigger: %v", err)
		}
	})
}

// It never overlaps itself, has a timeout and retries, and a panic ends nothing.
func TestEverywhereAttempts(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var attempts []int
		do := func(ctx context.Context, run jobs.Run) error {
			attempts = append(attempts, run.Attempt)
			switch {
			case run.Attempt == 1:
				panic("no luck")
			case run.Previous.State == jobs.Panicked && !run.LastAttempt:
				<-ctx.Done()
				return ctx.Err()
			case run.Previous.State != jobs.TimedOut:
				t.Errorf("%+v", run)
			}
			return nil
		}
		job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Everywhere: true, Timeout: 150 * time.Second, Do: do,
			Retry: jobs.Retry{Attempts: 3, Initial: time.Second, Jitter: 1e-9}}
		c.start([]jobs.Job{job, {Name: "long", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: lasting(90 * time.Second)}})
		c.until(8*time.Minute - time.Second)
		if len(attempts) != 8 {
			t.Errorf("attempts %v", attempts)
		}
		c.wantBegan("long", time.Minute, 3*time.Minute, 5*time.Minute, 7*time.Minute)
	})
}

// The first attempt at a tick tells how late it is, and those that follow do not.
func TestEverywhereTellsHowLateItIs(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Everywhere: true, Jitter: 30 * time.Second, Retry: exact(2, time.Second), Do: failing(2)}
		c.start([]jobs.Job{job}, w.option())
		c.until(90*time.Second - time.Millisecond)
		var late []time.Duration
		for _, e := range events[event.RunStarted](&w) {
			late = append(late, e.Late)
		}
		if want := []time.Duration{job.Delay("g", c.begin.Add(time.Minute)), 0}; !slices.Equal(late, want) {
			t.Errorf("the attempts began %v late, want %v", late, want)
		}
	})
}

// It changes while the scheduler runs, and still does not overlap itself.
func TestEverywhereChanges(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var now, most atomic.Int32
		job := func(every time.Duration) jobs.Job {
			return jobs.Job{Name: "job", Schedule: jobs.Every(every), Everywhere: true, Do: func(ctx context.Context, run jobs.Run) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return lasting(30*time.Second)(ctx, run)
			}}
		}
		began := func() int { return int(most.Load()) }
		r := c.start(nil)
		c.until(90 * time.Second)
		if began() != 0 {
			t.Error("it ran before it was added")
		}
		check(t, r.Add(job(time.Minute)))
		c.until(2*time.Minute + time.Second)
		if now.Load() != 1 {
			t.Error("it does not run once it was added")
		}
		check(t, r.Replace(job(5*time.Second)))
		c.until(2*time.Minute + 33*time.Second)
		if now.Load() != 0 {
			t.Error("it runs before its next tick")
		}
		c.until(2*time.Minute + 36*time.Second)
		if now.Load() != 1 {
			t.Error("the new schedule does not count")
		}
		check(t, r.Remove("job"))
		check(t, r.Add(job(5*time.Second)))
		c.until(3*time.Minute + 10*time.Second)
		if now.Load() != 1 || most.Load() != 1 {
			t.Errorf("%d at a time, now %d", most.Load(), now.Load())
		}
		check(t, r.Remove("job"))
		c.until(5 * time.Minute)
		if now.Load() != 0 {
			t.Error("it runs after it was removed")
		}
		check(t, r.Add(job(time.Hour)))
		c.until(5*time.Minute + 10*time.Second)
		check(t, r.Replace(job(5*time.Second)))
		c.until(5*time.Minute + 16*time.Second)
		if now.Load() != 1 {
			t.Error("a job that has long to wait does not take its new schedule")
		}
	})
}

// When the replica leaves, its run has the drain to finish, and is cancelled then.
func TestEverywhereDrains(t *testing.T) {
	for name, test := range map[string]struct {
		options []scheduler.Option
		takes   time.Duration
		ends    time.Duration
		cause   error
	}{
		"no drain":      {nil, time.Hour, 90 * time.Second, election.ErrStopped},
		"in time":       {[]scheduler.Option{scheduler.WithDrain(drain)}, 3 * time.Minute, 4 * time.Minute, nil},
		"drain is over": {[]scheduler.Option{scheduler.WithDrain(drain)}, time.Hour, 90*time.Second + drain, election.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: lasting(test.takes)}}, test.options...)
				c.until(90 * time.Second)
				r.stop()
				runs := c.runs("job")
				if now := time.Since(c.begin); now != test.ends || len(runs) != 1 || !errors.Is(runs[0].cause, test.cause) {
					t.Errorf("stopped at %v: %+v", now, runs)
				}
			})
		})
	}
}

// A job that is removed and added again, twice, while it runs does not overlap itself.
func TestEverywhereRemovedTwice(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var now, most atomic.Int32
		job := jobs.Job{Name: "job", Schedule: jobs.Every(5 * time.Second), Everywhere: true, Do: func(ctx context.Context, run jobs.Run) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return lasting(5*time.Minute)(ctx, run)
		}}
		r := c.start([]jobs.Job{job})
		c.until(7 * time.Second)
		for range 2 {
			check(t, r.Remove("job"))
			c.until(time.Since(c.begin) + time.Second)
			check(t, r.Add(job))
			c.until(time.Since(c.begin) + time.Second)
		}
		c.until(time.Minute)
		if most.Load() != 1 {
			t.Errorf("%d at a time", most.Load())
		}
	})
}

// On a database that turns out to be unfit Run returns, and ends what runs everywhere with what it returns.
func TestUnfitDatabaseEndsWhatRunsEverywhere(t *testing.T) {
	inBubble(t, func(c *cluster) {
		s, err := scheduler.New(checked{newLink(c.store), func() error {
			if time.Since(c.begin) < 90*time.Second {
				return fmt.Errorf("%w: read_only is on", lease.ErrNotReady)
			}
			return fmt.Errorf("%w: autocommit is off", lease.ErrSetup)
		}}, "g")
		check(t, err)
		var cause error
		check(t, s.Add(jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		}}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := s.Run(ctx); !errors.Is(err, lease.ErrSetup) || !errors.Is(cause, lease.ErrSetup) || time.Since(c.begin) > 3*time.Minute {
			t.Errorf("after %v Run returns %v, and what runs ends with %v", time.Since(c.begin), err, cause)
		}
	})
}
