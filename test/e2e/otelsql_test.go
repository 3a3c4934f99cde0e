package e2e

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/XSAM/otelsql"
	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/storetest"
)

// traced opens a pool whose driver is wrapped by otelsql.
func traced(t testing.TB, db dbtest.Database) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(db.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	pool := otelsql.OpenDB(connector)
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func tracedStore(t testing.TB, db dbtest.Database) *mysqlstore.Store {
	t.Helper()
	s, err := mysqlstore.New(traced(t, db))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A pool of otelsql is as good as any: the contracts of the ledger and of locks hold.
func TestOtelsqlConforms(t *testing.T) {
	t.Parallel()
	for _, kind := range rounds.Pick(t, dbtest.Kinds(t), 1) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			tables := &emptyTables{parent: t, kind: kind}
			harness := func(t testing.TB) storetest.Harness {
				db := tables.take(t)
				return storetest.Harness{Open: func(t testing.TB) store.Leases { return tracedStore(t, db) }}
			}
			for name, suite := range map[string]func(*testing.T, func(testing.TB) storetest.Harness){
				"ledger": storetest.Ledger, "locks": storetest.Locks,
			} {
				t.Run(name, func(t *testing.T) { suite(t, harness) })
			}
		})
	}
}

// emptyTables are schemas that cases use one after the other, since to make tables
// takes longer than most cases.
type emptyTables struct {
	parent testing.TB
	kind   string

	mu   sync.Mutex
	free []dbtest.Database
}

func (e *emptyTables) take(t testing.TB) dbtest.Database {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.free) == 0 {
		db := dbtest.Fresh(e.parent, e.kind)
		if err := tracedStore(e.parent, db).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.free = append(e.free, db)
	}
	db := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	t.Cleanup(func() {
		pool := db.Open(t)
		for _, table := range []string{"lease", "fence", "run", "job", "replica", "audit", "term", "attempt", "lock"} {
			if _, err := pool.ExecContext(context.WithoutCancel(t.Context()), "DELETE FROM cronlease_"+table); err != nil {
				t.Fatal(err)
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.free = append(e.free, db)
	})
	return db
}

// Two replicas on pools of otelsql: the lease changes hands at once, connections that
// are killed are replaced, fenced transactions are refused under an old token, and one
// whose context has ended does not go on in the server.
func TestOtelsqlPool(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testOtelsqlPool(t, dbtest.Fresh(t, kind))
		})
	}
}

func testOtelsqlPool(t *testing.T, db dbtest.Database) {
	ctx := t.Context()
	admin := db.Open(t)
	var runs atomic.Int64
	type replica struct {
		*scheduler.Scheduler
		stop func()
		pool *sql.DB
	}
	holds := make(chan context.Context, 1)
	start := func() replica {
		s := tracedStore(t, db)
		if err := errors.Join(s.Migrate(ctx), s.Check(ctx)); err != nil {
			t.Fatal(err)
		}
		r, err := scheduler.New(s, "g", scheduler.WithTiming(lease.Timing{TTL: 6 * time.Second, Grace: 500 * time.Millisecond}))
		if err != nil {
			t.Fatal(err)
		}
		err = r.Add(
			jobs.Job{Name: "count", Schedule: jobs.Every(time.Second), Do: func(ctx context.Context, run jobs.Run) error {
				return fence.Do(ctx, s.DB(), func(tx *sql.Tx) error {
					runs.Add(1)
					_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?, ?)", run.Tick.UnixMicro(), run.Token)
					return err
				})
			}},
			jobs.Job{Name: "hold", Schedule: jobs.Manual(), Do: func(ctx context.Context, _ jobs.Run) error {
				select {
				case holds <- ctx:
				default:
				}
				<-ctx.Done()
				return ctx.Err()
			}},
			jobs.Job{Name: "slow", Schedule: jobs.Manual(), Timeout: time.Second, Do: func(ctx context.Context, _ jobs.Run) error {
				return fence.Do(ctx, s.DB(), func(tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO effect SELECT SLEEP(60), 1")
					return err
				})
			}},
		)
		if err != nil {
			t.Fatal(err)
		}
		running, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() { done <- r.Run(running) }()
		return replica{r, func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}, s.DB()}
	}
	if _, err := admin.ExecContext(ctx, "CREATE TABLE effect (tick BIGINT PRIMARY KEY, token BIGINT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	first := start()
	await(t, "the first replica runs", func() bool { return runs.Load() > 1 })
	second := start()
	await(t, "the second replica follows", func() bool { return second.State().Owner != "" })

	// Each of its connections is killed.
	var ids string
	if err := dbserver.Listed(ctx, func() error {
		return admin.QueryRowContext(ctx, "SELECT COALESCE(GROUP_CONCAT(id), '') FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()").Scan(&ids)
	}); err != nil {
		t.Fatal(err)
	}
	kill := strings.Split(ids, ",")
	if len(kill) < 3 {
		t.Fatalf("%d connections: %s", len(kill), ids)
	}
	for _, id := range kill {
		_, _ = admin.ExecContext(ctx, "KILL "+id) // it may be gone
	}
	before := runs.Load()
	await(t, "runs go on after the connections were killed", func() bool { return runs.Load() > before+1 })

	// What a run that has reached its limit was doing ends in the server.
	g := first.Jobs()
	key, err := g.Trigger(ctx, "slow")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the slow run has timed out", func() bool {
		records, err := g.Runs(ctx, jobs.Filter{Job: "slow"})
		return err == nil && len(records) == 1 && records[0].Key == key && records[0].State == jobs.TimedOut
	})
	await(t, "its statement has ended", func() bool {
		var n int
		err := admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'INSERT INTO effect SELECT SLEEP%'").Scan(&n)
		return err == nil && n == 0
	})

	// The hold of a term that is over is refused.
	if _, err := g.Trigger(ctx, "hold"); err != nil {
		t.Fatal(err)
	}
	held := <-holds
	if second.State().Role == election.Leading { // since the connections were killed
		first, second = second, first
	}
	defer second.stop()
	first.stop()
	before = runs.Load()
	stopped := time.Now()
	await(t, "the second replica runs", func() bool { return runs.Load() > before })
	if took := time.Since(stopped); took > 4*time.Second {
		t.Errorf("a clean takeover took %v", took)
	}
	err = fence.Do(context.WithoutCancel(held), second.pool, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (1, 1)")
		return err
	})
	if !errors.Is(err, fence.ErrFenced) {
		t.Errorf("a write of the first replica's term: %v", err)
	}
}

// A guard goes inside the tracing driver: it refuses what would commit.
func TestOtelsqlAroundAGuard(t *testing.T) {
	t.Parallel()
	for _, kind := range rounds.Pick(t, dbtest.Kinds(t), 1) {
		db := dbtest.Fresh(t, kind)
		connector, err := mysql.NewConnector(db.Config(t))
		if err != nil {
			t.Fatal(err)
		}
		pool := otelsql.OpenDB(fence.Guard(connector))
		defer pool.Close()
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "CREATE TABLE note (n INT)"); err == nil {
			t.Errorf("%s: a transaction may create a table", kind)
		}
		_ = tx.Rollback() // what it says does not matter
	}
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	looks := time.NewTicker(50 * time.Millisecond)
	defer looks.Stop()
	for !is() {
		select {
		case <-looks.C:
		case <-ctx.Done():
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
