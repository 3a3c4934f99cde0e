package mysqlstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// signalHolder is the variable that makes the test binary hold a signal.
const signalHolder = "CRONLEASE_SIGNAL_HOLDER"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(signalHolder); dsn != "" {
		fmt.Fprintln(os.Stderr, holdSignal(dsn))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// patience is more than anything here takes on a busy machine.
const patience = 30 * time.Second

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open returns a store on the DSN that is closed when the test ends.
func open(t testing.TB, dsn string, options ...mysqlstore.Option) *mysqlstore.Store {
	t.Helper()
	s, err := mysqlstore.Open(dsn, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *mysqlstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close store: %v", err)
	}
}

// migrated is open with the tables there.
func migrated(t testing.TB, dsn string, options ...mysqlstore.Option) *mysqlstore.Store {
	t.Helper()
	s := open(t, dsn, options...)
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

func exec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string, values ...any) {
	t.Helper()
	if _, err := db.ExecContext(soon(t), statement, values...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// conn returns a connection of its own.
func conn(t testing.TB, db *sql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func read(t testing.TB, s store.Leases, group string) store.Reading {
	t.Helper()
	rs, err := s.Read(soon(t), group)
	if err != nil {
		t.Fatal(err)
	}
	return rs[0]
}

func request(t testing.TB, s store.Leases, group, owner string) store.Acquire {
	t.Helper()
	return store.Acquire{Read: read(t, s, group), Owner: owner, Heartbeat: 1, TTL: 15 * time.Second}
}

// take prepares and acquires the group.
func take(t testing.TB, s store.Leases, group, owner string) uint64 {
	t.Helper()
	if err := s.Prepare(soon(t), group, 15*time.Second); err != nil {
		t.Fatal(err)
	}
	token, err := s.Acquire(soon(t), request(t, s, group, owner))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func renew(t testing.TB, s store.Leases, group, owner string, token, from, to uint64) int {
	t.Helper()
	n, err := s.Renew(soon(t), store.Renew{Owner: owner, Heartbeat: to, Leases: []store.Renewal{{Group: group, Token: token, Heartbeat: from}}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// with returns the DSN with changed settings.
func with(t testing.TB, db dbtest.Database, change func(*mysql.Config)) string {
	t.Helper()
	c := db.Config(t)
	change(c)
	return c.FormatDSN()
}

// uniqueName is for what all tests of a server share.
func uniqueName(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()[:12]) }

func count(t testing.TB, db *sql.DB, query string, values ...any) int {
	t.Helper()
	var n int
	ctx := soon(t)
	err := dbserver.Listed(ctx, func() error { return db.QueryRowContext(ctx, query, values...).Scan(&n) })
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// eventually polls for a state of the server that sends no event.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !happened(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
