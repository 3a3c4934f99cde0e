package mysqlstore_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/storetest"
)

type variant struct {
	name string
	open func(t testing.TB, db dbtest.Database) *mysqlstore.Store
}

// variants are a store with a DSN, and with the pools of services whose settings
// are as odd as they may be. The same suites run on all, in `make test` on one of
// them on each server.
var variants = []variant{
	{"DSN", func(t testing.TB, db dbtest.Database) *mysqlstore.Store { return open(t, db.DSN) }},
	{"pool", func(t testing.TB, db dbtest.Database) *mysqlstore.Store { return openOn(t, db.Open(t)) }},
	{"pool with odd settings", func(t testing.TB, db dbtest.Database) *mysqlstore.Store { return openOn(t, openSQL(t, oddDSN(t, db))) }},
}

// writing is a store whose ledger works as on a cluster with several writers.
var writing = variant{"pool, writing the fence row", func(t testing.TB, db dbtest.Database) *mysqlstore.Store {
	return openManyWriters(t, db.DSN)
}}

func TestConformance(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		for _, variant := range rounds.Pick(t, variants, 1) {
			t.Run(variant.name, func(t *testing.T) {
				t.Parallel()
				used := &emptied{fresh: func(t testing.TB) dbtest.Database { return dbtest.Fresh(t, db.Kind) }, parent: t}
				leaseConforms(t, variant, used.take)
			})
		}
	})
}

func leaseConforms(t *testing.T, variant variant, fresh func(testing.TB) dbtest.Database) {
	t.Helper()
	storetest.Leases(t, func(t testing.TB) storetest.Harness { return leaseHarness(t, variant, fresh) })
}

func leaseHarness(t testing.TB, variant variant, fresh func(testing.TB) dbtest.Database) storetest.Harness {
	t.Helper()
	db := fresh(t)
	migrated(t, db.DSN)
	pool := db.Open(t)
	return storetest.Harness{
		Open:   func(t testing.TB) store.Leases { return variant.open(t, db) },
		Update: func(t testing.TB, group string, change storetest.Change) { update(t, pool, group, change) },
		LockLease: func(t testing.TB, group string) func() {
			return lockRow(t, db, "SELECT name FROM cronlease_lease WHERE name = '"+group+"' FOR UPDATE")
		},
		LoseSignal: func(t testing.TB, group string) { killSignal(t, db, group) },
	}
}

func TestLedgerConformance(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		for _, variant := range rounds.Pick(t, []variant{variants[0], variants[2], writing}, 1) {
			t.Run(variant.name, func(t *testing.T) {
				t.Parallel()
				ledgerConforms(t, variant, func(t testing.TB) dbtest.Database { return dbtest.Fresh(t, db.Kind) }, variant.name == writing.name)
			})
		}
	})
}

func ledgerConforms(t *testing.T, variant variant, fresh func(testing.TB) dbtest.Database, anyServer bool) {
	t.Helper()
	databases := &emptied{fresh: fresh, parent: t}
	storetest.Ledger(t, func(t testing.TB) storetest.Harness {
		empty := databases.take(t)
		return storetest.Harness{
			Open:      func(t testing.TB) store.Leases { return variant.open(t, empty) },
			Fenced:    storetest.FencedOn(empty.Open(t)),
			AnyServer: anyServer,
		}
	})
}

// emptied are databases with empty tables, used by one case after the other:
// to make tables takes far longer than most cases.
type emptied struct {
	fresh  func(testing.TB) dbtest.Database
	parent testing.TB

	mu   sync.Mutex // guards free
	free []dbtest.Database
}

func (e *emptied) take(t testing.TB) dbtest.Database {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.free) == 0 {
		db := e.fresh(e.parent)
		migrated(e.parent, db.DSN)
		e.free = append(e.free, db)
	}
	db := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	t.Cleanup(func() {
		pool := db.Open(t)
		for _, table := range []string{"lease", "fence", "run", "job", "replica", "audit", "term", "attempt"} {
			exec(t, pool, "DELETE FROM cronlease_"+table)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.free = append(e.free, db)
	})
	return db
}

// oddDSN has every setting that a store might stumble over.
func oddDSN(t testing.TB, db dbtest.Database) string {
	return with(t, db, func(c *mysql.Config) {
		zone, err := time.LoadLocation("America/New_York")
		if err != nil {
			t.Fatal(err)
		}
		c.Loc = zone
		c.ParseTime = true
		c.ClientFoundRows = true
		c.InterpolateParams = true
		c.ColumnsWithAlias = true
		c.RejectReadOnly = true
		c.Params = map[string]string{
			"autocommit": "0", "time_zone": "'Europe/Berlin'", "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
			"sql_safe_updates": "1", "sql_select_limit": "1", "character_set_connection": "ucs2", "innodb_lock_wait_timeout": "100",
		}
	})
}

func openSQL(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	return db
}

func openOn(t testing.TB, db *sql.DB, options ...mysqlstore.Option) *mysqlstore.Store {
	t.Helper()
	s, err := mysqlstore.New(db, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// update changes the rows of a group behind the stores' backs.
func update(t testing.TB, db *sql.DB, group string, change storetest.Change) {
	t.Helper()
	const epoch, layout = "'1970-01-01'", "2006-01-02 15:04:05.000000"
	l, f := new(store.Lease), new(store.Fence)
	var micros, ttl int64
	err := db.QueryRowContext(soon(t), "SELECT owner, token, heartbeat, TIMESTAMPDIFF(MICROSECOND, "+epoch+
		", renewed_at), ttl_us, released, resign_asked FROM cronlease_lease WHERE name = ?", group).
		Scan(&l.Owner, &l.Token, &l.Heartbeat, &micros, &ttl, &l.Released, &l.ResignAsked)
	l.RenewedAt, l.TTL = time.UnixMicro(micros).UTC(), time.Duration(ttl)*time.Microsecond
	if errors.Is(err, sql.ErrNoRows) {
		l, err = nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	err = db.QueryRowContext(soon(t), "SELECT owner, token FROM cronlease_fence WHERE name = ?", group).Scan(&f.Owner, &f.Token)
	if errors.Is(err, sql.ErrNoRows) {
		f, err = nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}

	l, f = change(l, f)
	for _, table := range []string{"lease", "fence"} {
		eventually(t, "no other node changes the row", func() bool {
			_, err := db.ExecContext(soon(t), "DELETE FROM cronlease_"+table+" WHERE name = ?", group)
			if err != nil && !mysqlconn.IsRolledBack(err) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	if l != nil {
		exec(t, db, "INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			group, l.Owner, l.Token, l.Heartbeat, l.RenewedAt.UTC().Format(layout), l.TTL.Microseconds(), l.Released, l.ResignAsked)
	}
	if f != nil {
		exec(t, db, "INSERT INTO cronlease_fence (name, owner, token) VALUES (?, ?, ?)", group, f.Owner, f.Token)
	}
}
