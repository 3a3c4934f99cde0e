package gocronlease_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/gocronlease"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a gocron scheduler until the test ends.
func start(t *testing.T, job func(context.Context) error, options ...gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), gocron.WithName("count")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// TestElectorRunsOnOneReplica has three replicas run a job each minute.
func TestElectorRunsOnOneReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		var runs atomic.Int32
		stops := make([]context.CancelFunc, 3)
		for i := range stops {
			ctx, stop := context.WithCancel(t.Context())
			stops[i] = stop
			elector, err := gocronlease.NewElector(ctx, store, "billing")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				stop()
				if err := elector.Wait(context.Background()); err != nil {
					t.Error(err)
				}
			})
			start(t, func(ctx context.Context) error {
				return elector.Do(ctx, func(ctx context.Context, term election.Term) error {
					if holds := lease.Holds(ctx); len(holds) != 1 || holds[0].Token != term.Token() {
						t.Errorf("the work holds %v under token %d", holds, term.Token())
					}
					runs.Add(1)
					return nil
				})
			}, gocron.WithDistributedElector(elector))
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		if n := runs.Load(); n != 10 {
			t.Errorf("%d runs in 10 minutes, want 10", n)
		}
	})
}

func TestElectorCancelsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store := memdb.New()
		elector, err := gocronlease.NewElector(ctx, store, "billing")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := elector.IsLeader(ctx); err != nil {
			t.Errorf("the only replica does not lead: %v", err)
		}
		other, err := gocronlease.NewElector(ctx, store, "billing")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := other.IsLeader(ctx); !errors.Is(err, gocronlease.ErrNotLeading) {
			t.Errorf("beside a leader: %v", err)
		}
		if err := elector.Do(ctx, nil); err == nil || errors.Is(err, gocronlease.ErrNotLeading) {
			t.Errorf("Do without a function: %v", err)
		}
		time.AfterFunc(time.Minute, stop)
		err = elector.Do(t.Context(), func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, election.ErrStopped) {
			t.Errorf("the work ended with %v", err)
		}
		for _, e := range []*gocronlease.Elector{elector, other} {
			if err := e.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := elector.Do(t.Context(), nil); !errors.Is(err, gocronlease.ErrNotLeading) {
			t.Errorf("after the campaign: %v", err)
		}
	})
}

// TestLockerKeepsTheLock has a second scheduler whose clock is late.
func TestLockerKeepsTheLock(t *testing.T) {
	for name, c := range map[string]struct {
		keep time.Duration
		want int32
	}{
		"longer than the clocks differ":  {time.Second, 10},
		"shorter than the clocks differ": {100 * time.Millisecond, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memdb.New()
				var runs atomic.Int32
				for range 2 {
					client, err := locks.New(store)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						if err := client.Close(context.Background()); err != nil {
							t.Error(err)
						}
					})
					locker := gocronlease.NewLocker(client, gocronlease.KeepFor(c.keep))
					start(t, func(context.Context) error { runs.Add(1); return nil }, gocron.WithDistributedLocker(locker))
					time.Sleep(300 * time.Millisecond)
				}
				time.Sleep(10*time.Minute + 30*time.Second)
				if n := runs.Load(); n != c.want {
					t.Errorf("%d runs in 10 minutes, want %d", n, c.want)
				}
			})
		})
	}
}

func TestLockerTakesGocronsOwnNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := locks.New(memdb.New())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := client.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		locker := gocronlease.NewLocker(client, gocronlease.KeepFor(0))
		names := []string{"main.(*invoices).run-fm", "main.(*invoices).run.fm", "main.[...].func1", "", "ünïcode"}
		for _, name := range names {
			l, err := locker.Lock(t.Context(), name)
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			defer func() {
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			if _, err := locker.Lock(t.Context(), name); !errors.Is(err, locks.ErrBusy) {
				t.Errorf("%q is locked twice: %v", name, err)
			}
		}
	})
}

// Whatever a job is called, and whatever prefix the program chose, the job runs: gocron leaves out
// a run whose lock has an error, and tells nobody.
func TestLockerTakesAnyName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		one, other := client(t, store), client(t, store)
		names := map[string]bool{}
		for _, prefix := range []string{"gocron/", "", "-", "the service: ", strings.Repeat("p", 51), strings.Repeat("p", 52), strings.Repeat("p", 200), strings.Repeat("p", 199) + "q"} {
			for _, job := range []string{"count", "", "(count)", strings.Repeat("j", 64), strings.Repeat("j", 65), strings.Repeat("j", 129), strings.Repeat("j", 128) + "i", strings.Repeat("ж", 65), "a\xff\x00b"} {
				l, err := gocronlease.NewLocker(one, gocronlease.Prefix(prefix), gocronlease.KeepFor(0)).Lock(t.Context(), job)
				if err != nil {
					t.Errorf("%q, %q: %v", prefix, job, err)
					continue
				}
				name := l.(interface{ Name() string }).Name()
				if names[name] {
					t.Errorf("%q, %q: the name %q is that of another job too", prefix, job, name)
				}
				names[name] = true
				if _, err := gocronlease.NewLocker(other, gocronlease.Prefix(prefix)).Lock(t.Context(), job); !errors.Is(err, locks.ErrBusy) {
					t.Errorf("%q, %q: on another replica: %v", prefix, job, err)
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func client(t *testing.T, store *memdb.Store) *locks.Client {
	t.Helper()
	c, err := locks.New(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}
