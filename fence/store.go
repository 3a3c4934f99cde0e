package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// The statements that a fence sends to MySQL and MariaDB.
const (
	// beginProbe is answered by the error 1568 within a transaction, and by
	// nothing else: neither server tells it otherwise to a user without
	// privileges. Outside of one it changes nothing that matters.
	beginProbe = `SET TRANSACTION READ WRITE`
	// limitStatement, and a number, has the server end a session that says nothing for so
	// many seconds, and remembers what it was before. Within a transaction MariaDB goes
	// by one of three other limits, unless they are 0. A ROLLBACK ends the session meanwhile
	// (2 is RELEASE): when the context of its transaction ends, database/sql sends one and gives
	// the session back to the pool, which restoreStatement then does not reach any more.
	limitStatement = `SET @cronlease_wait_timeout = @@SESSION.wait_timeout` +
		`, @cronlease_completion = @@SESSION.completion_type, SESSION completion_type = 2` +
		`/*M!100300 , @cronlease_idle = @@SESSION.idle_transaction_timeout, SESSION idle_transaction_timeout = 0` +
		`, @cronlease_idle_write = @@SESSION.idle_write_transaction_timeout, SESSION idle_write_transaction_timeout = 0` +
		`, @cronlease_idle_read = @@SESSION.idle_readonly_transaction_timeout, SESSION idle_readonly_transaction_timeout = 0 */` +
		`, SESSION wait_timeout = `
	restoreStatement = `SET SESSION wait_timeout = @cronlease_wait_timeout, SESSION completion_type = @cronlease_completion` +
		`/*M!100300 , SESSION idle_transaction_timeout = @cronlease_idle, SESSION idle_write_transaction_timeout = @cronlease_idle_write` +
		`, SESSION idle_readonly_transaction_timeout = @cronlease_idle_read */`
	// Whatever the session's completion_type is, a transaction is not followed by
	// another or by the end of the session.
	commitStatement   = `COMMIT AND NO CHAIN NO RELEASE`
	rollbackStatement = `ROLLBACK AND NO CHAIN NO RELEASE`
)

// errPaused is of a process that stood still for the bound. Its session is over,
// or about to be.
var errPaused = errors.New("the process stood still after its check: COMMIT was not sent")

// fence is what one transaction is fenced with.
type fence struct {
	settings
	checked time.Time // when the last check was sent
	holds   []lease.Hold
	stores  []store.Fences // of the holds
	dialect store.Dialect
}

// newFence takes the holds of ctx. All transactions check them in the same order,
// so that no two wait for each other.
func newFence(ctx context.Context, options []Option) (*fence, error) {
	f := &fence{settings: settings{bound: defaultBound}, holds: lease.Holds(ctx)}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("fence: option %d is nil", i+1)
		}
		option(&f.settings)
	}
	if f.bound < time.Second || f.bound > maxBound || f.bound%time.Second != 0 {
		return nil, fmt.Errorf("fence: WithBound(%v): must be whole seconds from %v to %v", f.bound, time.Second, maxBound)
	}
	if f.kill && f.killWait <= 0 {
		return nil, fmt.Errorf("fence: WithKill: wait %v: must be more than 0", f.killWait)
	}
	if len(f.holds) == 0 {
		return nil, ErrNoHold
	}
	slices.SortStableFunc(f.holds, func(a, b lease.Hold) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	for _, h := range f.holds {
		s, ok := h.Store.(store.Fences)
		if !ok {
			return nil, fmt.Errorf("fence: what is held on %q is kept in %T, which keeps no rows in an SQL database: hand its token to what you write to, and let it refuse older ones", h.Name, h.Store)
		}
		dialect := s.FenceDialect()
		if f.dialect != 0 && dialect != f.dialect {
			return nil, fmt.Errorf("fence: %q and %q are held in databases of different kinds: one transaction cannot check both", f.holds[0].Name, h.Name)
		}
		f.stores, f.dialect = append(f.stores, s), dialect
	}
	return f, nil
}

// check compares every hold with the database, in the transaction. After nil, no
// other process can take the leases and locks before the transaction ends, and if
// this process stands still, the database ends it after the bound.
func (f *fence) check(ctx context.Context, tx store.Querier) error {
	// First, so that there is no moment in which a row is locked without it.
	switch f.dialect {
	case store.MySQL:
		if _, err := tx.ExecContext(ctx, limitStatement+strconv.Itoa(int(f.bound/time.Second))); err != nil {
			return fmt.Errorf("set wait_timeout: %w", err)
		}
	case store.PostgreSQL:
		if _, err := tx.ExecContext(ctx, idleStatement+strconv.Itoa(int(f.bound/time.Millisecond))); err != nil {
			return fmt.Errorf("set idle_in_transaction_session_timeout: %w", err)
		}
	}
	for i, h := range f.holds {
		f.checked = time.Now()
		held, err := f.stores[i].CheckHold(ctx, tx, h)
		if err != nil {
			return err
		}
		if !held {
			return &FencedError{Hold: h}
		}
	}
	return nil
}

// paused reports that this process has said nothing for as long as the server
// waits for it, by whichever clock says more. It counts from before the last check,
// since it may have been paused before it read the answer.
func (f *fence) paused() error {
	now := time.Now()
	if f.dialect != store.SQLite && max(now.Sub(f.checked), now.Round(0).Sub(f.checked.Round(0))) >= f.bound {
		return errPaused
	}
	return nil
}

// explain makes an error of the transaction, none of which is stored, one of
// this package. It is called once the transaction has ended.
func (f *fence) explain(ctx context.Context, err error) error {
	if errors.Is(err, ErrUnfenced) { // something may be stored, with or without the term
		return ctxerr.With(ctx, err)
	}
	var fenced *FencedError
	if over := ended(ctx, f.holds); over != nil {
		// What the end of ctx did to the transaction is of less interest.
		if !errors.As(over, &fenced) || fenced.Cause != nil {
			return over
		}
		return f.nameNext(ctx, fenced)
	}
	if errors.As(err, &fenced) {
		return f.nameNext(ctx, fenced)
	}
	switch {
	case errors.Is(err, ErrBroken):
	case errors.Is(err, errDoCommits):
		return err
	case errors.Is(err, lease.ErrSetup), damageOf(err) == noDamage:
		return fmt.Errorf("fence: %w", err) // the answer says what is wrong
	default:
		err = broken(err)
	}
	// It may have been a takeover that was in the way.
	for _, h := range f.holds {
		if next := f.nameNext(ctx, &FencedError{Hold: h}); next.Token > h.Token {
			return next
		}
	}
	return err
}

// nameNext finds out which owner holds a lease now, if the database answers soon.
func (f *fence) nameNext(ctx context.Context, e *FencedError) *FencedError {
	leases, ok := e.Hold.Store.(store.Leases)
	if !ok || e.Hold.Kind != lease.HoldLease {
		return e
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	readings, err := leases.Read(ctx, e.Hold.Name)
	if err != nil || readings[0].Fence == nil {
		return e
	}
	if now := readings[0].Fence; now.Token != e.Hold.Token || now.Owner != e.Hold.Owner {
		e.Owner, e.Token = now.Owner, now.Token
	}
	return e
}

// outlast returns a context that ends a while after ctx: a COMMIT that was sent
// is worth an answer.
func outlast(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, func() { cancel(context.Cause(ctx)) }) })
	return longer, func() {
		stop()
		cancel(nil)
	}
}
