package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/store"
)

// Commit commits tx if what ctx is held under is still this process's at that
// moment, and rolls it back if not, and after any other error: tx has ended
// when Commit returns. It is [Do] for a transaction that the caller has begun,
// with the same errors, and [sql.ErrTxDone] if tx had ended before, by its own
// Commit or Rollback, or with its context.
//
// Transactions of a [Guard], and those of Do, are refused statements that would end
// them, and those that follow an error such as 1213. Of any other, Commit finds out that
// the server had ended it before, and returns [ErrUnfenced]: statements after that are
// stored each by itself. It cannot see
//
//   - that one statement was rolled back alone, as error 1205 does, or on MariaDB all
//     before it, as the error of a CREATE TEMPORARY TABLE ... SELECT may, when the caller
//     has not looked at that error: it commits the rest, and returns nil;
//   - that a statement has ended the transaction and begun another, as a procedure with
//     COMMIT; START TRANSACTION does: what came before is stored then, also where it
//     returns [ErrFenced] or [ErrBroken];
//   - an end before it when the session has autocommit off, when the end of ctx has rolled
//     back what followed, or when the connection is lost by then: nothing is stored then
//     only if no statement has ended the transaction.
//
// Close the rows of tx first. With open rows its connection is busy: Commit takes that for a broken transaction, and rolls it back.
//
// Commit is not for the transaction of [Do], which it rolls back.
//
// When the context of BeginTx ends within Commit, database/sql takes the session away from
// it, also after a COMMIT that has succeeded. No session goes on with what the check has
// set: the server ends it, and pools notice. With a [Guard] they do so at once; without one, a
// statement that is sent over it in that moment fails as on any lost connection, on Windows
// the next one whenever it comes.
func Commit(ctx context.Context, tx *sql.Tx, options ...Option) error {
	if tx == nil {
		return errors.New("fence: Commit: the transaction is nil")
	}
	f, err := newFence(ctx, options)
	if err != nil {
		_ = tx.Rollback()
		return err
	}
	over := ended(ctx, f.holds)
	if err := f.open(ctx, tx); err != nil {
		if gone := tx.Rollback(); errors.Is(gone, ErrUnfenced) { // of a guard
			err = gone
		}
		return f.explainOpen(ctx, err, over)
	}
	if over != nil {
		_ = tx.Rollback()
		return f.explain(ctx, over)
	}
	if err = f.check(ctx, tx); err == nil {
		err = f.paused()
	}
	if err != nil {
		f.rollback(ctx, tx)
		return f.explain(ctx, err)
	}

	longer, cancel := outlast(ctx, f.bound)
	defer cancel()
	if f.dialect == store.MySQL {
		// As a statement, so that the session can be set back before the pool has it
		// again. What database/sql then commits is nothing.
		_, err = tx.ExecContext(longer, commitStatement)
	} else if err = tx.Commit(); errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", driver.ErrBadConn, err) // of database/sql, which has not sent it
	}
	if err != nil {
		_ = tx.Rollback()
		if !isRefusal(err) && !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, ErrBroken) && !errors.Is(err, ErrUnfenced) {
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return f.explain(ctx, err)
	}
	if f.dialect == store.MySQL {
		// It is stored. If this fails, the session ends.
		_, _ = tx.ExecContext(longer, restoreStatement)
		_ = tx.Commit()
	}
	return nil
}

// open returns nil if the transaction is open, and [ErrUnfenced] if the server says that
// it is not. It waits for an answer for a while after the end of ctx: what is
// stored depends on it.
func (f *fence) open(ctx context.Context, tx *sql.Tx) error {
	ctx, cancel := outlast(ctx, f.bound)
	defer cancel()
	probe := beginProbe
	switch f.dialect {
	case store.SQLite:
		probe = sqliteProbe
	case store.PostgreSQL:
		_, err := tx.ExecContext(ctx, openProbe)
		if sqlState(err) == noTransaction {
			return &endedError{"the database has ended it before: what was sent since is stored, each statement by itself", nil}
		}
		return err
	}
	_, err := tx.ExecContext(ctx, probe)
	var known *forbiddenError // a guard has not sent it, since the transaction is open
	code, isSQLite := sqliteCode(err)
	switch {
	case err == nil: // SQLite has begun another one, which the end of tx rolls back
		return &endedError{"the database has ended it before: what was sent since is stored, each statement by itself", nil}
	case mysqlerr.Number(err) == mysqlerr.InTransaction, isSQLite && code == sqliteError, errors.As(err, &known):
		return nil
	}
	return err
}

// explainOpen is explain for an error of open. Whether nothing is stored, only a guard
// knows.
func (f *fence) explainOpen(ctx context.Context, err, over error) error {
	switch {
	case errors.Is(err, errDoCommits):
		return err
	case errors.Is(err, ErrBroken), errors.Is(err, ErrUnfenced): // what a guard says, or the server
		return f.explain(ctx, err)
	case errors.Is(err, sql.ErrTxDone) && over != nil: // the end of ctx has rolled it back
		return f.explain(ctx, over)
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("fence: Commit: the transaction had ended before, by its own Commit or Rollback, or with its context: %w", err)
	}
	return ctxerr.With(ctx, broken(err))
}

// rollback ends a transaction after its check, and sets its session back.
func (f *fence) rollback(ctx context.Context, tx *sql.Tx) {
	if f.dialect == store.MySQL {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		for _, statement := range []string{rollbackStatement, restoreStatement} {
			if _, err := tx.ExecContext(ctx, statement); errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrTxDone) {
				break
			}
		}
	}
	_ = tx.Rollback()
}
