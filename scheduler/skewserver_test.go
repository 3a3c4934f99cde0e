package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// A real server whose clock is a year ahead, then right, then ten minutes ahead,
// under real replicas.
func TestSteppedServer(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind)
			if err := errors.Join(server.FakeClock(), server.StepClock(year), server.Stop(t.Context()), server.Start(t.Context())); errors.Is(err, dbserver.ErrNoClock) {
				t.Fatalf("%v: run scripts/install-databases", err)
			} else if err != nil {
				t.Fatal(err)
			}
			db := dbtest.FreshOn(t, kind, server.DSN(""))
			store := onServer(t, db)

			ran := make(chan jobs.Run, 1000)
			replica := func(schedule jobs.Schedule, wait func(*scheduler.Scheduler), options ...scheduler.Option) {
				t.Helper()
				options = append(options, scheduler.WithTiming(lease.Timing{TTL: 3 * time.Second}))
				s, err := scheduler.New(store, "g", options...)
				check(t, err)
				check(t, s.Add(jobs.Job{Name: "second", Schedule: schedule, Do: func(_ context.Context, run jobs.Run) error {
					ran <- run
					return nil
				}}))
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx) }()
				wait(s)
				stop()
				check(t, <-done)
			}
			// next is the next run, with how far its tick is from the machine's clock.
			next := func() time.Duration {
				t.Helper()
				select {
				case run := <-ran:
					return time.Until(run.Tick)
				case <-time.After(time.Minute):
					t.Fatal("nothing ran within a minute")
					return 0
				}
			}

			replica(jobs.Every(time.Second), func(s *scheduler.Scheduler) {
				for !errors.Is(s.Check(), scheduler.ErrSkew) { // until its first look
					if s.State().Role != election.Following {
						t.Fatal("it leads with a database a year ahead")
					}
				}
				// A replica that goes by its own clock declares the job meanwhile.
				replica(jobs.Every(time.Second), func(*scheduler.Scheduler) {
					if d := next(); d.Abs() > 20*time.Second {
						t.Errorf("by the worker's clock, a tick %v from now ran", d)
					}
				}, byWorker)
				check(t, server.StepClock(0))
				next()
				if s.State().Role != election.Leading {
					t.Error("the job runs, and this replica does not lead")
				}
			})
			check(t, server.StepClock(9*time.Minute))
			for len(ran) > 0 {
				<-ran
			}
			replica(jobs.Cron("* * * * * *"), func(s *scheduler.Scheduler) {
				if d := next() - 9*time.Minute; d.Abs() > 20*time.Second {
					t.Errorf("with the database 9 m ahead, a tick %v from its clock ran", d)
				}
				if skew, ok := s.Skew(); !ok || (skew.Ahead-9*time.Minute).Abs() > 5*time.Second {
					t.Errorf("skew %+v, %v", skew, ok)
				}
			})
		})
	}
}
