package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// FenceDialect implements [store.Fences].
func (s *Store) FenceDialect() store.Dialect { return store.SQLite }

// CheckHold implements [store.Fences], by a write of the fence row, or of the
// lock's or the run's, that leaves it as it is. From then on, if not before, the transaction
// blocks every other writer.
func (s *Store) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	if tooLarge(h.Token) || tooLarge(h.Run.Trigger) {
		return false, nil
	}
	check, values := s.sql.checkFence, []any{h.Name, h.Owner, int64(h.Token)}
	switch h.Kind {
	case lease.HoldLock:
		check, values = s.locking.check, []any{h.Name, h.Mark}
	case lease.HoldRun:
		check = s.sql.checkRun
		values = []any{h.Name, h.Run.Job, h.Run.Tick.UnixMicro(), int64(h.Run.Trigger), h.Owner, int64(h.Token), h.Run.Attempt}
	}
	result, err := tx.ExecContext(ctx, check, values...)
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_ERROR { // no such table
		return false, fmt.Errorf("sqlitestore: check fence: %w: the transaction is in another file than what it is fenced with: use a pool of %s: %w", lease.ErrSetup, s.path, err)
	}
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}
