package postgresstore

import (
	"context"
	"fmt"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// FenceDialect implements [store.Fences].
func (s *Store) FenceDialect() store.Dialect { return store.PostgreSQL }

// CheckHold implements [store.Fences]. It locks the fence row for the transaction, or the lock's or the run's, in a shared
// mode. Above READ COMMITTED, PostgreSQL refuses it with the error 40001 if the row was changed since the transaction's first
// statement.
func (s *Store) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	return s.checkHold(h, func(query string, args ...any) scanner { return tx.QueryRowContext(ctx, query, args...) })
}

// scanner is a row of database/sql or pgx.
type scanner interface{ Scan(into ...any) error }

func (s *Store) checkHold(h lease.Hold, row func(query string, args ...any) scanner) (bool, error) {
	if tooLarge(h.Token, h.Run.Trigger) {
		return false, nil
	}
	check, values := s.sql.checkFence, []any{h.Name, "fence " + h.Name, h.Owner, int64(h.Token)}
	switch h.Kind {
	case lease.HoldLock:
		check, values = s.locking.check, []any{h.Name, h.Mark}
	case lease.HoldRun:
		check = s.sql.checkRun
		values = []any{h.Name, h.Run.Job, h.Run.Tick.UnixMicro(), int64(h.Run.Trigger), h.Owner, int64(h.Token), h.Run.Attempt}
	}
	var n int
	err := row(check, values...).Scan(&n)
	if is := code(err); is == undefinedTable || is == invalidSchema {
		return false, fmt.Errorf("postgresstore: check fence: %w: the transaction is in another database or schema than what it is fenced with: %w", lease.ErrSetup, err)
	}
	return n == 1, err
}
