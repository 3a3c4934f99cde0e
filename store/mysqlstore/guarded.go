package mysqlstore

import (
	"context"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// For statements that are a transaction of several. The limits are in seconds.
const (
	begin       = `START TRANSACTION`
	commit      = `COMMIT`
	rollback    = `ROLLBACK`
	limitIdle   = `SET wait_timeout = 2`
	unlimitIdle = `SET wait_timeout = 2147483`
)

// guarded runs a statement of a holder that takes a shared lock on the fence row
// and compares owner and token. On a cluster with several writers another node
// knows nothing of that lock: there a transaction changes the fence row first,
// with the same comparison, so that of it and a takeover on another node the
// second to commit fails. The error is then 1213, of the COMMIT too, and nothing
// was written.
func (l *ledger) guarded(ctx context.Context, c *conn, h store.Holder, statement string) (mysqlconn.Change, error) {
	if !c.Server.ManyWriters() {
		return c.Change(ctx, statement)
	}
	// A process that stands still in a transaction keeps the fence row from
	// takeovers on its node. On Galera, MariaDB has a limit for just that.
	limited := c.Server.IsGalera() && c.Server.IsMariaDB()
	if !limited {
		if err := c.Exec(ctx, limitIdle); err != nil {
			return mysqlconn.Change{}, err
		}
	}
	done, err := l.writeFenceFirst(ctx, c, h, statement)
	if err != nil && mysqlconn.IsAnswer(err) {
		// The server has rolled back the transaction, or only the statement.
		if undone := c.Exec(ctx, rollback); undone != nil {
			return mysqlconn.Change{}, undone
		}
	}
	if !limited && (err == nil || mysqlconn.IsAnswer(err)) {
		if err := c.Exec(ctx, unlimitIdle); err != nil {
			return mysqlconn.Change{}, err
		}
	}
	return done, err
}

func (l *ledger) writeFenceFirst(ctx context.Context, c *conn, h store.Holder, statement string) (mysqlconn.Change, error) {
	if err := c.Exec(ctx, begin); err != nil {
		return mysqlconn.Change{}, err
	}
	held, err := c.Changed(ctx, l.sql.writeFence.Render(h.Group, h.Owner, h.Token))
	if err != nil {
		return mysqlconn.Change{}, err
	}
	var done mysqlconn.Change
	if held > 0 {
		if done, err = c.Change(ctx, statement); err != nil {
			return mysqlconn.Change{}, err
		}
	}
	err = c.Exec(ctx, commit)
	return done, err
}
