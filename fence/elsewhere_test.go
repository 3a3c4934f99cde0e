package fence_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// otherDatabase is one that does not keep the lease.
func otherDatabase(t *testing.T, s *scene) *sql.DB {
	t.Helper()
	if s.kind == sqlite {
		other, err := sqlitestore.Open(filepath.Join(t.TempDir(), "other.db"))
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		if _, err := other.DB().Exec("DROP TABLE cronlease_fence"); err != nil {
			t.Fatal(err)
		}
		return other.DB()
	}
	return dbtest.Database{Kind: s.kind, DSN: dbtest.Private(t, s.kind).DSN("")}.Open(t)
}

// otherSchema is another schema on the same server, for a user that may only
// read the fence's table beside it.
func otherSchema(t *testing.T, s *scene) *sql.DB {
	t.Helper()
	other := dbtest.Fresh(t, s.kind)
	user := strings.ToLower("u_" + rand.Text()[:12])
	name := other.Config(t).DBName
	for _, statement := range []string{
		"CREATE USER " + user + "@'%' IDENTIFIED BY 'x-4711-Y'",
		"GRANT ALL ON " + name + ".* TO " + user + "@'%'",
		"GRANT SELECT ON " + s.at.Config(t).DBName + ".cronlease_fence TO " + user + "@'%'",
	} {
		s.exec(statement)
	}
	t.Cleanup(func() { s.exec("DROP USER " + user + "@'%'") })
	config := other.Config(t)
	config.User, config.Passwd = user, "x-4711-Y"
	config.ClientFoundRows = true
	config.Params = map[string]string{
		"autocommit": "0", "time_zone": "'Europe/Berlin'", "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
		"sql_safe_updates": "1", "sql_select_limit": "1", "completion_type": "1",
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE own (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return db
}

// A lease that is kept in memory cannot fence a transaction, and says so.
func TestMemory(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		s.hold.Store = memdb.New()
		err := fence.Do(s.ctx(), s.db, func(*sql.Tx) error {
			t.Error("the function was called")
			return nil
		})
		if err == nil || errors.Is(err, fence.ErrFenced) || !strings.Contains(err.Error(), "keeps no rows in an SQL database") {
			t.Error(err)
		}
		s.hold.Store, s.hold.Kind = s.store, lease.HoldLock
		if err := fence.Do(s.ctx(), s.db, func(*sql.Tx) error { return nil }); err == nil {
			t.Error("a transaction under a lock without a holder was committed")
		}
	})
}
