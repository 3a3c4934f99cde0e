package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// On real servers, a row that a CHECK refuses and one that another transaction has
// locked hold up no other job.
func TestRefusedRowOnServers(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"check":      "ALTER TABLE cronlease_run ADD CONSTRAINT nothing_bad CHECK (job <> 'bad' OR tick < {now})",
		"locked run": "SELECT * FROM cronlease_run WHERE grp = 'g' AND job = 'bad' ORDER BY tick DESC LIMIT 1 FOR UPDATE",
		"locked job": "SELECT * FROM cronlease_job WHERE grp = 'g' AND name = 'bad' FOR UPDATE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
				store := onServer(t, db)
				core, log := observer.New(zap.InfoLevel)
				s, err := scheduler.New(store, "g", scheduler.WithLogger(zap.New(core)), scheduler.WithTiming(lease.Timing{TTL: 15 * time.Second}))
				check(t, err)
				r := newRuns()
				for i := range 20 {
					name := fmt.Sprint("job-", i)
					if i == 7 {
						name = "bad"
					}
					check(t, s.Add(jobs.Job{Name: name, Schedule: jobs.Every(time.Second), Do: r.do}))
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx) }()
				r.each(t, 19, 2)
				tx, err := db.Open(t).BeginTx(t.Context(), nil)
				check(t, err)
				defer func() { _ = tx.Rollback() }()
				_, err = tx.ExecContext(t.Context(), strings.ReplaceAll(statement, "{now}", fmt.Sprint(time.Now().Add(time.Second).UnixMicro())))
				check(t, err)
				r.each(t, 19, 6) // the other jobs go on
				if name == "check" {
					lines := log.FilterMessageSnippet(asideLine).FilterField(zap.String("job", "bad")).All()
					if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), "nothing_bad") {
						t.Errorf("lines %v", lines)
					}
				}
				check(t, tx.Rollback())
				stop()
				check(t, <-done)
			})
		})
	}
}

// runs counts the runs of each job.
type runs struct {
	mu   sync.Mutex
	n    map[string]int
	news chan struct{}
}

func newRuns() *runs {
	return &runs{n: map[string]int{}, news: make(chan struct{}, 1)}
}

func (r *runs) do(_ context.Context, run jobs.Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[run.Job]++
	select {
	case r.news <- struct{}{}:
	default:
	}
	return nil
}

// each waits until so many jobs have run n more times each.
func (r *runs) each(t *testing.T, most, n int) {
	t.Helper()
	r.mu.Lock()
	clear(r.n)
	r.mu.Unlock()
	for {
		r.mu.Lock()
		ready := 0
		for job, ran := range r.n {
			if job != "bad" && ran >= n {
				ready++
			}
		}
		r.mu.Unlock()
		if ready >= most {
			return
		}
		select {
		case <-r.news:
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d jobs ran %d times in time", ready, most, n)
		}
	}
}
