// Package sqlitestore keeps leases and the ledger of runs in an SQLite file, for
// several processes of one host. It implements [store.Leases], [store.HandoverSignals],
// [store.Checker], [store.Ledger] and [store.Locks], is a [store.Fences], and needs
// no C compiler.
//
//	store, err := sqlitestore.Open("/var/lib/billing/leases.db")
//	err = store.Migrate(ctx) // creates the file and its tables
//
// # The file
//
// The file is on a local disk: SQLite's locks do not work on network file
// systems, which [Store.Check] refuses where it can tell. Beside it are two
// files of the same name with -wal and -shm. Processes need to write the file
// and its directory. Migrate creates them for their owner alone (0600); a mode
// that is changed afterwards stays. The tables, cronlease_*, may share the file with others.
//
// On Linux, leaders create a third file beside it, with -signal, and the mode of the
// database. It stays empty: a leader keeps a lock in it, which the system drops when
// the leader's process ends, however it ends. So the others take over from a crashed
// scheduler without waiting for the TTL. The lock is a hint, and the file may be
// deleted at any time. Where it cannot be created, on other systems, and between
// machines that only share the directory, the TTL counts.
//
// The file must not be deleted or replaced while processes use it. When it is,
// the store goes on with the file that has the name now, as with another server
// behind one address: what was held is lost, and a statement that was under way
// in that moment may have gone to the old file.
//
// # Clock and durability
//
// The database's clock is the host's. A write has been synced to the disk when
// it returns (synchronous=FULL).
//
// # Waiting
//
// One process writes at a time, for as long as one transaction takes (30 to 60 ms
// for 500 rows of the ledger, which is the most), and others wait until their
// context ends. Reads do not wait. A process that is
// stopped (SIGSTOP) in the middle of a transaction keeps the others from writing
// until it goes on or is killed: meanwhile no process can renew or take a lease.
// The same goes for a transaction of [Store.DB] from its first write to its end.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

var (
	_ store.Leases          = (*Store)(nil)
	_ store.HandoverSignals = (*Store)(nil)
	_ store.Checker         = (*Store)(nil)
	_ store.Ledger          = (*Store)(nil)
	_ store.Fences          = (*Store)(nil)
	_ store.Replicas        = (*Store)(nil)
	_ store.Examiner        = (*Store)(nil)
	_ store.Archive         = (*Store)(nil)
	_ store.Spreads         = (*Store)(nil)
)

var errClosed = errors.New("sqlitestore: closed")

// Store is a lease store and a ledger in an SQLite file. It is safe for concurrent use.
type Store struct {
	*ledgerInFile

	path    string
	sql     queries
	tables  *sqlledger.Queries // of the ledger
	locking lockQueries
	own     *sql.DB // what this package runs
	pool    *sql.DB // what DB returns

	writing chan struct{} // full while the ledger is written

	closing context.Context // ends with Close
	close   context.CancelFunc

	mu   sync.Mutex
	last opened
}

// opened is a file that the store has opened, with the number of the session
// that all its connections to this file are: they show the same rows.
type opened struct {
	file    os.FileInfo
	session uint64
}

// Open returns a store in the file at path, which may be written
// "sqlite:path" as well. All characters of a path stand for themselves. It opens
// nothing: [Store.Migrate] creates the file, and the other methods need it.
func Open(path string) (*Store, error) { return open(path, clock) }

func open(path, clock string) (*Store, error) {
	name := path
	if rest, ok := strings.CutPrefix(name, "sqlite:"); ok {
		name = strings.TrimPrefix(rest, "//")
	}
	switch {
	case name == "":
		return nil, fmt.Errorf("sqlitestore: path %q: empty: give the path of a file", path)
	case strings.HasPrefix(name, ":memory:"), strings.HasPrefix(name, "file:"), strings.ContainsRune(name, 0):
		return nil, fmt.Errorf("sqlitestore: path %q: give the path of a file: no URI, and nothing in memory", path)
	}
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: path %q: %w", path, err)
	}
	s := &Store{path: name, sql: newQueries(clock), tables: newTables(clock), locking: newLockQueries(clock), writing: make(chan struct{}, 1)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.ledgerInFile = sqlledger.New("sqlitestore", database{s}, s.tables)
	s.own = sql.OpenDB(&connector{store: s, own: true})
	s.own.SetMaxIdleConns(4)
	s.pool = sql.OpenDB(&connector{store: s})
	return s, nil
}

// String names the file.
func (s *Store) String() string { return "sqlitestore(" + s.path + ")" }

// DB is a pool of connections to the file, set up as the store's own, for other
// tables beside the store's. Heartbeats do not use it. Close closes it.
func (s *Store) DB() *sql.DB { return s.pool }

// Close ends the waiting of signals and closes the file, once the statements that
// run have ended.
func (s *Store) Close() error {
	s.close()
	return errors.Join(s.pool.Close(), s.own.Close())
}

// do runs f on a connection to the file that has the name now. It names the
// action and the file in errors.
func (s *Store) do(ctx context.Context, action string, f func(ctx context.Context, c *sql.Conn, of opened) error) error {
	if s.closing.Err() != nil {
		return errClosed
	}
	err := s.try(ctx, f)
	if err == nil || errors.Is(err, store.ErrChanged) {
		return err
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return fmt.Errorf("sqlitestore: %s: %w", action, s.explain(ctx, err))
}

func (s *Store) try(ctx context.Context, f func(ctx context.Context, c *sql.Conn, of opened) error) (err error) {
	c, err := s.own.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var of opened
	if err := c.Raw(func(dc any) error { of = dc.(*conn).opened; return nil }); err != nil {
		return err
	}
	return f(ctx, c, of)
}

// exec returns how many rows matched; SQLite counts those that stay the same.
func exec(ctx context.Context, c *sql.Conn, statement string, args ...any) (int64, error) {
	result, err := c.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// tooLarge reports numbers that no row can have.
func tooLarge(numbers ...uint64) bool {
	for _, n := range numbers {
		if n > math.MaxInt64 {
			return true
		}
	}
	return false
}
