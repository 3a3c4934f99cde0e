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

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

var (
	_ store.Leases          = (*Store)(nil)
	_ store.HandoverSignals = (*Store)(nil)
	_ store.Checker         = (*Store)(nil)
	_ store.Ledger          = (*Store)(nil)
	_ store.Locks           = (*Store)(nil)
	_ store.Notifiers       = (*Store)(nil)
	_ store.Fences          = (*Store)(nil)
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
	// defaultPoolSize is how many connections DB has in a store of Open, and
	// poolIdle how long each is kept without work.
	defaultPoolSize = 32
	poolIdle        = time.Minute
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
	wrapper string  // the type of the caller's driver, if it is not the one that is known
	tables  tables

	sql       *leaseQueries
	runs      *ledgerQueries
	locking   *lockQueries
	fenceSQL  *fenceQueries
	schemaSQL *schemaQueries

	beats   *slot          // heartbeats, releases, requests to resign
	looks   [looks]*slot   // readings, and the takeovers that rely on them
	ledgers [ledgers]*slot // the ledger's, the first ones first
	lockers [2]*slot       // for the rows of locks

	locksUsed atomic.Bool

	closing context.Context // ends with Close
	close   context.CancelFunc
	closed  sync.Once

	wrapperFits atomic.Bool

	password func(context.Context) (string, error) // of WithPassword
	logins   *logins
	invalid  error // of an option

	alwaysWrite bool // checks write the fence row on any server, for tests

	mu        sync.Mutex // guards what follows
	proven    string     // the server whose shared locks hold up writers
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
func WithTablePrefix(prefix string) Option { return func(s *Store) { s.tables.prefix = prefix } }

// WithPassword calls f for the password of each connection of [Open]: from a vault,
// or as a token of a cloud's identity service. The default is the DSN's
// password, or what is in the file of its parameter password_file. While the
// server refuses the login, f is called now and then to see whether the password
// has changed. It may be called concurrently, and returns when ctx ends.
func WithPassword(f func(ctx context.Context) (string, error)) Option {
	return func(s *Store) {
		if s.password = f; f == nil {
			s.invalid = errors.New("mysqlstore: WithPassword(nil): leave it out, or give it a function")
		}
	}
}

// Open returns a store with connections of its own to the database that the DSN
// names: user:password@tcp(host:port)/database?name=value with the parameters of
// github.com/go-sql-driver/mysql, or mysql://user:password@host:port/database.
// Instead of one host:port there may be a list of a primary and its replicas,
// host1:port1,host2:port2: the store uses the one that takes writes, and follows a
// failover (see the package's documentation).
// The store has parameters of its own beside the driver's: password_file, ca,
// cert, key, server_name, socket (of a URL) and pool_size; docs/database.md says
// what they do. Files are read for each connection, so that they may be replaced.
//
// It dials nothing. It refuses multiStatements, allowAllFiles, TLS that may be
// left out (tls=preferred), character sets that are not safe, and passwords in
// clear text without verified TLS, with an error that matches [lease.ErrSetup];
// and parameters that it does not know.
// No error shows a part of the DSN that may be a password.
func Open(dsn string, options ...Option) (*Store, error) {
	t, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	c := t.config
	s, err := newStore(fmt.Sprintf("%s@%s(%s)/%s", c.User, c.Net, strings.Join(t.hosts, ","), c.DBName), options)
	if err != nil {
		return nil, err
	}
	if s.password != nil {
		if c.Passwd != "" || t.fromFile {
			return nil, errors.New("mysqlstore: a password in the DSN and WithPassword: remove one of them")
		}
		t.password = s.password
	}
	connect := func(config *mysql.Config) (driver.Connector, error) { return t.connector(config, s.logins) }
	if len(t.hosts) > 1 {
		several := newHosts(t.hosts)
		connect = func(config *mysql.Config) (driver.Connector, error) { return several.connector(t, config) }
	}
	forPool, err := connect(poolConfig(c))
	if err != nil {
		return nil, err
	}
	forPins, err := connect(pinConfig(c))
	if err != nil {
		return nil, err
	}
	s.pool, s.pins = sql.OpenDB(forPool), sql.OpenDB(forPins)
	size := t.poolSize
	if size == 0 {
		size = defaultPoolSize
	}
	s.pool.SetMaxOpenConns(size)
	// All of them stay for the next work that comes at once, and none for long.
	s.pool.SetMaxIdleConns(size)
	s.pool.SetConnMaxIdleTime(poolIdle)
	s.owned, s.several = true, len(t.hosts) > 1
	return s, nil
}

// New returns a store that takes its connections from a pool of the caller,
// which must be one of github.com/go-sql-driver/mysql, and remains the caller's
// to close, after the store. A driver that wraps that one (otelsql and the like)
// will do if it passes on the server's errors as they are, which the first
// connection finds out. It dials nothing. A pool with a SetMaxOpenConns
// below 6 is refused: see the package's documentation on connections.
func New(db *sql.DB, options ...Option) (*Store, error) {
	if db == nil {
		return nil, errors.New("mysqlstore: db is nil")
	}
	s, err := newStore("a pool of the caller", options)
	if err != nil {
		return nil, err
	}
	if s.password != nil {
		return nil, errors.New("mysqlstore: WithPassword is for Open: the pool that New is given has its own password")
	}
	switch d := db.Driver().(type) {
	case *mysql.MySQLDriver, mysql.MySQLDriver:
	default:
		s.wrapper = fmt.Sprintf("%T", d)
	}
	s.pool, s.pins = db, db
	if err := s.checkPool(); err != nil {
		return nil, err
	}
	return s, nil
}

var prefixRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,47}$`)

func newStore(name string, options []Option) (*Store, error) {
	s := &Store{tables: tables{defaultPrefix}, bells: map[*bell]struct{}{}, doorbells: map[*doorbell]struct{}{}, bellWait: bellWait, logins: newLogins()}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("mysqlstore: option %d is nil", i+1)
		}
		if option(s); s.invalid != nil {
			return nil, s.invalid
		}
	}
	if !prefixRule.MatchString(s.tables.prefix) {
		return nil, fmt.Errorf("mysqlstore: table prefix %.60q: must be a letter followed by at most 47 letters, digits and underscores", s.tables.prefix)
	}
	s.name = fmt.Sprintf("mysqlstore(%s, tables %s*)", name, s.tables.prefix)
	s.sql, s.runs, s.locking = newLeaseQueries(s.tables), newLedgerQueries(s.tables), newLockQueries(s.tables)
	s.fenceSQL, s.schemaSQL = newFenceQueries(s.tables), newSchemaQueries(s.tables)
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
