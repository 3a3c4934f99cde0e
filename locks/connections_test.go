package locks_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// A thousand waiters in one process cost one connection, in addition to those that
// a client has anyway: one for heartbeats, two for readings, and four for writes.
func TestConnectionsOfAThousandWaiters(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		const n, anyway = 1000, 7
		holder, waiter := onServer(t, db), onServer(t, db)
		held := take(t, holder, n)
		var waiting sync.WaitGroup
		got := make(chan *locks.Lock, n)
		for i := range n {
			waiting.Go(func() {
				l, err := waiter.Mutex(fmt.Sprint("one/", i)).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				got <- l
			})
		}
		pool := db.Open(t)
		pool.SetMaxOpenConns(1)
		places := "SELECT COUNT(*) FROM cronlease_lock WHERE queue LIKE '%\"granted\":0,%'"
		for count(t, pool, places) < n {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("not all of them wait")
			}
		}
		connections := count(t, pool, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
		if most := anyway + anyway + 1; connections > most {
			t.Errorf("%d connections, want at most %d", connections, most)
		}
		release(t, held)
		waiting.Wait()
		close(got)
		var all []*locks.Lock
		for l := range got {
			all = append(all, l)
		}
		release(t, all)
	})
}

// onServer is a client with a store of its own.
func onServer(t *testing.T, db dbtest.Database, options ...locks.Option) *locks.Client {
	t.Helper()
	store, err := mysqlstore.Open(db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client(t, store, options...)
}

// take takes n locks at once.
func take(t *testing.T, c *locks.Client, n int) []*locks.Lock {
	t.Helper()
	held := make([]*locks.Lock, n)
	var all sync.WaitGroup
	for i := range held {
		all.Go(func() {
			var err error
			if held[i], err = c.Mutex(fmt.Sprint("one/", i)).Lock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return held
}

// release gives them back at once.
func release(t *testing.T, held []*locks.Lock) {
	t.Helper()
	var all sync.WaitGroup
	for _, l := range held {
		all.Go(func() {
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// count runs a query whose answer is one number.
func count(t *testing.T, pool *sql.DB, query string) int {
	t.Helper()
	var n int
	if err := pool.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
