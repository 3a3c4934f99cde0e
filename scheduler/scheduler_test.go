package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each tick of each schedule runs once, at its instant, on one of the replicas.
func TestEachTickRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		var log runLog
		begin := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for range 3 {
			s := newScheduler(t, store,
				jobs.Job{Name: "every", Schedule: jobs.Every(time.Second), Do: log.do},
				jobs.Job{Name: "same", Schedule: jobs.Every(time.Second), Do: log.do},
				jobs.Job{Name: "cron", Schedule: jobs.Cron("*/7 * * * * *"), Do: log.do},
				jobs.Job{Name: "fast", Schedule: jobs.Every(1300 * time.Millisecond), Do: log.do},
				jobs.Job{Name: "once", Schedule: jobs.At(begin.Add(90 * time.Second)), Do: log.do},
			)
			wait.Go(func() {
				if err := s.Run(ctx); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
		time.Sleep(10*time.Minute + 100*time.Millisecond)
		stop()
		wait.Wait()
		log.check(t, "every", jobs.Every(time.Second), begin, 10*time.Minute)
		log.check(t, "same", jobs.Every(time.Second), begin, 10*time.Minute)
		log.check(t, "cron", jobs.Cron("*/7 * * * * *"), begin, 10*time.Minute)
		log.check(t, "fast", jobs.Every(1300*time.Millisecond), begin, 10*time.Minute)
		log.check(t, "once", jobs.At(begin.Add(90*time.Second)), begin, 10*time.Minute)
	})
}

// A clean stop cancels the running job with its cause, waits for it, and only
// then lets the next replica go on.
func TestCleanStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		ended := make(chan time.Time, 1)
		causes := make(chan error, 1)
		slow := newScheduler(t, store, jobs.Job{Name: "slow", Schedule: jobs.Every(time.Second), Do: func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			time.Sleep(1500 * time.Millisecond) // its clean-up
			ended <- time.Now()
			return ctx.Err()
		}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- slow.Run(ctx) }()
		time.Sleep(5 * time.Second)
		if n := len(slow.Running()); n != 1 {
			t.Fatalf("%d runs, want 1: an earlier run was not waited for", n)
		}

		began := make(chan time.Time, 1)
		next := newScheduler(t, store)
		nextCtx, stopNext := context.WithCancel(t.Context())
		nextDone := make(chan error, 1)
		go func() {
			nextDone <- next.Run(nextCtx)
		}()
		go func() {
			for next.State().Role != election.Leading {
				time.Sleep(time.Millisecond)
			}
			began <- time.Now()
		}()
		time.Sleep(time.Second)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if cause := <-causes; !errors.Is(cause, election.ErrStopped) {
			t.Errorf("cause %v", cause)
		}
		end, start := <-ended, <-began
		if start.Before(end) || start.Sub(end) > 50*time.Millisecond {
			t.Errorf("the next term began %v after the job's end", start.Sub(end))
		}
		stopNext()
		<-nextDone
	})
}

// A job that ignores its context keeps its own replica from leading again while
// it runs, and no other replica.
func TestJobThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		free := make(chan struct{})
		stuck := newScheduler(t, store, jobs.Job{Name: "stuck", Schedule: jobs.Every(time.Second), Do: func(context.Context, jobs.Run) error {
			<-free
			return nil
		}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- stuck.Run(ctx) }()
		time.Sleep(2 * time.Second)

		other := newScheduler(t, store)
		otherCtx, stopOther := context.WithCancel(t.Context())
		otherDone := make(chan error, 1)
		go func() { otherDone <- other.Run(otherCtx) }()

		resigned := make(chan error, 1)
		go func() { resigned <- stuck.Resign(t.Context()) }()
		time.Sleep(10 * time.Second)
		if other.State().Role == election.Leading {
			t.Error("the lease was released while a run of the term was alive")
		}
		time.Sleep(25 * time.Second)
		if other.State().Role != election.Leading {
			t.Error("the other replica did not go on after the lease had expired")
		}
		stopOther()
		<-otherDone
		time.Sleep(2 * time.Minute)
		if role := stuck.State().Role; role != election.Draining {
			t.Errorf("role %v with a run alive", role)
		}
		if stuck.Check() == nil {
			t.Error("Check says nothing of it")
		}
		close(free)
		if err := <-resigned; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if role := stuck.State().Role; role != election.Leading {
			t.Errorf("role %v after the run has ended", role)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestTimeoutAndPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 100)
		ran := 0
		s := newScheduler(t, memdb.New(),
			jobs.Job{Name: "panics", Schedule: jobs.Every(time.Second), Do: func(context.Context, jobs.Run) error {
				ran++
				panic("boom")
			}},
			jobs.Job{Name: "long", Schedule: jobs.Every(10 * time.Second), Timeout: 3 * time.Second, Do: func(ctx context.Context, _ jobs.Run) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if cause := <-causes; !errors.Is(cause, jobs.ErrTimeout) {
			t.Errorf("cause %v", cause)
		}
		stop()
		<-done
		if ran < 3 {
			t.Errorf("ran %d times: a panic stopped the schedule", ran)
		}
	})
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	do := func(context.Context, jobs.Run) error { return nil }
	s, err := scheduler.New(memdb.New(), "g")
	if err != nil {
		t.Fatal(err)
	}
	err = s.Add(
		jobs.Job{Name: "", Schedule: jobs.Every(time.Second), Do: do},
		jobs.Job{Name: "often", Schedule: jobs.Every(time.Millisecond), Do: do},
		jobs.Job{Name: "zone", Schedule: jobs.Cron("0 0 2 * * *").In("Mars/Base"), Do: do},
		jobs.Job{Name: "cron", Schedule: jobs.Cron("TZ=UTC"), Do: do},
		jobs.Job{Name: "twice", Schedule: jobs.Every(time.Second), Do: do},
		jobs.Job{Name: "twice", Schedule: jobs.Every(time.Second), Do: do},
		jobs.Job{Name: "none", Schedule: jobs.Every(time.Second)},
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`name ""`, "at least 1s", "Mars/Base", `"cron"`, `"twice" is declared twice`, `"none": no Do`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func newScheduler(t *testing.T, store *memdb.Store, declared ...jobs.Job) *scheduler.Scheduler {
	t.Helper()
	s, err := scheduler.New(store, "g")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(declared...); err != nil {
		t.Fatal(err)
	}
	return s
}

// runLog records what ran.
type runLog struct {
	mu   sync.Mutex
	runs map[string][]time.Time
}

func (l *runLog) do(_ context.Context, run jobs.Run) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[string][]time.Time{}
	}
	l.runs[run.Job] = append(l.runs[run.Job], run.Tick)
	return nil
}

// check compares the ticks that ran with those of the schedule.
func (l *runLog) check(t *testing.T, job string, schedule jobs.Schedule, begin time.Time, d time.Duration) {
	t.Helper()
	var want []time.Time
	for tick := schedule.Next(begin); !tick.IsZero() && !tick.After(begin.Add(d)); tick = schedule.Next(tick) {
		want = append(want, tick)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.EqualFunc(l.runs[job], want, time.Time.Equal) {
		t.Errorf("%s: ran %d ticks, want %d", job, len(l.runs[job]), len(want))
	}
}
