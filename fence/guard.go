package fence

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/sqlverb"
)

// Guard returns a connector whose transactions are refused further statements,
// and their COMMIT, once the database has rolled them back or a part of them,
// or their connection is lost; see [ErrBroken]. They are those of [sql.DB.BeginTx];
// a BEGIN that is sent as a statement is not seen. [Do] needs no guard, it
// brings its own; with it, [Commit] is as safe.
//
//	connector, err := mysql.NewConnector(config)
//	db := sql.OpenDB(fence.Guard(connector))
//
// A connector that traces statements goes around the guard, as in
// otelsql.OpenDB(fence.Guard(connector)): the guard has to see the driver itself.
//
// Within a transaction it also refuses statements that would end it: COMMIT and
// the like, and on MySQL and MariaDB those that commit implicitly, such as CREATE
// TABLE. It cannot see beforehand what a stored procedure, a prepared statement of
// SQL (EXECUTE) or several statements sent as one do to the transaction, and checks
// afterwards: if they have ended it, what came before is stored, and [ErrUnfenced]
// says so. If one of them goes back to a savepoint from before it, the transaction's
// savepoints are gone after it.
func Guard(c driver.Connector) driver.Connector { return &guarded{c} }

// guarded is the connector of [Guard].
type guarded struct{ driver.Connector }

// Connect implements [driver.Connector].
func (c *guarded) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	g := &guard{raw: raw, bound: defaultBound}
	switch c.Driver().(type) {
	case *mysql.MySQLDriver, mysql.MySQLDriver:
		g.implicit = true
	}
	return g, nil
}

// guard is a connection that remembers what has broken its transaction.
type guard struct {
	raw      driver.Conn
	implicit bool // some statements commit implicitly
	postgres bool // only of [Do]

	// Only of [Do]. commit carries out a COMMIT and undo a ROLLBACK; nil: the
	// driver does. kill ends statements whose context has ended; nil: the driver
	// leaves them to the server.
	fenced bool
	commit func() error
	undo   func() error
	kill   *killer

	bound time.Duration // of a look whether the transaction is still there, once its context has ended

	mu      sync.Mutex // held while raw is used
	left    bool       // raw was given back
	in      bool       // a transaction is open
	broken  error      // what has broken it
	allowed bool       // COMMIT, of a fenced one
	sent    bool       // its COMMIT was sent
	tx      driver.Tx  // the one that is open
	marked  bool       // it has its first savepoint
	limited bool       // the session has what a check has set
	bad     bool       // the connection is not to be used again
}

var (
	_ driver.ConnBeginTx        = (*guard)(nil)
	_ driver.ConnPrepareContext = (*guard)(nil)
	_ driver.ExecerContext      = (*guard)(nil)
	_ driver.NamedValueChecker  = (*guard)(nil)
	_ driver.Pinger             = (*guard)(nil)
	_ driver.QueryerContext     = (*guard)(nil)
	_ driver.SessionResetter    = (*guard)(nil)
	_ driver.Validator          = (*guard)(nil)
)

var (
	errLeft      = errors.New("fence: used after the function that was given it has returned")
	errDoCommits = errors.New("fence: Do commits: return nil from the function to commit, and an error to roll back")
	errOpen      = errors.New("fence: begin within a transaction: the database would end the one that is open without its check")
)

// send is the one way of a text to the server: it calls f, unless the transaction is
// broken or the text would end it, and notes what has become of the transaction. An
// empty text is that of what is no statement.
func (g *guard) send(text string, f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.refusal()
	if err == nil {
		err = g.forbidden(text)
	}
	if err != nil {
		return err
	}
	err = f()
	g.note(err)
	return err
}

// run is send for what executes a statement: one with a text of its own, or one that
// was prepared, inside of this transaction or before it. f returns rows for a query.
func (g *guard) run(ctx context.Context, text string, f func(context.Context) (driver.Rows, error)) (rows driver.Rows, err error) {
	err = g.send(text, func() error {
		if text == commitStatement {
			if err := g.lost(); err != nil {
				return err
			}
		}
		looked, err := g.look(ctx, text)
		if err != nil {
			return err
		}
		ctx, end := g.kill.watch(ctx)
		raw, err := f(ctx)
		if err == nil && raw != nil {
			rows = &guardRows{raw: raw, g: g, text: text, end: end, looked: looked}
			return nil
		}
		err = looked(end(err))
		g.doubt(ctx, text, err)
		switch {
		case strings.HasPrefix(text, limitStatement):
			g.limited = true
		case err != nil:
		case isOwnEnd(text):
			g.in = false
		case strings.HasPrefix(text, restoreStatement):
			g.limited = false
		}
		return err
	})
	return rows, err
}

