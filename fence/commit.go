package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/store"
)

// Commit commits tx if what ctx is held under is still this process's at that
// moment, and rolls it back if not, and after any other error: tx has ended
// when Commit returns. It is [Do] for a transaction that the caller has begun,
// with the same errors.
//
// It sees that the server had ended the transaction by then, as error 1213 does:
// statements after that have been stored each by itself, which the [ErrBroken]
// that it returns then says. It cannot see that one statement was rolled back alone,
// as error 1205 does, when the caller has not looked at that error; nor any of this
// when the session has autocommit off. Transactions of a [Guard], and those of
// Do, are refused such statements in the first place.
//
// After an error the session may keep a wait_timeout of the length of
// [WithBound], so that the server ends it when it is idle; pools notice.
func Commit(ctx context.Context, tx *sql.Tx, options ...Option) error {
	if tx == nil {
		return errors.New("fence: Commit: the transaction is nil")
	}
	f, err := newFence(ctx, options)
	if err == nil {
		err = ended(ctx, f.holds)
	}
	if err != nil {
		_ = tx.Rollback()
		return err
	}
	if f.dialect != store.MySQL {
		return f.commitPlainly(ctx, tx)
	}
	if err := f.open(ctx, tx); err != nil {
		_ = tx.Rollback()
		return f.explain(ctx, err)
	}
	err = f.check(ctx, tx)
	if err == nil {
		err = f.paused()
	}
	if err != nil {
		f.rollback(ctx, tx)
		return f.explain(ctx, err)
	}

	// As a statement, so that the session can be set back before the pool has it
	// again. What database/sql then commits is nothing.
	longer, cancel := outlast(ctx, f.bound)
	defer cancel()
	if _, err := tx.ExecContext(longer, commitStatement); err != nil {
		_ = tx.Rollback()
		if !isRefusal(err) && !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, ErrBroken) {
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return f.explain(ctx, err)
	}
	// It is stored. If this fails, the session ends, soon or at once.
	_, _ = tx.ExecContext(longer, restoreStatement)
	_ = tx.Commit()
	return nil
}

// commitPlainly commits where no session has to be set back.
func (f *fence) commitPlainly(ctx context.Context, tx *sql.Tx) error {
	if err := f.check(ctx, tx); err != nil {
		_ = tx.Rollback()
		return f.explain(ctx, err)
	}
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case isRefusal(err), errors.Is(err, sql.ErrTxDone), errors.Is(err, ErrBroken), ctx.Err() != nil:
		_ = tx.Rollback()
		return f.explain(ctx, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// open reports that the server has ended the transaction before.
func (f *fence) open(ctx context.Context, tx *sql.Tx) error {
	switch _, err := tx.ExecContext(ctx, beginProbe); {
	case err == nil:
		return fmt.Errorf("%w: the server has ended it before: what was sent since is stored, each statement by itself", ErrBroken)
	case mysqlerr.Number(err) != mysqlerr.InTransaction:
		return err
	}
	return nil
}

// rollback ends a transaction after its check, and sets its session back.
func (f *fence) rollback(ctx context.Context, tx *sql.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, statement := range []string{rollbackStatement, restoreStatement} {
		if _, err := tx.ExecContext(ctx, statement); errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrTxDone) {
			break
		}
	}
	_ = tx.Rollback()
}
