package postgresstore

import (
	"context"

	"github.com/cronlease/cronlease/store/internal/sqlledger"
	"github.com/cronlease/cronlease/store/ledger"
)

// database runs the statements of the ledger.
type database struct{ *Store }

// Read implements [sqlledger.Database].
func (s database) Read(ctx context.Context, doing string, f func(context.Context, sqlledger.Conn) error) error {
	return s.do(ctx, doing, func(ctx context.Context, c conn) error { return f(ctx, c) })
}

// ReadOnce implements [sqlledger.Database].
func (s database) ReadOnce(ctx context.Context, doing string, f func(context.Context, sqlledger.Conn) error) error {
	return s.do(ctx, doing, func(ctx context.Context, c conn) error {
		if _, err := c.ExecContext(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
			return err
		}
		err := f(ctx, c)
		if err != nil {
			c.undo(ctx)
			return err
		}
		_, err = c.ExecContext(ctx, commit.Text)
		return err
	})
}

// Write implements [sqlledger.Database]. One transaction at a time writes a group's ledger. It locks the fence row behind
// replicas that wait to take over, and before it reads anything else.
func (s database) Write(ctx context.Context, group string, need ledger.Need, f func(context.Context, sqlledger.Conn) error) error {
	first := []sqlledger.Statement{{Text: s.sql.queue, Args: []any{"ledger " + group}}}
	if need.By.Owner != "" {
		fence := need.By.Fence()
		first = append(first, sqlledger.Statement{Text: s.sql.lockFence, Args: []any{fence, "fence " + fence}})
	}
	return s.do(ctx, need.Doing, func(ctx context.Context, c conn) error {
		for {
			err := c.inTx(ctx, first, func(ctx context.Context) error { return f(ctx, c) })
			if is := code(err); is != serializationFailure && is != deadlockDetected || ctx.Err() != nil {
				return err
			}
		}
	})
}

// Exec implements [sqlledger.Database].
func (s database) Exec(ctx context.Context, doing string, st sqlledger.Statement) (int64, error) {
	return s.once(ctx, doing, nil, st)
}
