package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/store"
)

// Do runs fn in a transaction of db that is committed only if what ctx is held
// under is still this process's at that moment: the group's lease for a job or
// a leading function, and each lock that it holds. db may be any pool of the
// database that keeps them, whatever it is set to.
//
// When fn returns nil, the holds are checked and the transaction is committed; an
// error of fn rolls it back and is returned, with why ctx has ended if it has; a
// panic rolls it back and goes on. fn neither commits nor rolls back itself, does
// not keep tx, and is called once at most. tx is of a pool of its own: it refuses
// statements that were prepared on db ([sql.Tx.Stmt]); prepare them on tx.
//
// Errors of Do itself match [ErrFenced], [ErrBroken], [ErrUnfenced], [ErrUnknown] or
// [ErrNoHold], or are the server's answer to what was asked. Only after ErrUnfenced and
// ErrUnknown something may be stored. When ctx ends, the transaction is rolled back, and the error is its
// cause, and ErrFenced too if the term is over; a COMMIT that was sent is
// awaited for as long as [WithBound] says.
func Do(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error, options ...Option) error {
	switch {
	case db == nil:
		return errors.New("fence: Do: the pool is nil")
	case fn == nil:
		return errors.New("fence: Do: the function is nil")
	}
	f, err := newFence(ctx, options)
	if err != nil {
		return err
	}
	// The pool may have idle connections that are dead. This many is what
	// database/sql tries.
	for attempt := 0; ; attempt++ {
		if err := ended(ctx, f.holds); err != nil {
			return err
		}
		begun, err := f.once(ctx, db, fn)
		if begun || attempt == 3 || !errors.Is(err, driver.ErrBadConn) {
			return err
		}
	}
}

// once runs the transaction on one connection of the pool.
func (f *fence) once(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) (begun bool, err error) {
	waits := usedUp(db)
	conn, err := db.Conn(ctx)
	if err != nil {
		err = f.explain(ctx, fmt.Errorf("connect: %w", err))
		if ctx.Err() != nil && (waits || usedUp(db)) {
			err = fmt.Errorf("%w: it waited for a connection, and others had all of the pool (%d): raise pool_size of the database's URL or DSN, or SetMaxOpenConns, or let less run at once",
				err, db.Stats().MaxOpenConnections)
		}
		return false, err
	}
	defer conn.Close()
	raw := conn.Raw(func(c any) error {
		dc, ok := c.(driver.Conn)
		if !ok {
			err = fmt.Errorf("fence: the pool's connection is a %T, no driver.Conn", c)
			return nil
		}
		var usable bool
		begun, usable, err = f.transaction(ctx, db, dc, fn)
		if !usable || f.close {
			return driver.ErrBadConn // the pool closes it
		}
		return nil
	})
	if err == nil && !begun { // the connection was lost before
		err = f.explain(ctx, raw)
	}
	return begun, err
}

// usedUp reports whether the pool has a limit, and no connection left.
func usedUp(db *sql.DB) bool {
	s := db.Stats()
	return s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
}

// transaction runs the transaction on a connection, and reports whether the
// connection can be used again.
func (f *fence) transaction(ctx context.Context, pool *sql.DB, dc driver.Conn, fn func(*sql.Tx) error) (begun, usable bool, err error) {
	k, err := f.newKiller(ctx, dc, pool)
	if err != nil {
		return false, false, f.explain(ctx, fmt.Errorf("begin: %w", err))
	}
	g := &guard{raw: dc, fenced: true, implicit: f.dialect == store.MySQL, postgres: f.dialect == store.PostgreSQL, kill: k, bound: f.bound}
	if execer, ok := dc.(driver.ExecerContext); ok && f.dialect != store.SQLite {
		g.undo = func() error { return rollBack(execer, f.rollbackStatement(), f.bound) }
	}
	db := sql.OpenDB(newSingle(g))
	db.SetMaxOpenConns(1)
	// In this order: what the end of ctx has set going must not reach the
	// connection once the pool has it again.
	defer db.Close()
	defer g.leave()

	tx, err := db.BeginTx(ctx, f.tx)
	if err != nil {
		return false, false, f.explain(ctx, fmt.Errorf("begin: %w", err))
	}
	returned := false
	defer func() {
		if !returned { // it panicked
			_ = tx.Rollback()
		}
	}()
	if err := g.mark(ctx); err != nil {
		return false, false, f.explain(ctx, fmt.Errorf("begin: %w", err))
	}
	err = fn(tx)
	returned = true
	if err != nil && strings.Contains(err.Error(), "Tx.Stmt: statement from different database") { // which database/sql has no value for
		err = fmt.Errorf("%w: the transaction of fence.Do is of a pool of its own: prepare the statement with tx.PrepareContext", err)
	}
	if err != nil {
		done := tx.Rollback() == nil
		if gone := g.settle(); gone != nil {
			if !errors.Is(err, gone) {
				gone = fmt.Errorf("%w: %w", gone, err)
			}
			return true, false, f.explain(ctx, gone)
		}
		if over := ended(ctx, f.holds); over != nil && !errors.Is(err, ErrFenced) {
			err = fmt.Errorf("%w: %w", over, err) // over may well be the cause of err
		}
		return true, done && g.state().usable && f.unmark(ctx, db, k), err
	}
	switch state := g.state(); {
	case state.broken != nil:
		err = broken(state.broken)
	case !state.open:
		err = errDoCommits // or the end of ctx has ended it, which goes first
	default:
		err = g.unmark(ctx)
		if err == nil {
			err = f.check(ctx, tx)
		}
		if err == nil {
			err = f.paused()
		}
	}
	if err != nil {
		_ = tx.Rollback() // or the end of its connection does it
		if gone := g.settle(); gone != nil {
			err = gone
		}
		return true, false, f.explain(ctx, err)
	}
	if err := f.commit(ctx, tx, g); err != nil {
		return true, false, err
	}
	return true, f.restore(ctx, db, k), nil
}

