package mysqlstore_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/lease/leasetest"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// The same suite with a DSN, and with the pools of services whose settings are
// as odd as they may be.
func TestConformance(t *testing.T) {
	t.Parallel()
	variants := []struct {
		name string
		open func(t testing.TB, db dbtest.Database) lease.Store
	}{
		{"DSN", func(t testing.TB, db dbtest.Database) lease.Store { return open(t, db.DSN) }},
		{"pool", func(t testing.TB, db dbtest.Database) lease.Store { return openOn(t, db.Open(t)) }},
		{"pool with odd settings", func(t testing.TB, db dbtest.Database) lease.Store { return openOn(t, openSQL(t, oddDSN(t, db))) }},
	}
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		for _, variant := range variants {
			t.Run(variant.name, func(t *testing.T) {
				t.Parallel()
				leasetest.Run(t, func(t testing.TB) leasetest.Harness {
					fresh := dbtest.Fresh(t, db.Kind)
					migrated(t, fresh.DSN)
					pool := fresh.Open(t)
					return leasetest.Harness{
						Open:   func(t testing.TB) lease.Store { return variant.open(t, fresh) },
						Update: func(t testing.TB, group string, change leasetest.Change) { update(t, pool, group, change) },
					}
				})
			})
		}
	})
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
func update(t testing.TB, db *sql.DB, group string, change leasetest.Change) {
	t.Helper()
	const epoch, layout = "'1970-01-01'", "2006-01-02 15:04:05.000000"
	l, f := new(lease.Lease), new(lease.Fence)
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
	exec(t, db, "DELETE FROM cronlease_lease WHERE name = ?", group)
	exec(t, db, "DELETE FROM cronlease_fence WHERE name = ?", group)
	if l != nil {
		exec(t, db, "INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			group, l.Owner, l.Token, l.Heartbeat, l.RenewedAt.UTC().Format(layout), l.TTL.Microseconds(), l.Released, l.ResignAsked)
	}
	if f != nil {
		exec(t, db, "INSERT INTO cronlease_fence (name, owner, token) VALUES (?, ?, ?)", group, f.Owner, f.Token)
	}
}