// What follows is called with the mutex held.

func (g *guard) refusal() error {
	switch {
	case g.left:
		return errLeft
	case g.in && g.broken != nil:
		return broken(g.broken)
	}
	return nil
}

// forbiddenError is of a statement that was not sent.
type forbiddenError struct{ text string }

func (e *forbiddenError) Error() string { return e.text }

// forbidden reports a statement that would end the transaction.
func (g *guard) forbidden(text string) error {
	switch {
	case g.fenced && (text == beginProbe || text == sqliteProbe || text == openProbe): // of Commit
		return errDoCommits
	case !g.in, text == "", !g.fenced && isOwnEnd(text): // these are Commit's own
		return nil
	}
	switch effect, words := sqlverb.Of(text); {
	case effect == sqlverb.Controls:
		return &forbiddenError{fmt.Sprintf("fence: %s within a transaction: it would end the transaction without its check", words)}
	case effect == sqlverb.Commits && g.implicit:
		return &forbiddenError{fmt.Sprintf("fence: %s within a transaction: the server would commit what came before it", words)}
	}
	return nil
}

// lost looks at the connection before COMMIT is sent: if the database has closed
// it, that is better known before than after.
func (g *guard) lost() error {
	if g.postgres { // pgx takes a connection with a transaction for lost
		return nil
	}
	if r, ok := g.raw.(driver.SessionResetter); ok {
		return r.ResetSession(context.Background())
	}
	return nil
}

func (g *guard) note(err error) {
	var mine *forbiddenError
	switch {
	case g.in && errors.Is(err, ErrUnfenced): // also after another error: it says more
		g.broken = err
		return
	case !g.in, g.broken != nil, errors.As(err, &mine):
		return
	}
	switch damageOf(err) {
	case halfOrNoMore:
		g.broken = err
	case unclear:
		if g.isOver() {
			g.broken = err
		}
	}
}

// isOver asks SQLite whether the transaction is over, which some errors do and
// some do not, by trying to begin another.
func (g *guard) isOver() bool {
	execer, ok := g.raw.(driver.ExecerContext)
	if !ok {
		return true
	}
	_, err := execer.ExecContext(context.Background(), sqliteProbe, nil)
	if err == nil {
		if _, err = execer.ExecContext(context.Background(), sqliteProbeCleanUp, nil); err != nil {
			g.bad = true
		}
		return true
	}
	code, ok := sqliteCode(err)
	return !ok || code != sqliteError
}

// unfenced is what has ended the transaction without its check; nil: nothing has.
func (g *guard) unfenced() error {
	if errors.Is(g.broken, ErrUnfenced) {
		return g.broken
	}
	return nil
}

// leave gives the connection back: whatever still wants to use it is refused.
func (g *guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = true
}

// guardState is what Do asks at the end.
type guardState struct {
	open   bool  // the transaction is
	broken error // what has broken it
	sent   bool  // its COMMIT was sent
	usable bool  // the connection is
}

func (g *guard) state() guardState {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.raw.(driver.Validator)
	return guardState{g.in, g.broken, g.sent, !g.bad && (!ok || v.IsValid())}
}

// allow lets the transaction commit.
func (g *guard) allow(commit func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allowed, g.commit = true, commit
}

// BeginTx implements [driver.ConnBeginTx].
func (g *guard) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.left:
		return nil, errLeft
	case g.in:
		return nil, errOpen
	}
	var tx driver.Tx
	var err error
	if b, ok := g.raw.(driver.ConnBeginTx); ok {
		tx, err = b.BeginTx(ctx, o)
	} else if o.Isolation != driver.IsolationLevel(sql.LevelDefault) || o.ReadOnly {
		err = errors.New("fence: the driver has neither isolation levels nor read-only transactions")
	} else {
		tx, err = g.raw.Begin() //nolint:staticcheck // older drivers have nothing else
	}
	if err != nil {
		return nil, err
	}
	g.in, g.broken, g.sent, g.tx, g.marked = true, nil, false, tx, false
	return &guardTx{g, tx}, nil
}

