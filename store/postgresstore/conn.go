package postgresstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

const (
	// lockPatience bounds each wait for a lock where the context has no earlier end: the process that has it may stand still.
	lockPatience = 5 * time.Second
	// idlePatience is when the server ends a transaction of a process that stands still in the middle of it: a takeover waits
	// for that, and is to come within the lease's TTL and a second.
	idlePatience = time.Second
	// undoLimit bounds a ROLLBACK. Without an answer, the connection is closed, and the server undoes by itself.
	undoLimit = time.Second
)

// conn is a connection with a transaction open on it, or without one.
type conn struct{ *sql.Conn }

// do runs f on a connection.
func (s *Store) do(ctx context.Context, doing string, f func(context.Context, conn) error) error {
	return wrap(ctx, doing, s.try(ctx, f))
}

func (s *Store) try(ctx context.Context, f func(context.Context, conn) error) (err error) {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreBad(c.Close())) }()
	return f(ctx, conn{c})
}

// ignoreBad leaves out that a connection was broken before, which its statements have said.
func ignoreBad(err error) error {
	if errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// batch sends statements in one message each way. Where read is not nil, it reads the rows of the last but one, before a COMMIT.
// It returns how many rows that one has matched.
func (c conn) batch(ctx context.Context, statements []sqlledger.Statement, read func(pgx.Rows) error) (n int64, err error) {
	err = c.Raw(func(dc any) error {
		driver, ok := dc.(*stdlib.Conn)
		if !ok {
			return notPgx(dc)
		}
		var b pgx.Batch
		for _, s := range statements {
			b.Queue(s.Text, s.Args...)
		}
		results := driver.Conn().SendBatch(ctx, &b)
		for i := range statements {
			of := read
			if i != len(statements)-2 {
				of = nil
			}
			matched, err := readOne(results, of)
			if err != nil {
				return errors.Join(err, ignoreRepeated(err, results.Close()))
			}
			if i == len(statements)-2 {
				n = matched
			}
		}
		return results.Close()
	})
	return n, err
}

func notPgx(c any) error {
	return fmt.Errorf("%w: the pool's connections are of %T: it has to be one of github.com/jackc/pgx/v5/stdlib", lease.ErrSetup, c)
}

func readOne(results pgx.BatchResults, read func(pgx.Rows) error) (matched int64, err error) {
	if read == nil {
		tag, err := results.Exec()
		return tag.RowsAffected(), err
	}
	rows, err := results.Query()
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return 0, err
		}
	}
	return rows.CommandTag().RowsAffected(), rows.Err()
}

// ignoreRepeated leaves out an error that was returned before.
func ignoreRepeated(before, err error) error {
	if err != nil && errors.Is(before, err) {
		return nil
	}
	var a, b *pgconn.PgError
	if errors.As(before, &a) && errors.As(err, &b) && a.Code == b.Code {
		return nil
	}
	return err
}

// begin are the statements by which a transaction begins: READ COMMITTED, in which each statement sees what was committed
// before it, and a statement that has waited for a row sees its newest version; and bounds for what it waits for.
func begin(ctx context.Context) []sqlledger.Statement {
	patience := lockPatience
	if end, ok := ctx.Deadline(); ok {
		patience = max(min(patience, time.Until(end)), 10*time.Millisecond)
	}
	return []sqlledger.Statement{
		{Text: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"},
		{
			Text: "SELECT set_config('lock_timeout', $1::text, true), set_config('idle_in_transaction_session_timeout', $2::text, true)",
			Args: []any{fmt.Sprintf("%dms", patience.Milliseconds()), fmt.Sprintf("%dms", idlePatience.Milliseconds())},
		},
	}
}

var commit = sqlledger.Statement{Text: "COMMIT"}

// once runs statements as one transaction, in one message each way, reads the rows of the last one, and returns how many it has matched.
func (s *Store) once(ctx context.Context, doing string, read func(pgx.Rows) error, statements ...sqlledger.Statement) (n int64, err error) {
	all := append(append(begin(ctx), statements...), commit)
	err = s.do(ctx, doing, func(ctx context.Context, c conn) error {
		if n, err = c.batch(ctx, all, read); err != nil {
			c.undo(ctx)
		}
		return err
	})
	return n, err
}

// inTx runs f as one transaction that begins with statements, of which it reads nothing.
func (c conn) inTx(ctx context.Context, first []sqlledger.Statement, f func(context.Context) error) error {
	_, err := c.batch(ctx, append(begin(ctx), first...), nil)
	if err == nil {
		err = f(ctx)
	}
	if err != nil {
		c.undo(ctx)
		return err
	}
	_, err = c.ExecContext(ctx, commit.Text)
	return err
}

// undo ends a transaction that has failed, also when ctx has ended.
func (c conn) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	_, _ = c.ExecContext(ctx, "ROLLBACK") // else the pool closes a connection with an open transaction
}

// Server implements [sqlledger.Conn].
func (c conn) Server(column string) string { return column }

// Run implements [sqlledger.Conn].
func (c conn) Run(ctx context.Context, statements []sqlledger.Statement) error {
	if len(statements) == 0 {
		return nil
	}
	for _, s := range statements {
		for i, arg := range s.Args {
			if text, ok := arg.(string); ok {
				s.Args[i] = storable(text)
			}
		}
	}
	_, err := c.batch(ctx, statements, nil)
	return err
}

// storable is a text as PostgreSQL takes it, which is UTF-8 without the character 0: a name or note that is not must not
// keep an action from being carried out.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// sessionOf is what stands for a server in a reading: no statement rests on a connection.
func sessionOf(server string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(server)) // never fails
	return h.Sum64()
}
