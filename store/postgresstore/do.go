package postgresstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cronlease/cronlease/internal/sqlverb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/fencing"
)

var (
	// ErrFenced says that the holder has been replaced, or that its term is over: nothing of the transaction is stored.
	ErrFenced = errors.New("postgresstore: refused: the term is over")

	// ErrBroken says that the transaction could not be taken to its end, and why. Nothing of it is stored, and it may be tried
	// again as a whole, under the same hold.
	ErrBroken = errors.New("postgresstore: broken transaction")

	// ErrUnfenced says that something has ended the transaction without its check: [pgx.Tx.Conn], or what was sent over
	// it. What came before that may be stored, also by a holder that was replaced.
	ErrUnfenced = errors.New("postgresstore: transaction ended without its check")

	// ErrUnknown says that the answer to COMMIT was lost: the transaction is stored as a whole or not at all, and only its
	// rows can tell which. If it is stored, that happened before the next holder's term.
	ErrUnknown = errors.New("postgresstore: the outcome of COMMIT is unknown")

	// ErrNoHold says that the context carries neither a lease nor a lock, so that there is no token to fence with.
	ErrNoHold = errors.New("postgresstore: the context is of no term's work: hand on the one that a job or a leading function was called with")

	errEnds = errors.New("postgresstore: Do ends the transaction: return an error to roll it back")
)

// The savepoint tells whether a transaction is still the one that Do has begun.
const (
	setMark     = "SAVEPOINT cronlease_fence"
	releaseMark = "RELEASE SAVEPOINT cronlease_fence"
	// doBound is how long a process that stands still between the check and the end of its transaction can hold up a takeover,
	// and how long Do waits for COMMIT.
	doBound = 2 * time.Second
)

// The codes of errors: https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	failedTransaction = "25P02"
	noTransaction     = "25P01"
	noSavepoint       = "3B001"
)

// Beginner is a pool of pgx, or a connection.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Do runs fn in a transaction of db, a pool or a connection of pgx, that is committed only if what ctx is held under is still
// this process's at that moment: the group's lease for a job or a leading function, the attempt of its run, and each lock that
// it holds. It is to pgx what fence.Do is to database/sql. All holds have to be kept in this store, and db leads to its database.
//
// When fn returns nil, the holds are checked and the transaction is committed; an error of fn rolls it back and is returned; a
// panic rolls it back and goes on. fn neither commits nor rolls back itself, does not keep tx, and is called once. Statements that
// would end the transaction are refused, and so are several in one text; [pgx.Tx.Begin] makes a savepoint.
//
// Errors of Do itself match [ErrFenced], [ErrBroken], [ErrUnfenced], [ErrUnknown] or [ErrNoHold], or are the server's answer.
// Only after ErrUnfenced and ErrUnknown something may be stored. A takeover waits for the time from the check to the end of the
// transaction, for up to two seconds if this process stands still there. When ctx ends, the transaction is rolled back; a COMMIT
// that was sent is awaited for two seconds. Do is safe for concurrent use.
func (s *Store) Do(ctx context.Context, db Beginner, fn func(tx pgx.Tx) error) (err error) {
	holds := lease.Holds(ctx)
	switch {
	case db == nil || fn == nil:
		return errors.New("postgresstore: Do: the pool or the function is nil")
	case len(holds) == 0:
		return ErrNoHold
	}
	for _, h := range holds {
		if of, ok := h.Store.(*Store); !ok || of != s {
			return fmt.Errorf("postgresstore: what is held on %q is kept in another store, a %T: call its Do, or hand its token to what you write to", h.Name, h.Store)
		}
	}
	if err := fencing.Ended(ctx, "postgresstore", holds, ErrFenced); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return fmt.Errorf("postgresstore: fenced transaction: begin: %w", err)
	}
	isOver := false
	defer func() {
		if isOver {
			return
		}
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), doBound)
		defer cancel()
		_ = tx.Rollback(soon) // else the end of its connection does it
	}()
	if _, err := tx.Exec(ctx, setMark); err != nil {
		return fmt.Errorf("postgresstore: fenced transaction: begin: %w", err)
	}
	g := guarded{Tx: tx}
	if err = fn(&g); err == nil {
		err = g.refused
	}
	if conn := tx.Conn().PgConn(); !conn.IsClosed() && conn.TxStatus() == 'I' {
		return both(ErrUnfenced, err)
	}
	if err == nil {
		err = s.checked(ctx, tx, holds)
	}
	if over := fencing.Ended(ctx, "postgresstore", holds, ErrFenced); over != nil && !errors.Is(err, ErrFenced) {
		return both(over, err)
	}
	if err != nil {
		return err
	}
	isOver = true
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), doBound)
	defer cancel()
	return ofCommit(tx.Commit(longer))
}