// rollBack ends a transaction whose outcome nothing waits for: the driver's own
// Rollback waits for an answer without a limit, and undoing much takes long.
func rollBack(execer driver.ExecerContext, statement string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err := execer.ExecContext(ctx, statement, nil)
	return err
}

// commitStatement and rollbackStatement are those of the database.
func (f *fence) commitStatement() string {
	if f.dialect == store.PostgreSQL {
		return postgresCommit
	}
	return commitStatement
}

func (f *fence) rollbackStatement() string {
	if f.dialect == store.PostgreSQL {
		return postgresRollback
	}
	return rollbackStatement
}

// isOwnEnd reports whether a text is one of those that end a transaction, of any database.
func isOwnEnd(text string) bool {
	switch text {
	case commitStatement, rollbackStatement, postgresCommit, postgresRollback:
		return true
	}
	return false
}

// commit ends a transaction that was checked.
func (f *fence) commit(ctx context.Context, tx *sql.Tx, g *guard) error {
	longer, cancel := outlast(ctx, f.bound)
	defer cancel()
	var commit func() error
	if execer, ok := g.raw.(driver.ExecerContext); ok && f.dialect != store.SQLite {
		// The driver's own Commit waits for an answer without a limit, or goes by the context of the transaction.
		commit = func() error {
			_, err := execer.ExecContext(longer, f.commitStatement(), nil)
			return err
		}
	}
	g.allow(commit)
	err := tx.Commit()
	if err == nil {
		return nil
	}
	if g.state().sent && !isRefusal(err) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	_ = tx.Rollback()
	return f.explain(ctx, err)
}

// restore undoes what check and newKiller have set on the connection, and
// reports whether it has.
func (f *fence) restore(ctx context.Context, db *sql.DB, k *killer) bool {
	return f.dialect != store.MySQL || f.set(ctx, db, restoreStatement+k.unmark())
}

// unmark undoes what newKiller has set, before check has set anything.
func (f *fence) unmark(ctx context.Context, db *sql.DB, k *killer) bool {
	return k == nil || f.set(ctx, db, `SET @cronlease_mark = NULL`+k.unmark())
}

func (f *fence) set(ctx context.Context, db *sql.DB, statement string) bool {
	if f.close {
		return true // all of the session ends
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := db.ExecContext(ctx, statement)
	return err == nil
}

// single is the connector of a pool of one connection.
type single struct{ conn atomic.Pointer[guard] }

func newSingle(g *guard) *single {
	s := &single{}
	s.conn.Store(g)
	return s
}

// Connect implements [driver.Connector]. After the first time, the connection
// was found to be dead.
func (s *single) Connect(context.Context) (driver.Conn, error) {
	if g := s.conn.Swap(nil); g != nil {
		return g, nil
	}
	return nil, driver.ErrBadConn
}

// Driver implements [driver.Connector].
func (s *single) Driver() driver.Driver { return none{} }

// none is the driver of such a pool, which opens no other connections.
type none struct{}

// Open implements [driver.Driver].
func (none) Open(string) (driver.Conn, error) { return nil, driver.ErrBadConn }
