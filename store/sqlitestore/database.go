package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
	"github.com/cronlease/cronlease/store/ledger"
)

// ledgerInFile is the ledger in the tables of the file.
type ledgerInFile = sqlledger.Ledger

// newTables returns the statements of the ledger.
func newTables(clock string) *sqlledger.Queries {
	return &sqlledger.Queries{LedgerQueries: newLedgerQueries(clock), ArchiveQueries: newArchiveQueries(clock), ReplicaQueries: newReplicaQueries(clock)}
}

// database runs the statements of the ledger.
type database struct{ *Store }

// Read implements [sqlledger.Database].
func (s database) Read(ctx context.Context, doing string, f func(context.Context, sqlledger.Conn) error) error {
	return s.do(ctx, doing, func(ctx context.Context, c *sql.Conn, of opened) error { return f(ctx, connection{c, of}) })
}

// ReadOnce implements [sqlledger.Database].
func (s database) ReadOnce(ctx context.Context, doing string, f func(context.Context, sqlledger.Conn) error) error {
	return s.do(ctx, doing, func(ctx context.Context, c *sql.Conn, of opened) error {
		return inReadTx(ctx, c, func(tx *sql.Tx) error { return f(ctx, connection{tx, of}) })
	})
}

// Write implements [sqlledger.Database].
func (s database) Write(ctx context.Context, _ string, need ledger.Need, f func(context.Context, sqlledger.Conn) error) error {
	return s.write(ctx, need.Doing, func(ctx context.Context, c *sql.Conn, of opened) error {
		return inTx(ctx, c, func(tx *sql.Tx) error {
			// From here on nothing is waited for. To watch a context takes as long as to write a row.
			return f(context.WithoutCancel(ctx), connection{tx, of})
		})
	})
}

// Exec implements [sqlledger.Database].
func (s database) Exec(ctx context.Context, doing string, st sqlledger.Statement) (n int64, err error) {
	err = s.write(ctx, doing, func(ctx context.Context, c *sql.Conn, _ opened) error {
		n, err = exec(ctx, c, st.Text, st.Args...)
		return err
	})
	return n, err
}

// See implements [sqlledger.Database].
func (s database) See(ctx context.Context, c sqlledger.Conn, group string, roster *jobs.Roster) error {
	return s.see(ctx, c.(connection), group, roster)
}

// write runs f as do does, one at a time. Connections that wait for SQLite's lock
// poll, and get it in no order: with 1,000 writes at once a heartbeat waited for
// 4.4 s, and waits for 0.04 s like this.
func (s *Store) write(ctx context.Context, action string, f func(ctx context.Context, c *sql.Conn, of opened) error) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return fmt.Errorf("sqlitestore: %s: wait for other writes: %w", action, ctx.Err())
	}
	return s.do(ctx, action, f)
}

// connection is a connection to a file, or a transaction on one.
type connection struct {
	querier
	of opened
}

// querier is what runs statements: a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Server implements [sqlledger.Conn].
func (c connection) Server(file string) string { return serverOf(file, c.of) }

// Run implements [sqlledger.Conn].
func (c connection) Run(ctx context.Context, statements []sqlledger.Statement) error {
	for _, s := range statements {
		if _, err := c.ExecContext(ctx, s.Text, s.Args...); err != nil {
			return err
		}
	}
	return nil
}
