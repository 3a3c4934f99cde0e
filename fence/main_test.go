package fence_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/pgserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/postgresstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// postgresServer is the server of all tests.
var postgresServer *pgserver.Server

func TestMain(m *testing.M) {
	program, err := pgserver.Find()
	if err == nil {
		postgresServer = pgserver.New(program, "fsync=off", "max_connections=300")
		err = postgresServer.Start(context.Background())
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
	if err := postgresServer.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	sqlite   = "sqlite"
	postgres = "postgres"
	group    = "billing"
	ttl      = 15 * time.Second
	// patience is more than anything here takes on a busy machine.
	patience = 30 * time.Second
)

// store is what the tests use of both stores.
type sqlStore interface {
	store.Leases
	store.Fences
	Migrate(context.Context) error
	DB() *sql.DB
	Close() error
}

// scene is a database, a holder, and a pool that the holder's work uses.
type scene struct {
	t     *testing.T
	kind  string
	db    *sql.DB
	at    dbtest.Database // of MySQL and MariaDB
	url   string          // of PostgreSQL
	store sqlStore
	hold  lease.Hold
}

// eachDatabase runs f as a parallel subtest on each kind of database.
func eachDatabase(t *testing.T, f func(t *testing.T, s *scene)) {
	t.Helper()
	eachServer(t, f)
	t.Run(sqlite, func(t *testing.T) {
		t.Parallel()
		store, err := sqlitestore.Open(filepath.Join(t.TempDir(), "lease.db"))
		if err != nil {
			t.Fatal(err)
		}
		f(t, newScene(t, sqlite, store, store.DB()))
	})
	t.Run(postgres, func(t *testing.T) {
		t.Parallel()
		schema := fmt.Sprintf("test%d", schemas.Add(1))
		admin := openPostgres(t, postgresServer.URL("postgres"))
		if _, err := admin.ExecContext(soon(t), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		url := postgresServer.URL("postgres") + "&search_path=" + schema
		store, err := postgresstore.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		s := newScene(t, postgres, store, openPostgres(t, url))
		s.url = url
		f(t, s)
	})
}

var schemas atomic.Int64

func openPostgres(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// text is a statement with the placeholders of the database.
func (s *scene) text(statement string) string {
	if s.kind != postgres {
		return statement
	}
	n := 0
	return regexp.MustCompile(`\?`).ReplaceAllStringFunc(statement, func(string) string { n++; return fmt.Sprint("$", n) })
}

// eachServer is eachDatabase without SQLite and PostgreSQL.
func eachServer(t *testing.T, f func(t *testing.T, s *scene)) {
	t.Helper()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		store, err := mysqlstore.Open(db.DSN)
		if err != nil {
			t.Fatal(err)
		}
		pool := db.Open(t)
		s := newScene(t, db.Kind, store, pool)
		s.at = db
		f(t, s)
	})
}

func newScene(t *testing.T, kind string, sqlstore sqlStore, db *sql.DB) *scene {
	t.Helper()
	t.Cleanup(func() {
		if err := sqlstore.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	if err := sqlstore.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, kind: kind, db: db, store: sqlstore}
	s.exec("CREATE TABLE effect (id INTEGER PRIMARY KEY, token BIGINT NOT NULL)")
	if err := sqlstore.Prepare(soon(t), group, ttl); err != nil {
		t.Fatal(err)
	}
	s.hold = lease.Hold{Store: sqlstore, Name: group, Owner: "first", Token: s.takeOver("first")}
	return s
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// ctx is the context of the holder's work.
func (s *scene) ctx() context.Context { return lease.WithHold(soon(s.t), s.hold) }

// takeOver makes another owner the holder, and waits for whatever is in the way.
func (s *scene) takeOver(owner string) uint64 {
	s.t.Helper()
	token, err := s.tryTakeOver(owner)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

func (s *scene) tryTakeOver(owner string) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	readings, err := s.store.Read(ctx, group)
	if err != nil {
		return 0, err
	}
	return s.store.Acquire(ctx, store.Acquire{Read: readings[0], Owner: owner, Heartbeat: 1, TTL: ttl})
}

func (s *scene) exec(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.db.ExecContext(soon(s.t), statement, args...); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// stored are the effects that are stored.
func (s *scene) stored() int {
	s.t.Helper()
	var n int
	if err := s.db.QueryRowContext(soon(s.t), "SELECT COUNT(*) FROM effect").Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// wantStored checks how many effects are stored.
func (s *scene) wantStored(n int) {
	s.t.Helper()
	if got := s.stored(); got != n {
		s.t.Errorf("%d effects are stored, want %d", got, n)
	}
}

// insert stores an effect within a transaction.
func (s *scene) insert(tx *sql.Tx, id int) error {
	_, err := tx.ExecContext(soon(s.t), s.text("INSERT INTO effect (id, token) VALUES (?, ?)"), id, int64(s.hold.Token))
	return err
}

// way is one of the ways to a fenced transaction.
type way struct {
	name string
	run  func(ctx context.Context, s *scene, fn func(*sql.Tx) error, options ...fence.Option) error
}

var ways = []way{
	{"Do", func(ctx context.Context, s *scene, fn func(*sql.Tx) error, options ...fence.Option) error {
		return fence.Do(ctx, s.db, fn, options...)
	}},
	{"Do on guarded ones", func(ctx context.Context, s *scene, fn func(*sql.Tx) error, options ...fence.Option) error {
		return fence.Do(ctx, s.guarded(), fn, options...)
	}},
	{"Commit", func(ctx context.Context, s *scene, fn func(*sql.Tx) error, options ...fence.Option) error {
		return commit(ctx, s.db, fn, options...)
	}},
	{"Commit of a guarded one", func(ctx context.Context, s *scene, fn func(*sql.Tx) error, options ...fence.Option) error {
		return commit(ctx, s.guarded(), fn, options...)
	}},
}

func commit(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error, options ...fence.Option) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return fence.Commit(ctx, tx, options...)
}

// guarded is a pool of the same database with a guard.
func (s *scene) guarded() *sql.DB {
	switch s.kind {
	case sqlite:
		return s.db // its connector is the store's
	case postgres:
		config, err := pgx.ParseConfig(s.url)
		if err != nil {
			s.t.Fatal(err)
		}
		db := sql.OpenDB(fence.Guard(stdlib.GetConnector(*config)))
		s.t.Cleanup(func() { _ = db.Close() })
		return db
	}
	connector, err := mysql.NewConnector(s.at.Config(s.t))
	if err != nil {
		s.t.Error(err)
	}
	db := sql.OpenDB(fence.Guard(connector))
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// eachWay runs f for each way on each database.
func eachWay(t *testing.T, f func(t *testing.T, s *scene, w way)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			eachDatabase(t, func(t *testing.T, s *scene) { f(t, s, w) })
		})
	}
}
