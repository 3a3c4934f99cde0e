package performance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/test/internal/percentiles"
)

// BenchmarkBatch is 10,000 jobs on one tick: run by their leader, and spread over ten replicas. An operation is one
// tick. The statements are those until all runs are over, and the times are from the tick to each start.
func BenchmarkBatch(b *testing.B) {
	for _, replicas := range []int{1, 10} {
		b.Run(fmt.Sprint("replicas=", replicas), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) { benchmarkBatch(b, db, replicas, 10_000) })
		})
	}
}

func benchmarkBatch(b *testing.B, db dbtest.Database, replicas, n int) {
	c, through := count(b, db)
	var options []scheduler.Option
	if replicas > 1 {
		options = append(options, scheduler.WithSpread())
	}
	var mu sync.Mutex
	var late []time.Duration
	begun := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(late)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	for range replicas {
		sched, err := scheduler.New(open(b, through), group, options...)
		if err != nil {
			b.Fatal(err)
		}
		for j := range n {
			err := sched.Add(jobs.Job{Name: fmt.Sprint("job-", j), Schedule: jobs.Cron("*/20 * * * * *"), Do: func(_ context.Context, run jobs.Run) error {
				mu.Lock()
				defer mu.Unlock()
				late = append(late, time.Since(run.Tick))
				return nil
			}})
			if err != nil {
				b.Fatal(err)
			}
		}
		running.Go(func() { _ = sched.Run(ctx) })
	}
	tick := func() {
		until(b, "a tick", func() bool { return begun() >= n })
		<-time.After(4 * time.Second) // its outcomes are written
	}
	tick()
	var times []time.Duration
	var total cost
	ticks := 0
	for b.Loop() {
		mu.Lock()
		late = nil
		mu.Unlock()
		<-time.After(time.Until(time.Now().Truncate(20 * time.Second).Add(20*time.Second - 100*time.Millisecond)))
		c.reset()
		tick()
		one, _ := c.reset("cronlease_run")
		total.add(one)
		ticks++
		times = append(times, late...)
	}
	stop()
	running.Wait()
	total.report(b, float64(ticks))
	percentiles.Report(b, "", times)
}

// BenchmarkStart is from a tick to the first line of its job: in the leader, and, in a group that is spread, in another replica. An
// operation is one tick.
func BenchmarkStart(b *testing.B) {
	for _, name := range []string{"leader", "spread"} {
		b.Run(name, func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
				open(b, db) // makes the tables
				p := newPlayers(b, spec{DSN: db.DSN, TTL: 15 * time.Second, Ticks: true, Spread: name == "spread"})
				leader := p.start()
				p.waitFor(leader, "leading")
				if name == "spread" {
					p.waitFor(p.start(), "following")
				}
				var times []time.Duration
				<-time.After(2 * time.Second)
				for b.Loop() {
					e := p.wait(p.count(), "a start", func(e told) bool { return e.What == "start" && e.Job == "tick" && (name == "leader" || e.by != leader) })
					times = append(times, time.Duration(e.At-e.Tick))
				}
				percentiles.Report(b, "", times)
			})
		})
	}
}
