package mysqlconn

import (
	"context"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
)

// lockWaiters finds the statement of another session that has waited longest for
// a lock in this database, if that is longer than any statement of the store waits, which
// is a victim too: what keeps others from a table, such as an ALTER TABLE that waits for
// a transaction, waits on. The server counts the boundaries of seconds. Without the
// privilege PROCESS a user sees the sessions of its own account.
const lockWaiters = `
SELECT id, user, time, state, LEFT(COALESCE(info, ''), 80) FROM information_schema.processlist
WHERE state LIKE 'Waiting for %lock%' AND id <> CONNECTION_ID()
	AND time > ?
	AND (db = DATABASE() OR LOCATE(DATABASE(), info) > 0)
ORDER BY time DESC LIMIT 1`

// explainWait adds to the error of a lock wait what the statement waited for, as
// far as the server tells: nothing is kept from it for as long by the store itself.
func (c *Conn) explainWait(ctx context.Context, err error) error {
	if mysqlerr.Number(err) != mysqlerr.LockWaitTimeout {
		return err
	}
	if stall := c.Stall(ctx); stall != nil {
		return fmt.Errorf("%w (%v: %s)", err, stall, stall.Cure())
	}
	var (
		id, seconds       int64
		user, state, info string
	)
	if c.conn.QueryRowContext(ctx, lockWaiters, int(longestLockWait/time.Second)+1).Scan(&id, &user, &seconds, &state, &info) == nil {
		return fmt.Errorf("%w (session %d of user %s has been in the state %q for %d s with %q: a transaction that is open on that table holds it up)", err, id, user, state, seconds, info)
	}
	return fmt.Errorf("%w (an open transaction has locked the row, or the table together with an ALTER TABLE that waits for it, or LOCK TABLES has: see SHOW FULL PROCESSLIST, also for sessions in a commit, or that wait for an acknowledgement or for free space, which must not be killed)", err)
}
