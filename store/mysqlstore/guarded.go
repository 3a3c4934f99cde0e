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
	change := func() (mysqlconn.Change, error) { return c.Change(ctx, statement) }
	if !c.Server.ManyWriters() {
		return change()
	}
	return l.transaction(ctx, c, h, change)
}

// transaction runs the statements of do as one transaction of a holder. They have to
// compare the fence row as [ledger.guarded] says.
func (l *ledger) transaction(ctx context.Context, c *conn, h store.Holder, do func() (mysqlconn.Change, error)) (mysqlconn.Change, error) {
	return together(ctx, c, func() (mysqlconn.Change, error) {
		if c.Server.ManyWriters() {
			held, err := c.Changed(ctx, l.sql.writeFence.Render(h.Group, h.Owner, h.Token))
			if err != nil || held == 0 {
				return mysqlconn.Change{}, err
			}
		}
		return do()
	})
}

// together runs the statements of do as one transaction.
func together(ctx context.Context, c *conn, do func() (mysqlconn.Change, error)) (mysqlconn.Change, error) {
	// A process that stands still in a transaction keeps its rows from others: the fence
	// row from takeovers. MariaDB has a limit for just that, which its sessions have.
	limited := c.Server.IsMariaDB()
	if !limited {
		if err := c.Exec(ctx, limitIdle); err != nil {
			return mysqlconn.Change{}, err
		}
	}
	done, err := committed(ctx, c, do)
	if !limited && (err == nil || mysqlconn.IsAnswer(err)) {
		// What is committed stands, whatever becomes of the connection.
		if c.Exec(ctx, unlimitIdle) != nil {
			c.Discard()
		}
	}
	return done, err
}

// committed is together for what keeps no row that others change.
func committed(ctx context.Context, c *conn, do func() (mysqlconn.Change, error)) (done mysqlconn.Change, err error) {
	if err := c.Exec(ctx, begin); err != nil {
		return done, err
	}
	if done, err = do(); err == nil {
		err = c.Exec(ctx, commit)
	}
	if err != nil && mysqlconn.IsAnswer(err) {
		// The server has rolled back the transaction, or only the statement.
		if undone := c.Exec(ctx, rollback); undone != nil {
			return mysqlconn.Change{}, undone
		}
	}
	if err != nil {
		return mysqlconn.Change{}, err
	}
	return done, nil
}
