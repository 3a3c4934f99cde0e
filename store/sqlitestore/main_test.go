package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlflaws"
	"github.com/cronlease/cronlease/store/sqlitestore"
	"github.com/cronlease/cronlease/store/storetest"
)

// children are what child processes of the tests do with a file, by the
// environment variable that names it.
var children = map[string]func(path string) error{childFile: child}

func TestMain(m *testing.M) {
	for variable, run := range children {
		if path := os.Getenv(variable); path != "" {
			if err := run(path); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	goleak.VerifyTestMain(m)
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

func closeAfter(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// migrated is the path of a new file with the tables.
func migrated(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "leases.db")
	if err := open(t, path).Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(soon(t), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Leases(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}

// harness is a new file. Where flaw is given, all its stores have it.
func harness(t testing.TB, flaw *sqlflaws.Flaw) storetest.Harness {
	t.Helper()
	path, stepClock := withSteppedClock(t)
	db := open(t, path).DB()
	var used signals
	return storetest.Harness{
		Open: func(t testing.TB) store.Leases {
			s := openWithSteppedClock(t, path)
			if flaw != nil {
				s.Break(*flaw)
			}
			return remembering{s, &used}
		},
		Update:     func(t testing.TB, group string, change storetest.Change) { update(t, db, group, change) },
		StepClock:  stepClock,
		Restart:    func(t testing.TB) { replace(t, path) },
		LoseSignal: func(t testing.TB, _ string) { used.lose(t) },
		SignalsAll: true,
		Fenced:     storetest.FencedOn(db),
		Patience:   5 * time.Minute, // the driver is slow with -race
	}
}

// remembering is a store whose signals can be lost.
type remembering struct {
	*sqlitestore.Store
	used *signals
}

type signals struct {
	mu  sync.Mutex
	all []store.HandoverSignal
}

func (s remembering) HandoverSignal(group string) store.HandoverSignal {
	b := s.Store.HandoverSignal(group)
	s.used.mu.Lock()
	defer s.used.mu.Unlock()
	s.used.all = append(s.used.all, b)
	return b
}

func (s *signals) lose(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all {
		if err := sqlitestore.Lose(b); err != nil {
			t.Error(err)
		}
	}
}

func TestLedgerConformance(t *testing.T) {
	t.Parallel()
	storetest.Rows(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}

func TestLocksConformance(t *testing.T) {
	t.Parallel()
	storetest.Locks(t, func(t testing.TB) storetest.Harness { return harness(t, nil) })
}

// withSteppedClock is migrated, with what steps the clock of all its stores.
func withSteppedClock(t testing.TB) (path string, step func(t testing.TB, by time.Duration)) {
	t.Helper()
	path = migrated(t)
	db := open(t, path).DB()
	run(t, db, "CREATE TABLE stepped (micros INTEGER NOT NULL) STRICT")
	run(t, db, "INSERT INTO stepped VALUES (0)")
	return path, func(t testing.TB, by time.Duration) {
		t.Helper()
		run(t, db, "UPDATE stepped SET micros = micros + ?", by.Microseconds())
	}
}

func openWithSteppedClock(t testing.TB, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.OpenWithClock(path, sqlitestore.SteppedClock)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

// update changes the rows of a group behind the stores' backs.
func update(t testing.TB, db *sql.DB, group string, change storetest.Change) {
	t.Helper()
	l, f := new(store.Lease), new(store.Fence)
	var micros, ttl int64
	err := db.QueryRowContext(soon(t), `SELECT owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked
		FROM cronlease_lease WHERE name = ?`, group).Scan(&l.Owner, &l.Token, &l.Heartbeat, &micros, &ttl, &l.Released, &l.ResignAsked)
	l.RenewedAt, l.TTL = time.UnixMicro(micros), time.Duration(ttl)*time.Microsecond
	if errors.Is(err, sql.ErrNoRows) {
		l, err = nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	err = db.QueryRowContext(soon(t), `SELECT owner, token FROM cronlease_fence WHERE name = ?`, group).Scan(&f.Owner, &f.Token)
	if errors.Is(err, sql.ErrNoRows) {
		f, err = nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}

	l, f = change(l, f)
	run(t, db, `DELETE FROM cronlease_lease WHERE name = ?`, group)
	if l != nil {
		run(t, db, `INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, group, l.Owner, l.Token, l.Heartbeat, l.RenewedAt.UnixMicro(), l.TTL.Microseconds(), l.Released, l.ResignAsked)
	}
	// After the lease: inserting that makes a fence.
	run(t, db, `DELETE FROM cronlease_fence WHERE name = ?`, group)
	if f != nil {
		run(t, db, `INSERT INTO cronlease_fence (name, owner, token) VALUES (?, ?, ?)`, group, f.Owner, f.Token)
	}
}

// replace puts a copy of the file in its place, while others have it open.
func replace(t testing.TB, path string) {
	t.Helper()
	s, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(soon(t), "VACUUM INTO ?", path+".copy"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path+".copy", path); err != nil {
		t.Fatal(err)
	}
	db := open(t, path).DB()
	run(t, db, "PRAGMA journal_mode = WAL")
}
