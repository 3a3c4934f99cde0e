package fence

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/internal/sqlverb"
)

// savepoint is the name of a savepoint that tells whether a transaction is still
// the same one: it disappears with its transaction, also where another transaction
// has begun since. [Do] may use the connection of a guarded pool, and has a
// savepoint of its own.
func (g *guard) savepoint() string {
	if g.fenced {
		return "cronlease_do"
	}
	return "cronlease_guard"
}

// endedError is an [ErrUnfenced]: what has ended the transaction, or may have.
type endedError struct {
	what  string
	cause error // what went wrong besides; nil: nothing
}

func (e *endedError) Error() string {
	text := ErrUnfenced.Error() + ": " + e.what
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Is makes it an [ErrUnfenced].
func (e *endedError) Is(target error) bool { return target == ErrUnfenced }

// Unwrap returns the cause, unless database/sql would repeat a prepared statement for it, and
// return what becomes of that instead.
func (e *endedError) Unwrap() error {
	if errors.Is(e.cause, driver.ErrBadConn) {
		return nil
	}
	return e.cause
}

// hasEnded is the error of a statement that has ended the transaction.
func hasEnded(statement string, cause error) *endedError {
	return &endedError{statement + " has ended the transaction: what came before it is stored, or rolled back", cause}
}

// broken is the error of a transaction that has this behind it.
func broken(err error) error {
	if errors.Is(err, ErrUnfenced) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// unseen reports a statement that runs others, so that its text does not tell
// what it does to the transaction, and names it.
func unseen(text string) (string, bool) {
	if text == askUnchecked || text == askTemporary { // of a guard around this one
		return "", false
	}
	if seconds, mine := strings.CutPrefix(text, limitStatement); mine && strings.Trim(seconds, "0123456789") == "" {
		return "", false // of the check, and its comment has more of the same
	}
	if effect, words := sqlverb.Of(text); effect == sqlverb.Opaque {
		return words, true
	}
	_, one, _ := sqlverb.Placeholders(text)
	return "a list of statements", !one
}

// The first savepoint of a transaction, which is there as long as the transaction is: no
// ROLLBACK TO an earlier one removes it. [Do] sets it when it begins, a guard before
// the first statement that needs it. A guard around another one has the same, so that
// neither takes the other's for lost.
const (
	beginMark   = "cronlease_begin"
	setMark     = "SAVEPOINT " + beginMark
	releaseMark = "RELEASE SAVEPOINT " + beginMark
)

// mark sets the first savepoint.
func (g *guard) mark(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.setMark(ctx)
}

// unmark releases the first savepoint, and reports that it was gone. Only statements of
// the fence itself may come between it and COMMIT.
func (g *guard) unmark(ctx context.Context) error {
	return g.send("", func() error { return g.release(ctx) })
}

// What follows is called with the mutex held.

// setMark is mark, unless it is there.
func (g *guard) setMark(ctx context.Context) error {
	execer, ok := g.raw.(driver.ExecerContext)
	if g.marked || !ok {
		return nil
	}
	if _, err := execer.ExecContext(ctx, setMark, nil); err != nil {
		return fmt.Errorf("set a savepoint: %w", err)
	}
	g.marked = true
	return nil
}

// release is unmark.
func (g *guard) release(ctx context.Context) error {
	execer, ok := g.raw.(driver.ExecerContext)
	if !g.marked || !ok {
		return nil
	}
	err := releaseSavepoint(ctx, execer, beginMark)
	g.marked = err != nil // it may not have been sent
	if noSavepoint(err) {
		g.marked = false
		return hasEnded("one of its statements", nil)
	}
	return err
}

// noSavepoint reports that an error says that the savepoint is not there.
func noSavepoint(err error) bool {
	code, isSQLite := sqliteCode(err)
	state := sqlState(err)
	return mysqlerr.Number(err) == mysqlerr.NoSavepoint || isSQLite && code == sqliteError || state == noSuchSavepoint || state == noTransaction
}

// releaseSavepoint releases a savepoint. Where PostgreSQL has refused all since an error, it goes back to the savepoint, which
// tells whether it is there.
func releaseSavepoint(ctx context.Context, execer driver.ExecerContext, name string) error {
	_, err := execer.ExecContext(ctx, "RELEASE SAVEPOINT "+name, nil)
	if sqlState(err) == failedTransaction {
		if _, gone := execer.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+name, nil); noSavepoint(gone) {
			return gone
		}
	}
	return err
}

// kept looks for the first savepoint before a ROLLBACK of [Do]. If the server itself
// has rolled the transaction back, it says nothing.
func (g *guard) kept() {
	switch mysqlerr.Number(g.broken) {
	case mysqlerr.Deadlock, mysqlerr.LockTableFull, mysqlerr.RecordChanged:
		return
	}
	if !g.fenced || g.broken != nil && !g.implicit { // SQLite rolls back at many errors, and when it is interrupted
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.bound)
	defer cancel()
	if err := g.release(ctx); errors.Is(err, ErrUnfenced) {
		g.note(err)
	} // without an answer, the connection's end rolls back what is open
}

// settle rolls back what the end of the context has not yet, and reports that
// the transaction had been ended before, or may have been.
func (g *guard) settle() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in {
		_ = (&guardTx{g, g.tx}).rollback()
	}
	return g.unfenced()
}

// look is called before a statement. What it returns is called with the
// statement's error once that has ended, and finds out whether the transaction
// is still the same one.
func (g *guard) look(ctx context.Context, text string) (func(error) error, error) {
	nothing := func(err error) error { return err }
	execer, ok := g.raw.(driver.ExecerContext)
	if !g.in || !ok {
		return nothing, nil
	}
	name, hidden := unseen(text)
	switch {
	case text == setMark, text == releaseMark: // of a guard around this one
		return func(err error) error {
			g.marked = text == setMark && (g.marked || err == nil)
			return err
		}, nil
	case hidden, sqlverb.Savepoint(text):
		if err := g.setMark(ctx); err != nil || !hidden {
			return nothing, err
		}
	default:
		return nothing, nil
	}
	if _, err := execer.ExecContext(ctx, "SAVEPOINT "+g.savepoint(), nil); err != nil {
		return nil, fmt.Errorf("set a savepoint before %s: %w", name, err)
	}
	return func(err error) error {
		if errors.Is(err, driver.ErrBadConn) { // never sent, by the contract of drivers
			return err
		}
		// The statement has ended: whether the transaction has too is worth an answer,
		// also when ctx has ended.
		longer, cancel := outlast(ctx, g.bound)
		defer cancel()
		gone := releaseSavepoint(longer, execer, g.savepoint())
		if err != nil && sqlState(gone) == failedTransaction { // it is there: the statement alone has failed
			return err
		}
		if noSavepoint(gone) {
			// It may have gone back to an earlier one, or released it. With the first one go
			// all that are left, so the next first one is it again.
			if gone = g.release(longer); gone == nil {
				gone = g.setMark(longer)
			}
		}
		switch {
		case gone == nil:
			return err
		case errors.Is(gone, ErrUnfenced):
			return hasEnded(name, err)
		case errors.Is(gone, ErrBroken): // says a guard below this one, which has looked too
			return cmp.Or(err, gone)
		}
		if err != nil {
			gone = fmt.Errorf("%w: %w", err, gone)
		}
		return &endedError{name + " may have ended the transaction, which nothing can tell any more: what came before it may be stored", gone}
	}, nil
}
