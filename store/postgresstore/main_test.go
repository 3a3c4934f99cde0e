package postgresstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/pgserver"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/postgresstore"
	"github.com/cronlease/cronlease/store/storetest"
)

// shared is the server of all tests that do not harm it.
var shared *pgserver.Server

func TestMain(m *testing.M) {
	program, err := pgserver.Find()
	if err == nil {
		shared = pgserver.New(program, "fsync=off", "max_connections=300", "max_locks_per_transaction=256")
		err = shared.Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(goleak.IgnoreTopFunction("github.com/cronlease/cronlease/internal/subprocess.Go.func1"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var schemas atomic.Int64

// fresh is the URL of a database with an empty schema, which is dropped when the test ends.
func fresh(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", schemas.Add(1))
	admin := connect(t, shared.URL("postgres"))
	run(t, admin, "CREATE SCHEMA "+name)
	t.Cleanup(func() { run(t, admin, "DROP SCHEMA "+name+" CASCADE") })
	return shared.URL("postgres") + "&search_path=" + name
}

func connect(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func run(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(soon(t), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func open(t testing.TB, url string, options ...postgresstore.Option) *postgresstore.Store {
	t.Helper()
	s, err := postgresstore.Open(url, options...)
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

// harness is a fresh schema.
func harness(t testing.TB) storetest.Harness {
	t.Helper()
	url := fresh(t)
	s := open(t, url)
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	db := s.DB()
	run(t, db, "CREATE TABLE stepped (micros bigint NOT NULL, start bigint NOT NULL)")
	run(t, db, "INSERT INTO stepped VALUES (0, 0)")
	var opened stores
	return storetest.Harness{
		Open: func(t testing.TB) store.Leases {
			s := open(t, url, postgresstore.WithSteppedClock())
			opened.add(s)
			return s
		},
		LockLease: func(t testing.TB, group string) (free func()) {
			t.Helper()
			tx, err := db.BeginTx(soon(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(soon(t), "SELECT FROM cronlease_lease WHERE name = $1 FOR UPDATE", group); err != nil {
				t.Fatal(err)
			}
			return sync.OnceFunc(func() {
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
			})
		},
		LoseSignal: func(t testing.TB, _ string) {
			t.Helper()
			for _, pid := range opened.sessions(t) {
				// The one that shows something has the lock for itself.
				run(t, db, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted", pid)
			}
		},
		Update: func(t testing.TB, group string, change storetest.Change) { update(t, db, group, change) },
		StepClock: func(t testing.TB, by time.Duration) {
			t.Helper()
			run(t, db, "UPDATE stepped SET micros = micros + $1", by.Microseconds())
		},
		Restart:    func(t testing.TB) { t.Helper(); run(t, db, "UPDATE stepped SET start = start + 1") },
		SignalsAll: true,
		Fenced:     storetest.FencedOn(db),
	}
}

// stores are those of a harness.
type stores struct {
	mu  sync.Mutex
	all []*postgresstore.Store
}

func (s *stores) add(one *postgresstore.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// sessions are the server's processes for the connections that hear and show.
func (s *stores) sessions(t testing.TB) (pids []uint32) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if pid, ok := one.SessionPID(soon(t)); ok {
			pids = append(pids, pid)
		}
	}
	return pids
}

// update changes the rows of a group behind the stores' backs.
func update(t testing.TB, db *sql.DB, group string, change storetest.Change) {
	t.Helper()
	l, f := new(store.Lease), new(store.Fence)
	var micros, ttl int64
	err := db.QueryRowContext(soon(t), `SELECT owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked
		FROM cronlease_lease WHERE name = $1`, group).Scan(&l.Owner, &l.Token, &l.Heartbeat, &micros, &ttl, &l.Released, &l.ResignAsked)
	l.RenewedAt, l.TTL = time.UnixMicro(micros), time.Duration(ttl)*time.Microsecond
	if errors.Is(err, sql.ErrNoRows) {
		l, err = nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	err = db.QueryRowContext(soon(t), `SELECT owner, token FROM cronlease_fence WHERE name = $1`, group).Scan(&f.Owner, &f.Token)
	if errors.Is(err, sql.ErrNoRows) {
		f, err = nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}

	l, f = change(l, f)
	run(t, db, `DELETE FROM cronlease_lease WHERE name = $1`, group)
	if l != nil {
		run(t, db, `INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, group, l.Owner, int64(l.Token), int64(l.Heartbeat), l.RenewedAt.UnixMicro(), l.TTL.Microseconds(), l.Released, l.ResignAsked)
	}
	run(t, db, `DELETE FROM cronlease_fence WHERE name = $1`, group)
	if f != nil {
		run(t, db, `INSERT INTO cronlease_fence (name, owner, token) VALUES ($1, $2, $3)`, group, f.Owner, int64(f.Token))
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Leases(t, harness)
}

func TestLedgerConformance(t *testing.T) {
	t.Parallel()
	storetest.Rows(t, harness)
}

func TestLocksConformance(t *testing.T) {
	t.Parallel()
	storetest.Locks(t, harness)
}
