package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
)

var (
	_ lease.Store   = (*Store)(nil)
	_ lease.Ringer  = (*Store)(nil)
	_ lease.Checker = (*Store)(nil)
	_ jobs.Ledger   = (*Store)(nil)
	_ locks.Store   = (*Store)(nil)
	_ locks.Ringer  = (*Store)(nil)
	_ fence.Store   = (*Store)(nil)
)

const (
	defaultPrefix = "cronlease_"

	// looks is the number of connections for readings and takeovers.
	looks = 2
	// ledgers is the largest number of connections for the ledger. More make
	// nothing faster, and hold up heartbeats in the server.
	ledgers = 4
	// pinned is how many connections of a pool a store with one bell keeps, at
	// the least that the ledger can do with.
	pinned = 1 + looks + 1 + 1
	// lockPins is how many more it keeps for locks: two for their rows, and a
	// doorbell.
	lockPins = 3
)

// Store keeps leases and the ledger in MySQL or MariaDB. It is safe for
// concurrent use.
type Store struct {
	name    string  // what String shows
	pool    *sql.DB // for other parts of the program
	pins    *sql.DB // where the store's own connections come from
	owned   bool    // both were opened by Open
	several bool    // and know several hosts
	prefix  string
	sql     *queries
	runs    *ledgerQueries

	locking *lockQueries

	beats   *slot          // heartbeats, releases, requests to resign
	looks   [looks]*slot   // readings, and the takeovers that lean on them
	ledgers [ledgers]*slot // the ledger's, the first ones first
	lockers [2]*slot       // for the rows of locks

	locksUsed atomic.Bool

	closing context.Context // ends with Close
	close   context.CancelFunc
	closed  sync.Once

	alwaysWrite bool // checks write the fence row on any server, for tests

	mu        sync.Mutex // guards what follows
	bells     map[*bell]struct{}
	doorbells map[*doorbell]struct{}
	found     *place        // what the sessions say of the database; nil before the first
	bellWait  time.Duration // longest wait for a lock that a read timeout has let through
}

// An Option changes a default of [Open] and [New].
type Option func(*Store)

// WithTablePrefix sets what the tables' names begin with. Default "cronlease_".
// It begins with a letter and has at most 48 letters, digits and underscores.
// Stores with different prefixes in one database have nothing in common.
func WithTablePrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// Open returns a store with connections of its own to the database that the DSN
// names: user:password@tcp(host:port)/database?name=value with the parameters of
// github.com/go-sql-driver/mysql, or mysql://user:password@host:port/database.
// Instead of one host:port there may be a list of a primary and its replicas,
// host1:port1,host2:port2: the store uses the one that takes writes, and follows a
// failover (see the package's documentation).
// It dials nothing. It refuses multiStatements, allowAllFiles, and passwords in
// clear text without verified TLS, with an error that matches [lease.ErrSetup].
// No error shows a part of the DSN that may be a password.
func Open(dsn string, options ...Option) (*Store, error) {
	config, addrs, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	s, err := newStore(fmt.Sprintf("%s@%s(%s)/%s", config.User, config.Net, strings.Join(addrs, ","), config.DBName), options)
	if err != nil {
		return nil, err
	}
	var several *hosts
	if len(addrs) > 1 {
		several = newHosts(addrs)
	}
	if s.pool, err = openPool(poolConfig(config), several); err != nil {
		return nil, err
	}
	if s.pins, err = openPool(pinConfig(config), several); err != nil {
		return nil, errors.Join(err, s.pool.Close())
	}
	s.owned, s.several = true, several != nil
	return s, nil
}

// openPool returns a pool of connections to the host of the settings, or to one
// of several.
func openPool(config *mysql.Config, several *hosts) (*sql.DB, error) {
	var (
		connector driver.Connector
		err       error
	)
	if several != nil {
		connector, err = several.connector(config)
	} else {
		connector, err = mysql.NewConnector(config)
	}
	if err != nil {
		return nil, errors.New("mysqlstore: DSN: its collation cannot be used: remove it, or choose one of utf8mb4")
	}
	return sql.OpenDB(connector), nil
}

