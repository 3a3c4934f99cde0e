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
// lock's, that leaves it as it is. From then on, if not before, the transaction
// blocks every other writer.
func (s *Store) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	if tooLarge(h.Token) {
		return false, nil
	}
	check, values := s.sql.checkFence, []any{h.Name, h.Owner, int64(h.Token)}
	if h.Kind == lease.HoldLock {
		check, values = s.locking.check, []any{h.Name, h.Mark}
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