// both is one error and, if there is any, another.
func both(first, second error) error {
	if second == nil {
		return first
	}
	return fmt.Errorf("%w: %w", first, second)
}

// checked compares the holds with the database, in the transaction. After nil, no other process can take the leases and locks
// before the transaction ends, and if this process stands still, the server ends it.
func (s *Store) checked(ctx context.Context, tx pgx.Tx, holds []lease.Hold) error {
	switch _, err := tx.Exec(ctx, releaseMark); code(err) {
	case "":
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
	case failedTransaction:
		return fmt.Errorf("%w: a statement has failed, and the function returns no error: %w", ErrBroken, err)
	case noSavepoint, noTransaction:
		return fmt.Errorf("%w: %w", ErrUnfenced, err)
	default:
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	// First, so that there is no moment in which a row is locked without it.
	if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", doBound.Milliseconds())); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	checked := time.Now()
	for _, h := range holds {
		checked = time.Now()
		held, err := s.checkHold(h, func(query string, args ...any) scanner {
			return tx.QueryRow(ctx, query, append([]any{pgx.QueryExecModeExec}, args...)...)
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		if !held {
			return fencing.Refused(h, ErrFenced)
		}
	}
	// By whichever clock says more: a process that stood still may have been ended by the server.
	if now := time.Now(); max(now.Sub(checked), now.Round(0).Sub(checked.Round(0))) >= doBound {
		return fmt.Errorf("%w: this process stood still", ErrBroken)
	}
	return nil
}

// ofCommit is what the answer to COMMIT says.
func ofCommit(err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) != "": // as of a constraint that is deferred
		return fmt.Errorf("postgresstore: fenced transaction: %w", err)
	case errors.Is(err, pgx.ErrTxCommitRollback), pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// guarded is a transaction, or one nested in it, that refuses its end.
type guarded struct {
	pgx.Tx
	refused error // the first time; of the outermost
	outer   *guarded
}

// check refuses a text.
func (g *guarded) check(text string) error {
	controls, _, one := sqlverb.Postgres(text)
	switch {
	case controls != "":
		return g.refuse(fmt.Errorf("postgresstore: %s within a fenced transaction: it would end the transaction without its check", controls))
	case !one:
		return g.refuse(errors.New("postgresstore: several statements in one text: send each by itself within a fenced transaction"))
	}
	return nil
}

func (g *guarded) refuse(err error) error {
	of := g
	for of.outer != nil {
		of = of.outer
	}
	if of.refused == nil {
		of.refused = err
	}
	return err
}

// Begin implements [pgx.Tx].
func (g *guarded) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := g.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &guarded{Tx: tx, outer: g}, nil
}

// Commit implements [pgx.Tx].
func (g *guarded) Commit(ctx context.Context) error {
	if g.outer == nil {
		return g.refuse(errEnds)
	}
	return g.Tx.Commit(ctx)
}

// Rollback implements [pgx.Tx].
func (g *guarded) Rollback(ctx context.Context) error {
	if g.outer == nil {
		return g.refuse(errEnds)
	}
	return g.Tx.Rollback(ctx)
}

// Exec implements [pgx.Tx].
func (g *guarded) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	if err := g.check(text); err != nil {
		return pgconn.CommandTag{}, err
	}
	return g.Tx.Exec(ctx, text, args...)
}

// Query implements [pgx.Tx].
func (g *guarded) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	if err := g.check(text); err != nil {
		return nil, err
	}
	return g.Tx.Query(ctx, text, args...)
}

// QueryRow implements [pgx.Tx].
func (g *guarded) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	if err := g.check(text); err != nil {
		return refusedRow{err}
	}
	return g.Tx.QueryRow(ctx, text, args...)
}

type refusedRow struct{ err error }

func (r refusedRow) Scan(...any) error { return r.err }

// Prepare implements [pgx.Tx].
func (g *guarded) Prepare(ctx context.Context, name, text string) (*pgconn.StatementDescription, error) {
	if err := g.check(text); err != nil {
		return nil, err
	}
	return g.Tx.Prepare(ctx, name, text)
}

// SendBatch implements [pgx.Tx].
func (g *guarded) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		if err := g.check(q.SQL); err != nil {
			return refusedBatch{err: err}
		}
	}
	return g.Tx.SendBatch(ctx, b)
}

type refusedBatch struct {
	pgx.BatchResults
	err error
}

func (r refusedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, r.err }
func (r refusedBatch) Query() (pgx.Rows, error)         { return nil, r.err }
func (r refusedBatch) QueryRow() pgx.Row                { return refusedRow{r.err} }
func (r refusedBatch) Close() error                     { return r.err }
