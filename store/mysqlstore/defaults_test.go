package mysqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// On a server whose defaults are not those of others, statements are committed as on any other one. With completion_type=CHAIN each COMMIT
// begins another transaction.
func TestServerDefaults(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		server := dbtest.Private(t, db.Kind, "--completion-type=CHAIN", "--transaction-isolation=SERIALIZABLE")
		ledgerConforms(t, variants[0], func(t testing.TB) dbtest.Database { return dbtest.FreshOn(t, server.Kind(), server.DSN("")) }, false)
	})
}

// A program has left transactions open on the connections of its pool: what the store confirms is committed all the same.
func TestTransactionLeftOpen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		pool := openSQL(t, db.DSN)
		pool.SetMaxIdleConns(12)
		var conns []*sql.Conn
		for range 12 {
			c, err := pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.ExecContext(t.Context(), "START TRANSACTION"); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			_ = c.Close()
		}
		s, err := mysqlstore.New(pool)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Prepare(soon(t), "g", 15*time.Second); err != nil {
			t.Fatal(err)
		}
		read, err := s.Read(soon(t), "g")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Acquire(soon(t), store.Acquire{Read: read[0], Owner: "a", Heartbeat: 1, TTL: 15 * time.Second}); err != nil {
			t.Fatal(err)
		}
		var owner string
		if err := openSQL(t, db.DSN).QueryRow("SELECT owner FROM cronlease_lease WHERE name = 'g'").Scan(&owner); err != nil || owner != "a" {
			t.Errorf("others see %q as the owner: %v", owner, err)
		}
	})
}
