// Package postgresstore keeps leases, locks and the ledger of runs in PostgreSQL, from version 14 on. It implements
// [store.Leases], [store.Ledger] and [store.Locks], and is a [store.Fences].
//
//	store, err := postgresstore.Open("postgres://billing@db/billing")
//	err = store.Migrate(ctx) // creates the tables
//
// It is not finished: docs/stores.md says what is missing.
//
// # Connections and poolers
//
// No statement depends on another one of its session but those of one transaction, so that a pooler in transaction mode may
// stand in between. Signals need one connection that has none: see [WithSignals].
//
// # Transactions
//
// What is written compares the fence row under a shared lock, in READ COMMITTED, whatever the database's default is. The
// ledger of a group is written by one transaction at a time. A takeover waits for the transactions that have checked its
// fence row, and those that check it later wait for the takeover.
package postgresstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

var (
	_ store.Leases     = (*Store)(nil)
	_ store.Heartbeats = (*Store)(nil)
	_ store.Checker    = (*Store)(nil)
	_ store.Ledger     = (*Store)(nil)
	_ store.Fences     = (*Store)(nil)
	_ store.Replicas   = (*Store)(nil)
	_ store.Archive    = (*Store)(nil)
	_ store.Locks      = (*Store)(nil)
)

var errClosed = errors.New("postgresstore: closed")

// Store is a store in a PostgreSQL database. It is safe for concurrent use.
type Store struct {
	*tables

	db      *sql.DB
	users   *sql.DB // of DB: db, or a pool beside it
	signals *sql.DB // for what is heard and shown: db, or a pool of one connection
	owns    bool    // db is closed with the store
	options options
	sql     queries
	locking lockQueries

	closing  context.Context // ends with Close
	close    context.CancelFunc
	sessions sync.WaitGroup

	mu    sync.Mutex
	hears *session // nil: there was none
}

// tables are those of the ledger.
type tables = sqlledger.Ledger

// Option changes how a store is made.
type Option func(*options)

type options struct{ schema, clock, server, signals string }

// WithSchema has the tables be in that schema, which [Store.Migrate] creates. Without it they are in the first one of the
// connection's search_path.
func WithSchema(name string) Option { return func(o *options) { o.schema = name } }

// WithSignals has the store hear of hand-overs, requests and granted locks over a connection of that URL, where its own
// connections are those of a pooler. It leads to the same database, without a pooler. Without it one of its own connections
// is used.
func WithSignals(dsn string) Option { return func(o *options) { o.signals = dsn } }

// Open returns a store in the database of that URL, or of a string of keywords and values as libpq has it. It opens nothing:
// the first statement does. [Store.Close] closes its connections.
//
// Two parameters are the store's own, and all others are pgx's:
//
//	password_file  a file with the password and nothing else, which is read for each connection
//	pool_size      how many connections [Store.DB] has at most, from 1; default 32
func Open(dsn string, opts ...Option) (*Store, error) {
	config, own, err := parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("postgresstore: %w", err)
	}
	// One message each way, and nothing that is left behind on the server: the next statement may meet another session
	// behind a pooler.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if _, isSet := config.RuntimeParams["timezone"]; !isSet {
		config.RuntimeParams["timezone"] = "UTC" // for those who use the pool
	}
	db := stdlib.OpenDB(*config, own.login())
	s, err := newStore(db, opts)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.owns, s.users = true, stdlib.OpenDB(*config, own.login())
	s.users.SetMaxOpenConns(own.poolSize)
	return s, nil
}

// New returns a store in the database of a pool of package [stdlib], which the caller closes. Behind a pooler in transaction
// mode its connections need a [pgx.QueryExecMode] that prepares no statements.
func New(db *sql.DB, opts ...Option) (*Store, error) { return newStore(db, opts) }

// NewFromPool is New for a pool of pgx. Close it after the store.
func NewFromPool(pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	s, err := newStore(stdlib.OpenDBFromPool(pool), opts)
	if err == nil {
		s.owns = true
	}
	return s, err
}

func newStore(db *sql.DB, opts []Option) (*Store, error) {
	o := options{clock: clock, server: server}
	for _, opt := range opts {
		opt(&o)
	}
	s := &Store{db: db, users: db, signals: db, options: o, sql: newQueries(o), locking: newLockQueries(o)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.tables = sqlledger.New("postgresstore", database{s}, &sqlledger.Queries{
		LedgerQueries: newLedgerQueries(o), ArchiveQueries: newArchiveQueries(o), ReplicaQueries: newReplicaQueries(o),
	})
	if o.signals != "" {
		config, own, err := parse(o.signals)
		if err != nil {
			return nil, fmt.Errorf("postgresstore: WithSignals: %w", err)
		}
		s.signals = stdlib.OpenDB(*config, own.login())
	}
	return s, nil
}

// Close closes the connections of a store that has its own, once the statements that run have ended.
func (s *Store) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.sessions.Wait()
	var err error
	if s.signals != s.db {
		err = s.signals.Close()
	}
	if s.users != s.db {
		err = errors.Join(err, s.users.Close())
	}
	if s.owns {
		err = errors.Join(err, s.db.Close())
	}
	return err
}

// DB is the pool of [New], or one beside that which the store uses: then what it does cannot take a connection from a
// heartbeat, and its sessions are in UTC, unless the URL has another timezone.
func (s *Store) DB() *sql.DB { return s.users }

// wrap names what a statement was for in its error, and why its context ended.
func wrap(ctx context.Context, doing string, err error) error {
	if err == nil || errors.Is(err, store.ErrChanged) {
		return err
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if strings.Contains(err.Error(), "sql: database is closed") {
		return errClosed
	}
	return fmt.Errorf("postgresstore: %s: %w", doing, explain(err))
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
