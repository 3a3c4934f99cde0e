// Package sqlitestore keeps leases in an SQLite file, for several processes of
// one host. It implements [lease.Store], [lease.Ringer] and [lease.Checker], and
// needs no C compiler.
//
//	store, err := sqlitestore.Open("/var/lib/billing/leases.db")
//	err = store.Migrate(ctx) // creates the file and its tables
//
// # The file
//
// The file is on a local disk: SQLite's locks do not work on network file
// systems, which [Store.Check] refuses where it can tell. Beside it are two
// files of the same name with -wal and -shm. Processes need to write the file
// and its directory. The tables, cronlease_*, may share the file with others.
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
// One process writes at a time, for as long as one statement takes, and others
// wait until their context ends. Readings wait for nobody. A process that is
// stopped (SIGSTOP) in the middle of a statement keeps the others from writing
// until it goes on or is killed: then nobody can renew, and nobody can lead.
package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/lease"
)

var (
	_ lease.Store   = (*Store)(nil)
	_ lease.Ringer  = (*Store)(nil)
	_ lease.Checker = (*Store)(nil)
)

var errClosed = errors.New("sqlitestore: closed")

// Store is a lease store in an SQLite file. It is safe for concurrent use.
type Store struct {
	path string
	sql  queries
	own  *sql.DB // what this package runs
	pool *sql.DB // what DB returns

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
	s := &Store{path: name, sql: newQueries(clock)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.own = sql.OpenDB(&connector{store: s})
	s.own.SetMaxIdleConns(4)
	s.pool = sql.OpenDB(&connector{store: s})
	return s, nil
}

// String names the file.
func (s *Store) String() string { return "sqlitestore(" + s.path + ")" }

// DB is a pool of connections to the file, set up as the store's own, for other
// tables beside the store's. Heartbeats do not use it. Close closes it.
func (s *Store) DB() *sql.DB { return s.pool }

// Close ends the waiting of bells and closes the file, once the statements that
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
	if err == nil || errors.Is(err, lease.ErrChanged) {
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

// changeOne runs a statement that changes the one row which is as expected.
func (s *Store) changeOne(ctx context.Context, action, statement string, args ...any) error {
	return s.do(ctx, action, func(ctx context.Context, c *sql.Conn, _ opened) error {
		n, err := exec(ctx, c, statement, args...)
		if err == nil && n == 0 {
			return lease.ErrChanged
		}
		return err
	})
}

// exec returns how many rows matched; SQLite counts those that stay the same.
func exec(ctx context.Context, c *sql.Conn, statement string, args ...any) (int64, error) {
	result, err := c.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Read implements [lease.Store].
func (s *Store) Read(ctx context.Context, groups ...string) ([]lease.Reading, error) {
	if len(groups) == 0 {
		return nil, ctx.Err()
	}
	asked, err := json.Marshal(groups)
	if err != nil {
		return nil, err
	}
	readings := make([]lease.Reading, len(groups))
	err = s.do(ctx, "read", func(ctx context.Context, c *sql.Conn, of opened) (err error) {
		rows, err := c.QueryContext(ctx, s.sql.read, string(asked))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var (
				i                                     int
				now                                   int64
				file                                  string
				owner, fenceOwner                     sql.NullString
				token, heartbeat, renewed, ttl, fence sql.NullInt64
				released, resign                      sql.NullBool
			)
			if err := rows.Scan(&i, &now, &file, &owner, &token, &heartbeat, &renewed, &ttl, &released, &resign, &fenceOwner, &fence); err != nil {
				return err
			}
			r := lease.Reading{Group: groups[i], Now: instant(now), Server: "sqlite:" + file + fileNumber(of.file), Session: of.session}
			if owner.Valid {
				r.Lease = &lease.Lease{
					Owner: owner.String, Token: uint64(token.Int64), Heartbeat: uint64(heartbeat.Int64), RenewedAt: instant(renewed.Int64),
					TTL: time.Duration(ttl.Int64) * time.Microsecond, Released: released.Bool, ResignAsked: resign.Bool,
				}
			}
			if fenceOwner.Valid {
				r.Fence = &lease.Fence{Owner: fenceOwner.String, Token: uint64(fence.Int64)}
			}
			readings[i] = r
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return readings, nil
}

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// Prepare implements [lease.Store].
func (s *Store) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	if err := lease.CheckName("group", group); err != nil {
		return err
	}
	return s.do(ctx, "prepare", func(ctx context.Context, c *sql.Conn, _ opened) error {
		if _, err := exec(ctx, c, s.sql.prepare, group, ttl.Microseconds()); err != nil {
			return err
		}
		_, err := exec(ctx, c, s.sql.copyFence, group)
		return err
	})
}

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, a lease.Acquire) (uint64, error) {
	if err := lease.CheckName("owner", a.Owner); err != nil {
		return 0, err
	}
	l, f := a.Read.Lease, a.Read.Fence
	if l == nil || f == nil || tooLarge(l.Token, l.Heartbeat, f.Token) {
		return 0, lease.ErrChanged
	}
	var token int64
	err := s.do(ctx, "acquire", func(ctx context.Context, c *sql.Conn, of opened) (err error) {
		if of.session != a.Read.Session {
			return lease.ErrChanged
		}
		rows, err := c.QueryContext(ctx, s.sql.acquire, a.Owner, f.Token, a.Floor, a.Heartbeat, a.TTL.Microseconds(), a.Read.Group, l.Token, l.Heartbeat)
		if err != nil {
			return err
		}
		// The statement has taken effect when it has been read to its end.
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			if err := rows.Scan(&token); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if token == 0 {
			return lease.ErrChanged
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return uint64(token), nil
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

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, r lease.Renew) (int, error) {
	held := make([][4]any, 0, len(r.Leases))
	for _, l := range r.Leases {
		if !tooLarge(l.Token, l.Heartbeat) {
			held = append(held, [4]any{l.Group, l.Token, l.Heartbeat, l.ResignAsked})
		}
	}
	if len(held) == 0 {
		return 0, ctx.Err()
	}
	expected, err := json.Marshal(held)
	if err != nil {
		return 0, err
	}
	var n int64
	err = s.do(ctx, "renew", func(ctx context.Context, c *sql.Conn, _ opened) error {
		n, err = exec(ctx, c, s.sql.renew, string(expected), r.Heartbeat, r.Owner)
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, group, owner string, token uint64) error {
	return s.changeOne(ctx, "release", s.sql.release, group, owner, token)
}

// AskResign implements [lease.Store].
func (s *Store) AskResign(ctx context.Context, group string, token uint64) error {
	return s.changeOne(ctx, "ask to resign", s.sql.askResign, group, token)
}
