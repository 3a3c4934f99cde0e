package fence

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/store"
)

// killEvery is how often a statement is killed that has not ended yet. A kill
// that comes before the statement has begun is lost.
const killEvery = 100 * time.Millisecond

// killer ends the statements of one session of MySQL or MariaDB on the server.
//
// The session is known by a user-level lock that it holds, under a name that is
// never used twice. KILL QUERY asks for the holder of that lock in the same
// statement: so it cannot end the statement of a stranger, whatever a proxy or a
// failover has made of the numbers of connections.
type killer struct {
	pool *sql.DB
	wait time.Duration
	name string
	// limited: the session has a limit for its statements too.
	limited bool
}

// The session's limit of a statement. MySQL, which has one for SELECT alone,
// reads the first form and MariaDB the second. A shorter limit that the session
// has already is kept.
const (
	limitSession = `/*!50708 , @cronlease_limit = @@SESSION.max_execution_time, SESSION max_execution_time = ` +
		`CAST(IF(@@SESSION.max_execution_time > 0, LEAST(@@SESSION.max_execution_time, %[1]d000), %[1]d000) AS UNSIGNED) */` +
		`/*M!100101 , @cronlease_limit = @@SESSION.max_statement_time, SESSION max_statement_time = ` +
		`IF(@@SESSION.max_statement_time > 0, LEAST(@@SESSION.max_statement_time, %[1]d), %[1]d) */`
	unlimitSession = `/*!50708 , SESSION max_execution_time = @cronlease_limit *//*M!100101 , SESSION max_statement_time = @cronlease_limit */`
)

// newKiller marks the session of the connection. It returns nil when the server
// does not let it be marked.
func (f *fence) newKiller(ctx context.Context, dc driver.Conn, pool *sql.DB) (*killer, error) {
	execer, ok := dc.(driver.ExecerContext)
	if !f.kill || f.dialect != store.MySQL || !ok {
		return nil, nil //nolint:nilnil // no killer is an answer
	}
	k := &killer{pool: f.killPool, wait: f.killWait, name: "cronlease-run-" + rand.Text()}
	if k.pool == nil {
		k.pool = pool
	}
	mark := fmt.Sprintf(`SET @cronlease_mark = GET_LOCK('%s', 0)`, k.name)
	if deadline, ok := ctx.Deadline(); ok {
		k.limited = true
		mark += fmt.Sprintf(limitSession, int(max(time.Until(deadline)+k.wait, 0)/time.Second)+1)
	}
	_, err := execer.ExecContext(ctx, mark, nil)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return nil, nil //nolint:nilnil // no killer is an answer
	}
	return k, err
}

// unmark is what follows a SET to undo what newKiller has set.
func (k *killer) unmark() string {
	if k == nil {
		return ""
	}
	text := fmt.Sprintf(`, @cronlease_mark = RELEASE_LOCK('%s')`, k.name)
	if k.limited {
		text += unlimitSession
	}
	return text
}

// watch returns the context for a statement: it outlives ctx for as long as it
// takes to end the statement on the server, but no longer than k.wait. What it
// returns beside it is called with the statement's error once that has ended.
func (k *killer) watch(ctx context.Context) (context.Context, func(error) error) {
	if k == nil || ctx.Done() == nil {
		return ctx, func(err error) error { return err }
	}
	longer, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	over, killed := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		k.until(over)
		giveUp(context.Cause(ctx))
	})
	return longer, func(err error) error {
		close(over)
		if !stop() {
			<-killed // so that no kill comes later
			// Without an error too: MySQL's SLEEP, for one, answers to a kill with a
			// value, and the statement goes on with that.
			switch {
			case err == nil:
				err = ctx.Err()
			case !errors.Is(err, ctx.Err()):
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
		}
		giveUp(nil)
		return err
	}
}

// until kills what the session runs until that is over, or the time for it.
func (k *killer) until(over <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), k.wait)
	defer cancel()
	again := time.NewTicker(killEvery)
	defer again.Stop()
	for {
		select {
		case <-over:
			return
		default:
		}
		// An error is that of a session that is gone, or of a server that cannot be
		// reached: the statement's connection tells.
		_, _ = k.pool.ExecContext(ctx, fmt.Sprintf(`KILL QUERY IS_USED_LOCK('%s')`, k.name))
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}
