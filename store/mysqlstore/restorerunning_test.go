package mysqlstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// Tables are restored from a dump while two schedulers run, as a program does that
// loads a dump: each table is dropped and filled again. The group is paused before
// a tick can run a second time, and goes on as an operator says.
func TestRestoredUnderRunningSchedulers(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		pool, first := db.Open(t), open(t, db.DSN)
		if err := first.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		ran := make(chan time.Time, 10_000)
		var mu sync.Mutex
		runs := map[time.Time]int{}
		job := jobs.Job{Name: "all", Schedule: jobs.Every(time.Second), Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 1000},
			Do: func(_ context.Context, run jobs.Run) error {
				mu.Lock()
				defer mu.Unlock()
				runs[run.Tick]++
				ran <- run.Tick
				return nil
			}}
		ctx, stop := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		defer wait.Wait()
		defer stop()
		var group jobs.Group
		for _, store := range []*mysqlstore.Store{first, open(t, db.DSN)} {
			s, err := scheduler.New(store, "billing", scheduler.WithTiming(lease.Timing{TTL: 3 * time.Second}),
				scheduler.WithLogger(zaptest.NewLogger(t)))
			if err == nil {
				err = s.Add(job)
			}
			if err != nil {
				t.Fatal(err)
			}
			group = s.Jobs()
			wait.Go(func() {
				if err := s.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		await := func(what string, n int, after time.Time) {
			t.Helper()
			for limit := soon(t); n > 0; {
				select {
				case tick := <-ran:
					if tick.After(after) {
						n--
					}
				case <-limit.Done():
					t.Fatalf("no run %s", what)
				}
			}
		}
		await("at the beginning", 3, time.Time{})
		tables := []string{"cronlease_fence", "cronlease_job", "cronlease_lease", "cronlease_run"}
		for _, table := range tables {
			exec(t, pool, "CREATE TABLE dump_"+table+" LIKE "+table)
			exec(t, pool, "INSERT INTO dump_"+table+" SELECT * FROM "+table)
		}
		await("after the dump", 8, time.Time{})
		for _, table := range tables {
			exec(t, pool, "DROP TABLE "+table)
			exec(t, pool, "CREATE TABLE "+table+" LIKE dump_"+table)
			exec(t, pool, "INSERT INTO "+table+" SELECT * FROM dump_"+table)
		}
		limit, cancel := context.WithTimeout(t.Context(), 4*patience) // the statements above may take long on a busy server
		defer cancel()
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for paused := false; !paused; {
			select {
			case <-look.C:
				snapshot, err := group.Load(limit)
				if paused = snapshot.Paused; err != nil {
					t.Fatal(err)
				}
			case <-limit.Done():
				t.Fatal("the restore was not noticed")
			}
		}
		twice := func(when string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			for tick, n := range runs {
				if n > 1 {
					t.Errorf("%s: tick %v ran %d times", when, tick, n)
				}
			}
		}
		twice("while the group is paused")
		if err := group.ResumeSkipping(soon(t), ""); err != nil {
			t.Fatal(err)
		}
		await("after it was resumed", 3, load(t, first, "billing").Now)
		twice("after it was resumed")
	})
}
