package fence

import (
	"context"
	"database/sql/driver"
	"fmt"

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

// endedError is of a statement that has ended the transaction that it was in.
type endedError struct {
	statement string
	cause     error // what it answered, if that was an error too
}

func (e *endedError) Error() string {
	text := e.statement + " has ended the transaction: what came before it is stored, or rolled back, without a check"
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

func (e *endedError) Unwrap() error { return e.cause }

// unseen reports a statement that runs others, so that its text does not tell
// what it does to the transaction, and names it.
func unseen(text string) (string, bool) {
	if effect, words := sqlverb.Of(text); effect == sqlverb.Opaque {
		return words, true
	}
	_, one, _ := sqlverb.Placeholders(text)
	return "a list of statements", !one
}

// doMark is the savepoint that [Do] sets when its transaction has begun, and that is
// there as long as the transaction is.
const doMark = "cronlease_begin"

// errEscaped is of a transaction whose savepoint is gone.
var errEscaped = &endedError{statement: "one of its statements"}

// mark sets the savepoint.
func (g *guard) mark(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	execer, ok := g.raw.(driver.ExecerContext)
	if !ok {
		return nil
	}
	if _, err := execer.ExecContext(ctx, "SAVEPOINT "+doMark, nil); err != nil {
		return fmt.Errorf("set a savepoint: %w", err)
	}
	g.marked = true
	return nil
}

// unmark releases the savepoint, and reports that it was gone. Only statements of the
// fence itself may come between it and COMMIT.
func (g *guard) unmark(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(); err != nil {
		return err
	}
	err := g.release(ctx)
	g.note(err)
	return err
}

// release is unmark with the mutex held.
func (g *guard) release(ctx context.Context) error {
	execer, ok := g.raw.(driver.ExecerContext)
	if !g.marked || !ok {
		return nil
	}
	_, err := execer.ExecContext(ctx, "RELEASE SAVEPOINT "+doMark, nil)
	g.marked = g.marked && err != nil // it may not have been sent
	if code, isSQLite := sqliteCode(err); mysqlerr.Number(err) == mysqlerr.NoSavepoint || isSQLite && code == sqliteError {
		g.marked, g.escaped = false, true
		return errEscaped
	}
	return err
}

// kept looks for the savepoint before a ROLLBACK. If the server itself has rolled
// the transaction back, it says nothing.
func (g *guard) kept() {
	switch mysqlerr.Number(g.broken) {
	case mysqlerr.Deadlock, mysqlerr.LockTableFull, mysqlerr.RecordChanged:
		return
	}
	if g.broken != nil && !g.implicit { // SQLite rolls back at many errors, and when it is interrupted
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.bound)
	defer cancel()
	_ = g.release(ctx) // without an answer, the connection's end rolls back what is open
}

// settle rolls back what the end of the context has not yet, and reports that
// the transaction had been ended before.
func (g *guard) settle() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in {
		_ = (&guardTx{g, g.tx}).rollback()
	}
	if g.escaped {
		return errEscaped
	}
	return nil
}

// look is called before a statement. What it returns is called with the
// statement's error once that has ended, and finds out whether the transaction
// is still the same one.
func (g *guard) look(ctx context.Context, text string) (func(error) error, error) {
	nothing := func(err error) error { return err }
	name, hidden := unseen(text)
	execer, ok := g.raw.(driver.ExecerContext)
	if !g.in || !hidden || !ok {
		return nothing, nil
	}
	if _, err := execer.ExecContext(ctx, "SAVEPOINT "+g.savepoint(), nil); err != nil {
		return nil, fmt.Errorf("set a savepoint before %s: %w", name, err)
	}
	return func(err error) error {
		if damageOf(err) == halfOrNoMore {
			return err
		}
		if _, gone := execer.ExecContext(ctx, "RELEASE SAVEPOINT "+g.savepoint(), nil); gone != nil {
			return &endedError{name, err}
		}
		return err
	}, nil
}