// guardTx is a transaction of a guard.
type guardTx struct {
	g   *guard
	raw driver.Tx
}

// Commit implements [driver.Tx].
func (t *guardTx) Commit() error {
	g := t.g
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.refusal()
	switch {
	case err != nil || !g.fenced:
	case !g.allowed:
		err = errDoCommits
	default:
		err = g.lost()
	}
	if err != nil {
		_ = t.rollback() // why counts, and that may say more now
		return cmp.Or(g.unfenced(), err)
	}
	g.in, g.sent = false, true
	if g.commit != nil {
		err = g.commit()
	} else {
		err = t.raw.Commit()
	}
	g.bad = g.bad || err != nil
	return err
}

// Rollback implements [driver.Tx]. A statement that had ended the transaction may be noticed as late as when its rows are closed,
// which database/sql does before it calls this.
func (t *guardTx) Rollback() error {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	if t.g.left {
		return errLeft
	}
	err := t.rollback()
	return cmp.Or(t.g.unfenced(), err) // it could not undo all
}

func (t *guardTx) rollback() error {
	if t.g.left {
		t.g.in = false
		return nil
	}
	if t.g.in {
		t.g.kept()
	}
	t.g.in = false
	t.g.bad = t.g.bad || t.g.limited // database/sql has not let the fence restore it
	undo := t.g.undo
	if undo == nil {
		undo = t.raw.Rollback
	}
	err := undo()
	if _, isSQLite := sqliteCode(err); isSQLite && t.g.broken != nil {
		return nil //nolint:nilerr // SQLite has rolled it back before
	}
	t.g.bad = t.g.bad || err != nil // it may still be open
	return err
}

// Begin implements [driver.Conn].
func (g *guard) Begin() (driver.Tx, error) {
	return g.BeginTx(context.Background(), driver.TxOptions{})
}

// Close implements [driver.Conn].
func (g *guard) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left || g.fenced { // it is not Do's to close
		return nil
	}
	return g.raw.Close()
}

// Prepare implements [driver.Conn].
func (g *guard) Prepare(query string) (driver.Stmt, error) {
	return g.PrepareContext(context.Background(), query)
}

// PrepareContext implements [driver.ConnPrepareContext].
func (g *guard) PrepareContext(ctx context.Context, query string) (stmt driver.Stmt, err error) {
	err = g.send(query, func() error {
		var raw driver.Stmt
		if p, ok := g.raw.(driver.ConnPrepareContext); ok {
			raw, err = p.PrepareContext(ctx, query)
		} else {
			raw, err = g.raw.Prepare(query)
		}
		if err == nil {
			stmt = &guardStmt{raw: raw, g: g, text: query}
		}
		return err
	})
	return stmt, err
}

// ExecContext implements [driver.ExecerContext].
func (g *guard) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	execer, ok := g.raw.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip // database/sql prepares it
	}
	_, err = g.run(ctx, query, func(ctx context.Context) (driver.Rows, error) {
		result, err = execer.ExecContext(ctx, query, args)
		return nil, err
	})
	return result, err
}

// QueryContext implements [driver.QueryerContext].
func (g *guard) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	queryer, ok := g.raw.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return g.run(ctx, query, func(ctx context.Context) (driver.Rows, error) {
		return queryer.QueryContext(ctx, query, args)
	})
}

// CheckNamedValue implements [driver.NamedValueChecker]. It is the driver's
// part that sends nothing.
func (g *guard) CheckNamedValue(v *driver.NamedValue) error {
	if c, ok := g.raw.(driver.NamedValueChecker); ok {
		return c.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// Ping implements [driver.Pinger].
func (g *guard) Ping(ctx context.Context) error {
	p, ok := g.raw.(driver.Pinger)
	if !ok {
		return nil
	}
	return g.send("", func() error { return p.Ping(ctx) })
}

// ResetSession implements [driver.SessionResetter].
func (g *guard) ResetSession(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left || g.bad {
		return driver.ErrBadConn
	}
	if r, ok := g.raw.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid implements [driver.Validator].
func (g *guard) IsValid() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left || g.bad {
		return false
	}
	v, ok := g.raw.(driver.Validator)
	return !ok || v.IsValid()
}
