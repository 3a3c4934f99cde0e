package mysqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// snapshotPools are pools with innodb_snapshot_isolation on and off, where the
// server has it.
func snapshotPools(t *testing.T, db dbtest.Database) map[string]*sql.DB {
	t.Helper()
	pools := map[string]*sql.DB{}
	if dbserver.Dialect(db.Kind) != dbserver.MariaDB {
		return map[string]*sql.DB{"default": db.Open(t)}
	}
	for _, setting := range []string{"ON", "OFF"} {
		config := db.Config(t)
		config.Params = map[string]string{"innodb_snapshot_isolation": setting}
		pools[setting] = openSQL(t, config.FormatDSN())
	}
	return pools
}

// A check looks at the row as it is now, however old the transaction's snapshot
// is: others queue up for a lock that is held, and count their own checks in a
// fence row, without taking anything away.
func TestCheckLooksPastTheSnapshot(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		for _, writes := range []bool{false, true} {
			for setting, pool := range snapshotPools(t, db) {
				t.Run(fmt.Sprintf("snapshot isolation %s, writes %t", setting, writes), func(t *testing.T) {
					s := migrated(t, db.DSN)
					if writes {
						s = openManyWriters(t, db.DSN)
					}
					token := take(t, s, "billing", "me")
					writeLocks(t, s, replace("stock", 0, "mark"))
					exec(t, pool, "UPDATE cronlease_lock SET queue = 'mark' WHERE name = 'stock'")
					checkPastSnapshot(t, s, pool, lease.Hold{Kind: lease.HoldLease, Name: "billing", Owner: "me", Token: token},
						"UPDATE cronlease_fence SET checks = checks + 1 WHERE name = 'billing'",
						"UPDATE cronlease_fence SET token = token + 1 WHERE name = 'billing'")
					checkPastSnapshot(t, s, pool, lease.Hold{Kind: lease.HoldLock, Name: "stock", Mark: []byte("mark")},
						"UPDATE cronlease_lock SET version = version + 1 WHERE name = 'stock'",
						"UPDATE cronlease_lock SET queue = '' WHERE name = 'stock'")
				})
			}
		}
	})
}

// checkPastSnapshot checks h in transactions whose snapshot is older than a change
// that leaves the hold, and than one that takes it away.
func checkPastSnapshot(t *testing.T, s *mysqlstore.Store, pool *sql.DB, h lease.Hold, leaves, takes string) {
	t.Helper()
	for _, c := range []struct {
		change string
		want   bool
	}{{leaves, true}, {takes, false}} {
		tx, err := pool.BeginTx(soon(t), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := tx.QueryRow("SELECT COUNT(*) FROM cronlease_schema").Scan(&n); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, c.change)
		if held, err := s.CheckHold(soon(t), tx, h); held != c.want || err != nil {
			t.Errorf("after %s: held %t, %v, want %t", c.change, held, err, c.want)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// The store's own statements are never refused for what changed after a snapshot:
// one that reads and locks would be.
func TestSessionsLookPastTheSnapshot(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		for setting, pool := range snapshotPools(t, db) {
			conns, err := mysqlconn.New(pool)
			if err != nil {
				t.Fatal(err)
			}
			c, err := conns.Open(soon(t), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Discard()
			var name, got string
			err = c.QueryRow(soon(t), "SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").Scan(&name, &got)
			if errors.Is(err, sql.ErrNoRows) {
				continue // the server has no such setting
			}
			if err != nil || got != "OFF" {
				t.Errorf("with %s: innodb_snapshot_isolation is %q, %v", setting, got, err)
			}
		}
	})
}
