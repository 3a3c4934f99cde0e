// Package sqlledger keeps a ledger in the tables of an SQL database, for the stores that have one: it reads the rows that
// the rules of package ledger need, writes those that they have put, and answers what only reads. A store brings its
// [Queries] and a [Database] that runs them. mysqlstore has statements of its own instead.
package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/ledger"
)

// Database runs the statements of a ledger. Its errors name the store and what it was doing. It is safe for concurrent
// use, and calls f at once or not at all, with a context that has at most that of the call.
type Database interface {
	// Read runs f, which only reads.
	Read(ctx context.Context, doing string, f func(context.Context, Conn) error) error
	// ReadOnce is Read where all that f reads is of one instant.
	ReadOnce(ctx context.Context, doing string, f func(context.Context, Conn) error) error
	// Write runs f as one transaction, as [ledger.Rows] says of Do. Where it is repeated, f is called again.
	Write(ctx context.Context, group string, need ledger.Need, f func(context.Context, Conn) error) error
	// Exec runs one statement that writes and returns how many rows matched.
	Exec(ctx context.Context, doing string, s Statement) (int64, error)
	// See says of the replicas of a roster which of them are present.
	See(ctx context.Context, c Conn, group string, roster *jobs.Roster) error
}

// Conn is a connection, or a transaction on it.
type Conn interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	// Server is the server that answers, as in [store.Reading], by what Group reads of it.
	Server(column string) string
	// Run runs statements, one after the other, until one fails.
	Run(ctx context.Context, statements []Statement) error
}

// Statement is a statement with its parameters.
type Statement struct {
	Text string
	Args []any
}

// Ledger is a ledger in tables. A store embeds it. It is safe for concurrent use. The zero value is of no use: see [New].
type Ledger struct {
	ledger.Ledger
	db Database
	q  *Queries
	// Counted is how many runs Counts counts for sure. New makes it [jobs.MaxCounted].
	Counted int
}

// New returns a ledger. The name of the store's package is for errors.
func New(pkg string, db Database, q *Queries) *Ledger {
	l := &Ledger{db: db, q: q, Counted: jobs.MaxCounted}
	l.Ledger = ledger.New(pkg, rows{l})
	return l
}

// Each runs a query to its end, and f for each row.
func Each(ctx context.Context, c Conn, query string, args []any, f func(*sql.Rows) error) (err error) {
	rows, err := c.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Instant is what the tables say as microseconds since 1970.
func Instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func instantOrZero(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return Instant(micros.Int64)
}

// micros is an instant as the tables have it, or NULL.
func micros(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UnixMicro()
}

// Number is n as the tables have it, or a number that they do not have.
func Number(n uint64) int64 {
	if n > 1<<63-1 {
		return -1
	}
	return int64(n)
}

// orEmpty is a value of a column that takes no NULL.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
