package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// The longest possible durations. Due ticks are still due; a tick of 292 years
// ahead is not, and nothing overflows into the past.
func TestHugeDurations(t *testing.T) {
	inBubble(t, func(c *cluster) {
		most := time.Duration(math.MaxInt64).Truncate(time.Millisecond)
		fail := func(context.Context, jobs.Run) error { return errors.New("failed") }
		declared := []jobs.Job{
			{Name: "plain", Schedule: jobs.Every(time.Minute)},
			{Name: "every", Schedule: jobs.Every(most)},
			{Name: "rate", Schedule: jobs.FixedRate(most)},
			{Name: "delay", Schedule: jobs.FixedDelay(most)},
			{Name: "first", Schedule: jobs.FixedRate(most).InitialDelay(most)},
			{Name: "timeout", Schedule: jobs.Every(time.Minute), Timeout: most},
			{Name: "at most", Schedule: jobs.Every(time.Minute), LockAtMostFor: most},
			{Name: "at least", Schedule: jobs.Every(time.Minute), LockAtLeastFor: most},
			{Name: "deadline", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Deadline: most}},
			{Name: "history", Schedule: jobs.Every(time.Minute), History: jobs.History{Keep: math.MaxInt, For: most}},
			{Name: "retry", Schedule: jobs.Every(time.Minute), Retry: jobs.Retry{Attempts: math.MaxInt, Initial: most, Max: most, Jitter: 1}, Do: fail},
			{Name: "late", Schedule: jobs.At(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))},
			{Name: "early", Schedule: jobs.At(time.Unix(math.MinInt32, 0))},
		}
		for i := range declared {
			declared[i].Name = strings.ReplaceAll(declared[i].Name, " ", "-")
		}
		c.start(declared)
		c.until(90 * time.Second)
		c.replicas[0].kill() // and what is loaded from the ledger is the same
		c.start(declared)
		c.until(3*time.Minute + time.Second)
		for _, job := range []string{"plain", "timeout", "at-most", "deadline", "history"} {
			c.wantRows(job, "1m succeeded", "2m succeeded", "3m succeeded")
		}
		c.wantRows("rate", "0s succeeded")
		c.wantRows("delay", "0s succeeded")
		for _, job := range []string{"every", "first", "late", "early"} {
			c.wantRows(job)
		}
		if runs := c.runs("at-least"); len(runs) != 1 {
			c.Errorf("at-least ran %d times within 292 years", len(runs))
		}
		if runs := c.runs("retry"); len(runs) != 1 {
			c.Errorf("retry ran %d times", len(runs))
		}
	})
}

// A job may return any error, but only a bounded part of it is kept and logged.
func TestTenMegabytesOfError(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, logs := observer.New(zap.DebugLevel)
		text := strings.Repeat("é", 5<<20)
		c.start([]jobs.Job{
			{Name: "error", Schedule: jobs.Every(time.Minute), Do: func(context.Context, jobs.Run) error { return errors.New(text) }},
			{Name: "panic", Schedule: jobs.Every(time.Minute), Do: func(context.Context, jobs.Run) error { panic(text) }},
			{Name: "late", Schedule: jobs.Every(time.Minute), Timeout: time.Second, Do: func(ctx context.Context, _ jobs.Run) error {
				<-ctx.Done()
				return errors.New(text)
			}},
		}, scheduler.WithLogger(zap.New(core)))
		c.until(2*time.Minute + 10*time.Second)
		for _, job := range []string{"error", "panic", "late"} {
			records := c.records(job)
			if len(records) != 2 {
				c.Fatalf("%s: %d rows", job, len(records))
			}
			for _, r := range records {
				if !r.State.Over() || len(r.Error) > store.MaxError || len(r.Error) < store.MaxError/2 {
					c.Errorf("%s: %v with %d bytes", job, r.State, len(r.Error))
				}
			}
		}
		for _, entry := range logs.All() {
			if shown := fmt.Sprint(entry.ContextMap()); len(shown) > 64<<10 {
				c.Errorf("%q is logged with %d bytes", entry.Message, len(shown))
			}
		}
	})
}

// A list of 10,000 jobs, all due at once, on a real server: each runs, once.
func TestTenThousandJobs(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
		defer stop()
		store := onServer(t, db)
		const n = 10_000
		var (
			mu  sync.Mutex
			ran = map[string]int{}
			all = make(chan struct{})
		)
		leader, err := scheduler.New(store, "many")
		if err != nil {
			t.Fatal(err)
		}
		declared := make([]jobs.Job, n)
		for i := range declared {
			declared[i] = jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.FixedRate(time.Hour), Do: func(_ context.Context, run jobs.Run) error {
				mu.Lock()
				defer mu.Unlock()
				if ran[run.Job]++; len(ran) == n && ran[run.Job] == 1 {
					close(all)
				}
				return nil
			}}
		}
		if err := leader.Add(declared...); err != nil {
			t.Fatal(err)
		}
		running, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- leader.Run(running) }()
		select {
		case <-all:
		case <-ctx.Done():
			mu.Lock()
			t.Errorf("%d of %d jobs ran", len(ran), n)
			mu.Unlock()
		}
		token := leader.State().Token
		succeeded := func() ([]jobs.Record, error) {
			return store.Runs(ctx, "many", jobs.Filter{State: jobs.Succeeded, Limit: 2 * n})
		}
		// The end of a term waits for outcomes that are on their way only as long as
		// fits into its timing.
		for written, err := succeeded(); err == nil && len(written) < n; written, err = succeeded() {
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		runs, err := succeeded()
		if err != nil || len(runs) != n {
			t.Errorf("%d runs succeeded by the ledger, want %d: %v", len(runs), n, err)
		}
		for _, r := range runs {
			if ran[r.Job] != 1 || r.Token != token {
				t.Fatalf("%s ran %d times, under %d: %+v", r.Job, ran[r.Job], token, r)
			}
		}
	})
}
