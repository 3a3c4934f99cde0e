package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// fences are the checks of fenced transactions.
type fences struct {
	conns  *mysqlconn.Pool
	sql    *fenceQueries
	tables tables
}

// FenceDialect implements [store.Fences].
func (f *fences) FenceDialect() store.Dialect { return store.MySQL }

// CheckHold implements [store.Fences]: by a shared lock on the fence row, or on the
// lock's or the run's, or, on a cluster with several writers, by a change of it. The user of
// tx needs SELECT on that table, and UPDATE there.
func (f *fences) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	server, err := f.conns.Server(ctx)
	if err != nil {
		return false, err
	}
	schema := "`" + strings.ReplaceAll(server.Database, "`", "``") + "`"
	table, check, change, values := "fence", f.sql.checkLease, f.sql.changeLease, []any{sqltext.Raw(schema), h.Name, h.Owner, h.Token}
	switch h.Kind {
	case lease.HoldLock:
		table, check, change, values = "lock", f.sql.checkLock, f.sql.changeLock, []any{sqltext.Raw(schema), h.Name, string(h.Mark)}
	case lease.HoldRun:
		table, check, change = "run", f.sql.checkRun, f.sql.changeRun
		values = []any{sqltext.Raw(schema), h.Name, h.Run.Job, h.Run.Tick.UnixMicro(), h.Run.Trigger, h.Owner, h.Token, h.Run.Attempt}
	}
	setting := ""
	if server.Snapshots() {
		// The row may have changed since the transaction's snapshot without any
		// harm: others queue up for a lock that is held. What counts is the row
		// as it is now.
		setting = pastSnapshot
	}
	var n int64
	if server.ManyWriters() {
		var result sql.Result
		result, err = tx.ExecContext(ctx, setting+change.Render(values...))
		if err == nil {
			n, err = result.RowsAffected()
		}
	} else {
		err = tx.QueryRowContext(ctx, setting+check.Render(values...)).Scan(&n)
	}
	if err != nil {
		return false, explainCheck(err, schema+"."+f.tables.quoted(table))
	}
	return n == 1, nil
}

// explainCheck adds the cure to what is wrong with the caller's connection.
func explainCheck(err error, table string) error {
	var cure string
	switch mysqlerr.Number(err) {
	case mysqlerr.NoSuchTable, mysqlerr.UnknownDatabase:
		cure = "the transaction is on another server than what it is fenced with: use a pool of that one"
	case mysqlerr.CommandDenied, mysqlerr.ColumnDenied, mysqlerr.AccessDeniedToDatabase:
		cure = "the user of the transaction may not look at what it is fenced with: grant SELECT on " + table + ", and UPDATE on a cluster with several writers"
	default:
		return err
	}
	return fmt.Errorf("mysqlstore: check fence: %w: %w: %s", lease.ErrSetup, err, cure)
}
