package store

import (
	"context"
	"database/sql"

	"github.com/cronlease/cronlease/lease"
)

// Fences is implemented by stores that keep leases or locks in an SQL database. It
// is what [lease.Hold.Store] has to be for fenced transactions.
type Fences interface {
	// FenceDialect is the database's.
	FenceDialect() Dialect

	// CheckHold reports whether h's owner and token still hold its lease or
	// lock, or run its attempt, and ensures that this stays so until the transaction tx ends: a
	// takeover, or the end of the attempt, waits for that, and heartbeats do not. It returns the database's
	// errors as they are, and one that matches [lease.ErrSetup] when tx is in
	// another database than the store.
	CheckHold(ctx context.Context, tx Querier, h lease.Hold) (held bool, err error)
}

// Querier is a transaction as a check needs it: a [*sql.Tx].
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Dialect is a kind of database, as far as a fence has to know it.
type Dialect int

// The dialects.
const (
	// MySQL, and MariaDB.
	MySQL Dialect = iota + 1
	// SQLite.
	SQLite
	// PostgreSQL.
	PostgreSQL
)
