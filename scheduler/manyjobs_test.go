package scheduler_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// A job that is added costs the same however many there are: four times as many take four times the memory, where a
// look at all jobs for each takes sixteen. The test is not parallel, since what others allocate counts.
func TestAddOneByOne(t *testing.T) {
	allocated := func(n int) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		addOneByOne(t, n)
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	few, many := allocated(500), allocated(2000)
	if t.Logf("%.0f bytes for 500 jobs, %.0f for 2,000", few, many); many > 8*few {
		t.Errorf("adding four times as many jobs one by one allocates %.1f times as much", many/few)
	}
}

// BenchmarkManyJobs measures how long a replica takes from its start to its first
// run when its group has so many jobs, with a TTL of 3 s: when the ledger learns
// the jobs, and when it knows them. An operation is both of it. The heap is that
// of the replica when it leads.
func BenchmarkManyJobs(b *testing.B) {
	for _, n := range []int{20_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) { benchmarkManyJobs(b, db, n) })
		})
	}
}

func benchmarkManyJobs(b *testing.B, db dbtest.Database, n int) {
	store := onServer(b, db)
	var learns, knows time.Duration
	var heap uint64
	for i := 0; b.Loop(); i++ {
		group := fmt.Sprint("many-", i)
		took, _ := firstRun(b, store, group, n)
		learns += took
		took, heap = firstRun(b, store, group, n)
		knows += took
	}
	b.ReportMetric(learns.Seconds()/float64(b.N), "s-learns")
	b.ReportMetric(knows.Seconds()/float64(b.N), "s-knows")
	b.ReportMetric(float64(heap)/(1<<20), "heap-MB")
	b.ReportMetric(0, "ns/op")
}

// firstRun starts a replica with n jobs, one of them of each second, and returns
// how long it took to the first run of that one, and the heap then.
func firstRun(b *testing.B, store *mysqlstore.Store, group string, n int) (time.Duration, uint64) {
	s, err := scheduler.New(store, group, scheduler.WithTiming(lease.Timing{TTL: 3 * time.Second}))
	if err != nil {
		b.Fatal(err)
	}
	ran := make(chan struct{}, 1)
	add := []jobs.Job{{Name: "first", Schedule: jobs.Cron("* * * * * *"), Do: func(context.Context, jobs.Run) error {
		select {
		case ran <- struct{}{}:
		default:
		}
		return nil
	}}}
	for i := range n - 1 {
		add = append(add, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Cron("0 0 2 * * *"), Do: func(context.Context, jobs.Run) error { return nil }})
	}
	if err := s.Add(add...); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	done := make(chan error, 1)
	begin := time.Now()
	go func() { done <- s.Run(ctx) }()
	select {
	case <-ran:
	case err := <-done:
		b.Fatal(err)
	}
	took := time.Since(begin)
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
	return took, memory.HeapAlloc
}
