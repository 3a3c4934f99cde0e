package mysqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	rule "github.com/cronlease/cronlease/store/ledger"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

var (
	_ store.Leases          = (*Store)(nil)
	_ store.HandoverSignals = (*Store)(nil)
	_ store.Checker         = (*Store)(nil)
	_ store.Ledger          = (*Store)(nil)
	_ store.Locks           = (*Store)(nil)
	_ store.Notifiers       = (*Store)(nil)
	_ store.Fences          = (*Store)(nil)
	_ store.Heartbeats      = (*Store)(nil)
	_ store.RequestSignals  = (*Store)(nil)
	_ store.Replicas        = (*Store)(nil)
	_ store.Examiner        = (*Store)(nil)
	_ store.Archive         = (*Store)(nil)
	_ store.Spreads         = (*Store)(nil)
)

const defaultPrefix = "cronlease_"

// conn is a connection to the database.
type conn = mysqlconn.Conn

// Store keeps leases and the ledger in MySQL or MariaDB. It is safe for
// concurrent use.
type Store struct {
	name  string // what String shows
	conns *mysqlconn.Pool

	leases
	ledger
	lockRows
	requests
	replicas
	archive
	fences
	schema

	checks checks
	closed sync.Once
}

// An Option changes a default of [Open] and [New].
type Option func(*options)

type options struct {
	prefix   string
	password func(context.Context) (string, error)
	invalid  error // of an option
}

// WithTablePrefix sets what the tables' names begin with. Default "cronlease_".
// It begins with a letter and has at most 48 letters, digits and underscores.
// Stores with different prefixes in one database have nothing in common.
func WithTablePrefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// WithPassword calls f for the password of each connection of [Open]: from a vault,
// or as a token of a cloud's identity service. The default is the DSN's
// password, or what is in the file of its parameter password_file. While the
// server refuses the login, f is called now and then to see whether the password
// has changed. It may be called concurrently, and returns when ctx ends.
func WithPassword(f func(ctx context.Context) (string, error)) Option {
	return func(o *options) {
		if o.password = f; f == nil {
			o.invalid = errors.New("mysqlstore: WithPassword(nil): leave it out, or give it a function")
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
	target, err := mysqlconn.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	o, err := read(options)
	if err != nil {
		return nil, err
	}
	conns, err := target.Open(o.password)
	if err != nil {
		return nil, err
	}
	return newStore(conns, o.prefix), nil
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
	o, err := read(options)
	if err != nil {
		return nil, err
	}
	if o.password != nil {
		return nil, errors.New("mysqlstore: WithPassword is for Open: the pool that New is given has its own password")
	}
	conns, err := mysqlconn.New(db)
	if err != nil {
		return nil, err
	}
	return newStore(conns, o.prefix), nil
}

var prefixRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,47}$`)

func read(all []Option) (options, error) {
	o := options{prefix: defaultPrefix}
	for i, option := range all {
		if option == nil {
			return o, fmt.Errorf("mysqlstore: option %d is nil", i+1)
		}
		if option(&o); o.invalid != nil {
			return o, o.invalid
		}
	}
	if !prefixRule.MatchString(o.prefix) {
		return o, fmt.Errorf("mysqlstore: table prefix %.60q: must be a letter followed by at most 47 letters, digits and underscores", o.prefix)
	}
	return o, nil
}

func newStore(conns *mysqlconn.Pool, prefix string) *Store {
	names := tables{prefix}
	s := &Store{
		name:     fmt.Sprintf("mysqlstore(%s, tables %s*)", conns, prefix),
		conns:    conns,
		leases:   leases{conns: conns, sql: newLeaseQueries(names), prefix: prefix, signals: map[*signal]struct{}{}, signalWait: signalWait},
		ledger:   ledger{conns: conns, sql: newLedgerQueries(names), table: names.quoted("run")},
		lockRows: lockRows{conns: conns, sql: newLockQueries(names), notifiers: map[*notifier]struct{}{}, restLock: "cronlease:rest:" + strings.ToLower(rand.Text())},
		requests: requests{sql: newRequestQueries(names), prefix: prefix},
		fences:   fences{conns: conns, sql: newFenceQueries(names), tables: names},
		schema:   schema{conns: conns, sql: newSchemaQueries(names), tables: names},
	}
	s.board = newBoard(&s.leases)
	s.archive = archive{ledger: &s.ledger, sql: newArchiveQueries(names), counted: jobs.MaxCounted}
	s.ledger.note, s.leases.noteResign = s.archive.note, s.archive.noteResign
	s.replicas = replicas{ledger: &s.ledger, sql: newReplicaQueries(names), prefix: names.prefix}
	s.rows, s.leases.interrupt = &s.lockRows, s.lockRows.interrupt
	s.rester = newRest(&s.requests)
	s.rules = rule.New("mysqlstore", ledgerRows{s})
	s.leases.wake, s.ledger.wake = s.requests.wake, s.requests.wake
	return s
}

// String names the database without its password.
func (s *Store) String() string { return s.name }

// GoString is String.
func (s *Store) GoString() string { return s.name }

// DB is a pool of connections to the store's database: the caller's, or one
// that [Store.Close] closes. Heartbeats do not use it.
func (s *Store) DB() *sql.DB { return s.conns.DB() }

// Close ends what still runs and closes every connection that the store keeps,
// and its signals. It does not close a pool of the caller. Only the first call
// does anything.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() {
		s.conns.Stop()
		err = errors.Join(s.closeSignals(), s.closeNotifiers())
		s.rester.close()
		s.conns.Close()
	})
	return err
}
