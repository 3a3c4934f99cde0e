package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// Two schedulers, each on a store of its own, take turns, and each tick is run once.
func TestSchedulersTakeOver(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("{test%d}", names.Add(1))
	watch := open(t, shared.Addr(), name)
	var mu sync.Mutex
	ran := map[time.Time]int{}
	ticked := make(chan string, 100)
	begin := func(owner string) (stop func()) {
		s, err := scheduler.New(open(t, shared.Addr(), name), "g", scheduler.WithTiming(lease.Timing{TTL: 3 * time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		every := jobs.Every(time.Second)
		err = s.Add(jobs.Job{Name: "tick", Schedule: every, Do: func(_ context.Context, r jobs.Run) error {
			mu.Lock()
			defer mu.Unlock()
			ran[r.Tick]++
			ticked <- owner
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	until := func(owner string, n int) {
		t.Helper()
		for end := time.After(time.Minute); n > 0; {
			select {
			case by := <-ticked:
				if by == owner {
					n--
				}
			case <-end:
				t.Fatalf("%s runs nothing", owner)
			}
		}
	}
	stopFirst := begin("first")
	until("first", 2)
	stopSecond := begin("second")
	until("first", 2)
	stopFirst()
	until("second", 2)
	if err := watch.Pause(t.Context(), "g", ""); err != nil {
		t.Fatal(err)
	}
	stopSecond()
	mu.Lock()
	defer mu.Unlock()
	for tick, n := range ran {
		if n != 1 {
			t.Errorf("tick %v was run %d times", tick, n)
		}
	}
	runs, err := watch.Runs(t.Context(), "g", jobs.Filter{State: jobs.Succeeded, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != len(ran) {
		t.Errorf("the ledger has %d runs that succeeded, and %d ticks ran", len(runs), len(ran))
	}
	terms, err := watch.Terms(t.Context(), "g", jobs.TermFilter{})
	if err != nil || len(terms) != 2 || terms[0].Ended.IsZero() {
		t.Errorf("terms %+v, error %v, want two that are over", terms, err)
	}
}
