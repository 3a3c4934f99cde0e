package performance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/test/internal/percentiles"
)

// BenchmarkBatch is 10,000 jobs on one tick: run by their leader, and spread over ten replicas. An operation is one
// tick; its statements are counted until all runs are over, and the times are from the tick to each start.
func BenchmarkBatch(b *testing.B) {
	for _, replicas := range []int{1, 10} {
		b.Run(fmt.Sprint("replicas=", replicas), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) { benchmarkBatch(b, db, replicas, 10_000) })
		})
	}
}

func benchmarkBatch(b *testing.B, db dbtest.Database, replicas, n int) {
	c, through := count(b, db)
	var mu sync.Mutex
	var times []time.Duration
	started := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(times)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	var options []scheduler.Option
	if replicas > 1 {
		options = append(options, scheduler.WithSpread())
	}
	due := time.Now().Add(20 * time.Second).Truncate(time.Second)
	by := make([]int, replicas)
	for i := range replicas {
		sched, err := scheduler.New(open(b, through), group, options...)
		if err != nil {
			b.Fatal(err)
		}
		for j := range n {
			err := sched.Add(jobs.Job{Name: fmt.Sprint("job-", j), Schedule: jobs.Cron("*/20 * * * * *"), Do: func(_ context.Context, run jobs.Run) error {
				late := time.Since(run.Tick)
				mu.Lock()
				defer mu.Unlock()
				times = append(times, late)
				by[i]++
				return nil
			}})
			if err != nil {
				b.Fatal(err)
			}
		}
		running.Go(func() { _ = sched.Run(ctx) })
	}
	_ = due
	until(b, "a tick", func() bool { return started() >= n })
	<-time.After(4 * time.Second)
	if os.Getenv("ALTER") != "" {
		if _, err := db.Open(b).Exec("ALTER TABLE cronlease_run DROP KEY by_state, ADD KEY by_state (grp, state, tick, job, trigger_id, owner), ALGORITHM=INPLACE, LOCK=NONE"); err != nil {
			b.Fatal(err)
		}
	}
	before := started()
	mu.Lock()
	times = nil
	mu.Unlock()
	c.reset()
	b.Logf("before: %d", before)
	until(b, "a tick", func() bool { return started() >= n })
	<-time.After(4 * time.Second) // outcomes are written
	total, kinds := c.reset()
	stop()
	for kind, d := range kinds {
		if d.statements > 9 {
			println(d.statements, d.commits, d.sent, d.received, kind)
		}
	}
	b.Logf("by %v", by)
	rows, err := db.Open(b).Query("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', claimed_at) - tick, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at) - tick, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', finished_at) - tick FROM cronlease_run WHERE tick = (SELECT MAX(tick) FROM cronlease_run)")
	if err != nil {
		b.Fatal(err)
	}
	var all [3][]int
	for rows.Next() {
		var x [3]int
		if err := rows.Scan(&x[0], &x[1], &x[2]); err != nil {
			b.Fatal(err)
		}
		for i := range x {
			all[i] = append(all[i], x[i]/1000)
		}
	}
	for _, a := range all {
		slices.Sort(a)
		println(a[0], a[len(a)/10], a[len(a)/2], a[len(a)*9/10], a[len(a)-1])
	}
	total.report(b, 1)
	percentiles.Report(b, "", times)
	running.Wait()
}
