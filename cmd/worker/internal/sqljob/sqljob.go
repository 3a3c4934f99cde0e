// Package sqljob runs SQL statements as jobs.
package sqljob

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/cmd/worker/internal/argtext"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/sqlverb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Statement is an SQL statement, and which facts of the run its placeholders
// stand for, in their order.
type Statement struct {
	Text string
	Args []string // of Args
}

// Args are what a placeholder can stand for.
var Args = []string{"tick", "token", "attempt", "job", "group", "missed", "args", "shard", "shards"}

// minKill is the least time to end a statement on the server in.
const minKill = 100 * time.Millisecond

// layout is an instant as DATETIME(6) has it.
const layout = "2006-01-02 15:04:05.000000"

// Placeholders counts those of the statement, if they can be counted, and says how they are written.
func (s Statement) Placeholders(of store.Dialect) (n int, known bool, form string) {
	if of == store.PostgreSQL {
		_, n, _ = sqlverb.Postgres(s.Text)
		return n, true, "$1, $2, ..."
	}
	n, _, known = sqlverb.Placeholders(s.Text)
	return n, known, "?"
}

// Check reports a text that cannot be a part of a fenced transaction of such a database.
func Check(of store.Dialect, text string) error {
	if strings.Trim(text, " \t\r\n;") == "" {
		return errors.New("empty: expected an SQL statement")
	}
	_, one, _ := sqlverb.Placeholders(text)
	controls := ""
	if of == store.PostgreSQL {
		controls, _, one = sqlverb.Postgres(text)
	}
	switch {
	case !one:
		return errors.New("several statements: expected one for each entry of the list")
	case controls != "":
		return inTransaction(controls)
	case of == store.PostgreSQL:
		return nil
	}
	if sqlverb.Executable(text) {
		return errors.New("an executable comment (/*! or /*M!): which servers run what it holds does not show in the text: write the statement without it")
	}
	switch effect, words := sqlverb.Of(text); effect {
	case sqlverb.Controls:
		return inTransaction(words)
	case sqlverb.Commits:
		return fmt.Errorf("%s: MySQL commits what came before it, even if the lease was lost: change tables by other means", words)
	case sqlverb.Opaque:
		if words != "CALL" { // which is looked at when it has run
			return fmt.Errorf("%s: what it runs does not show in its text, and may end the transaction: write the statements themselves, or CALL a procedure", words)
		}
	}
	return nil
}

// checkConnection has PostgreSQL end a statement within a second whose client is gone, which it else runs to its end. A
// server of a system that cannot tell refuses the setting
// (https://www.postgresql.org/docs/current/runtime-config-connection.html).
const checkConnection = `SELECT CASE WHEN version() LIKE '%linux%' THEN set_config('client_connection_check_interval', '1s', true) END`

func inTransaction(words string) error {
	return fmt.Errorf("%s: the statements are one transaction already, which is committed if the lease is still held", words)
}

// Options says how statements are run.
type Options struct {
	// Dialect is the database's.
	Dialect store.Dialect
	// Grace is how long a statement has to end on the server once its run is over.
	Grace time.Duration
	// Kill is the pool over which a statement is ended, on MySQL and MariaDB alone; nil:
	// the pool that it runs on.
	Kill *sql.DB
}

// New returns a job function that runs the statements, in their order, in one
// transaction of the database that keeps the lease. All of them take effect, if
// the run's term still stands when they have run, or none: the errors are those
// of [fence.Do], or name the statement that failed.
//
// When the context of a run ends, the statement that runs is ended on the server
// too. Its connection is closed after the run: a function, a view or a trigger can
// change the session, and no text tells, and no other job may find it so.
//
// Where the context has a span of OpenTelemetry, the transaction, from the login to its end, is a child
// of it, and each statement one of that.
func New(db *sql.DB, statements []Statement, o Options) func(context.Context, jobs.Run) error {
	options := []fence.Option{fence.WithKill(o.Kill, max(o.Grace*3/4, minKill)), fence.WithClose()}
	return func(ctx context.Context, run jobs.Run) error {
		return traced(ctx, "transaction", func(ctx context.Context) error {
			return fence.Do(ctx, db, func(tx *sql.Tx) error {
				if o.Dialect == store.PostgreSQL {
					if _, err := tx.ExecContext(ctx, checkConnection); err != nil {
						return err
					}
				}
				for i, s := range statements {
					do := func(ctx context.Context) error { return execute(ctx, tx, s, o.Dialect, run) }
					if err := traced(ctx, statementSpan(i), do, statementNumber.Int(i+1)); err != nil {
						return fmt.Errorf("statement %d: %w", i+1, err)
					}
				}
				return nil
			}, options...)
		})
	}
}

func execute(ctx context.Context, tx *sql.Tx, s Statement, of store.Dialect, run jobs.Run) error {
	var values []any
	if of == store.PostgreSQL && len(s.Args) > 0 {
		values = append(values, pgx.QueryExecModeDescribeExec) // which types they have, the server says: a text can be any
	}
	for _, name := range s.Args {
		v := value(run, name)
		switch {
		case of != store.PostgreSQL || v == nil:
		case name == "tick":
			v = fmt.Sprint(v, "+00") // else it would be of the session's time zone
		default:
			v = fmt.Sprint(v)
		}
		values = append(values, v)
	}
	if _, err := tx.ExecContext(ctx, s.Text, values...); err != nil {
		if errors.Is(err, driver.ErrBadConn) { // the driver gives up a connection that takes no writes, and its error with it
			err = fmt.Errorf("%w: the connection is lost, or the server takes no writes from it (read_only, super_read_only, transaction_read_only)", err)
		}
		return argtext.Hide(err, run.Args)
	}
	return nil
}

func value(run jobs.Run, name string) any {
	switch name {
	case "tick":
		return run.Tick.UTC().Format(layout)
	case "token":
		return int64(run.Token) // tokens are below 2^63, and SQLite has no others
	case "attempt":
		return run.Attempt
	case "shard":
		return run.Shard
	case "shards":
		return run.Shards
	case "job":
		return run.Job
	case "group":
		return run.Group
	case "args":
		if run.Args == nil {
			return nil
		}
		return string(run.Args)
	default:
		return run.Missed
	}
}