// New returns a store that takes its connections from a pool of the caller,
// which must be one of github.com/go-sql-driver/mysql, and remains the caller's
// to close, after the store. It dials nothing. A pool with a SetMaxOpenConns
// below 6 is refused: see the package's documentation on connections.
func New(db *sql.DB, options ...Option) (*Store, error) {
	if db == nil {
		return nil, errors.New("mysqlstore: db is nil")
	}
	switch d := db.Driver().(type) {
	case *mysql.MySQLDriver, mysql.MySQLDriver:
	default:
		return nil, fmt.Errorf("mysqlstore: db has the driver %T: it must be github.com/go-sql-driver/mysql itself", d)
	}
	s, err := newStore("a pool of the caller", options)
	if err != nil {
		return nil, err
	}
	s.pool, s.pins = db, db
	if err := s.checkPool(); err != nil {
		return nil, err
	}
	return s, nil
}

var prefixRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,47}$`)

func newStore(name string, options []Option) (*Store, error) {
	s := &Store{prefix: defaultPrefix, bells: map[*bell]struct{}{}, doorbells: map[*doorbell]struct{}{}, bellWait: bellWait}
	for _, option := range options {
		option(s)
	}
	if !prefixRule.MatchString(s.prefix) {
		return nil, fmt.Errorf("mysqlstore: table prefix %.60q: must be a letter followed by at most 47 letters, digits and underscores", s.prefix)
	}
	s.name = fmt.Sprintf("mysqlstore(%s, tables %s*)", name, s.prefix)
	s.sql, s.runs, s.locking = newQueries(s.prefix), newLedgerQueries(s.prefix), newLockQueries(s.prefix)
	s.beats = newSlot(s, settings{lockWait: beatLockWait})
	for i := range s.looks {
		s.looks[i] = newSlot(s, settings{lockWait: lookLockWait})
	}
	for i := range s.ledgers {
		s.ledgers[i] = newSlot(s, settings{lockWait: ledgerLockWait})
	}
	for i := range s.lockers {
		s.lockers[i] = newSlot(s, settings{lockWait: lockWait})
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// checkPool reports that the caller's pool is too small for what is kept of it.
func (s *Store) checkPool() error {
	if most := s.pins.Stats().MaxOpenConnections; most > 0 && most < pinned+1 {
		return fmt.Errorf("mysqlstore: %w: the pool has SetMaxOpenConns(%d), and the store keeps %d connections: set at least %d, or 0 for no limit",
			lease.ErrSetup, most, pinned, pinned+1)
	}
	return nil
}

// String names the database without its password.
func (s *Store) String() string { return s.name }

// GoString is String.
func (s *Store) GoString() string { return s.name }

// DB is a pool of connections to the store's database: the caller's, or one
// that [Store.Close] closes. Heartbeats do not use it.
func (s *Store) DB() *sql.DB { return s.pool }

// Close ends what still runs and closes every connection that the store keeps,
// and its bells. It does not close a pool of the caller. Only the first call
// does anything.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() { err = s.shut() })
	return err
}

func (s *Store) shut() error {
	s.mu.Lock()
	s.close()
	bells, doorbells := s.bells, maps.Clone(s.doorbells)
	s.bells = nil
	s.mu.Unlock()

	var errs []error
	for b := range bells {
		errs = append(errs, b.Close())
	}
	for d := range doorbells {
		errs = append(errs, d.Close())
	}
	s.beats.shut()
	for _, l := range slices.Concat(s.looks[:], s.ledgers[:], s.lockers[:]) {
		l.shut()
	}
	if s.owned {
		// They can only say that a connection was lost before it could be told
		// to end.
		_, _ = s.pins.Close(), s.pool.Close()
	}
	return errors.Join(errs...)
}
