package zkstore_test

import (
	"context"

	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// Two schedulers on an ensemble of three: the leader of the ensemble is killed while one of them leads, which goes on
// under its token; then that one stops, and the other takes over. Each tick is run once.
func TestSchedulersOnEnsemble(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	leads := leader(t, servers)
	watch := &bench{TB: t, Store: openQuick(t, servers)}
	var mu sync.Mutex
	ran := map[time.Time]int{}
	ticked := make(chan string, 1000)
	begin := func(owner string) (stop func()) {
		s, err := scheduler.New(openQuick(t, servers), "group", scheduler.WithTiming(lease.Timing{TTL: 30 * time.Second}), scheduler.WithLogger(zaptest.NewLogger(t).Named(owner)))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Add(jobs.Job{Name: "tick", Schedule: jobs.Every(time.Second), Do: func(_ context.Context, r jobs.Run) error {
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
		return sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
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
	defer stopFirst()
	until("first", 2)
	stopSecond := begin("second")
	defer stopSecond()
	before := watch.reading()
	watch.ok(leads.Kill())
	until("first", 4)
	after := watch.reading()
	if after.Server == before.Server || after.Lease.Token != before.Lease.Token {
		t.Errorf("the term after the ensemble's election is %+v, before %+v", after.Lease, before.Lease)
	}
	stopFirst()
	until("second", 2)
	stopSecond()
	mu.Lock()
	defer mu.Unlock()
	for tick, n := range ran {
		if n != 1 {
			t.Errorf("tick %v was run %d times", tick, n)
		}
	}
	runs, err := watch.Runs(t.Context(), "group", jobs.Filter{State: jobs.Succeeded, Limit: 1000})
	watch.ok(err)
	if len(runs) != len(ran) {
		t.Errorf("the ledger has %d runs that succeeded, and %d ticks ran", len(runs), len(ran))
	}
	if terms, err := watch.Terms(t.Context(), "group", jobs.TermFilter{}); err != nil || len(terms) != 2 || terms[0].Ended.IsZero() {
		t.Errorf("terms %+v, error %v, want two that are over", terms, err)
	}
}
