package mysqlconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
)

// writableFor is how long a connection of a pool with several hosts is used after
// its server said that it takes writes, before it is asked again: it may have been
// demoted, and still answers sessions that only read, and those whose privileges
// let them write all the same.
const writableFor = 1 * time.Second

// Conn is one connection with the pool's settings, which never goes back into a
// [sql.DB].
type Conn struct {
	Number uint64 // never used twice by a process
	Server Server
	conn   *sql.Conn
	asked  time.Time // when its server took writes; guarded by the slot's turn

	session *session
}

var numbers atomic.Uint64

// setUp sets the connection's settings and reads them and the server's back. Statements of one
// connection that reach different sessions find different marks.
func setUp(ctx context.Context, conn *sql.Conn, session *session, lockWait time.Duration) (Server, error) {
	for i, statement := range SessionStatements(lockWait, session.mark) {
		_, err := conn.ExecContext(ctx, statement)
		if statement == rollback && mysqlerr.Number(err) == mysqlerr.NodeNotReady {
			session.unready, err = true, nil // it refuses all else that writes, too, and says why
		}
		if err != nil {
			return Server{}, err
		}
		hearingOf(ctx).note() // for a pool of the caller
		if i > 0 {
			continue
		}
		if err := session.identify(ctx, conn); err != nil { // first, with a character set that is known
			return Server{}, err
		}
	}
	s, err := readServer(ctx, conn)
	if err != nil {
		return Server{}, err
	}
	if s.mark != session.mark {
		return Server{}, errShared
	}
	session.server = s.Identity
	if err := s.checkSession(); err != nil {
		return Server{}, err
	}
	if s.variables[snapshotIsolation] == "ON" {
		// Also in READ COMMITTED, a statement that reads and then locks fails when
		// the row changed in between.
		if _, err := conn.ExecContext(ctx, latestRows); err != nil {
			return Server{}, err
		}
	}
	if s.IsGalera() {
		if _, err := conn.ExecContext(ctx, setGalera); err != nil {
			return Server{}, err
		}
	}
	return s, nil
}

// errShared is of a proxy that gives the statements of one connection different
// sessions.
var errShared = fmt.Errorf("%w: the statements of one connection reach different sessions: connect to the server itself, or make what is in between keep a session for each connection (in ProxySQL, multiplexing off for this user)",
	lease.ErrSetup)

// SessionStatements make a session what those of the pool are. The mark tells one
// session from another.
func SessionStatements(lockWait time.Duration, mark string) []string {
	return []string{setNames, setSession.Render(seconds(lockWait), seconds(lockWait), mark), rollback}
}

// LockName is a user-level lock that the connection's session has, and no other one.
func (c *Conn) LockName() string { return c.session.lock() }

func seconds(d time.Duration) int { return int(d / time.Second) }

// Discard closes the connection for good.
func (c *Conn) Discard() {
	// The pool closes what it is told is bad. It can say nothing of interest:
	// the connection may be closed already.
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.conn.Close()
}

// Alive reports whether the server has kept its end of an idle connection. It
// sends nothing: the driver looks at the socket.
func (c *Conn) Alive(ctx context.Context) bool {
	err := c.conn.Raw(func(c any) error {
		if r, ok := c.(driver.SessionResetter); ok {
			return r.ResetSession(ctx)
		}
		return nil
	})
	return err == nil
}

// writable reports whether the server takes writes, and is still the only one of its group if it was, as far as it was asked or
// is asked now.
func (c *Conn) writable(ctx context.Context) bool {
	now := time.Now()
	if now.Sub(c.asked) < writableFor {
		return true
	}
	query, settings := readOnlySettings, ""
	switch {
	case c.Server.IsGalera():
		query = whyUnfit
	case c.Server.isSinglePrimary():
		query = noPrimary
	}
	if err := c.conn.QueryRowContext(ctx, query).Scan(&settings); err != nil || settings != "" {
		return false
	}
	c.asked = now
	return true
}

// Exec runs a statement.
func (c *Conn) Exec(ctx context.Context, statement string) error {
	_, err := c.conn.ExecContext(ctx, statement)
	return err
}

// ExecAll runs statements one after the other, up to the first error.
func (c *Conn) ExecAll(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Changed runs a statement and returns how many rows it changed.
func (c *Conn) Changed(ctx context.Context, statement string) (int, error) {
	result, err := c.conn.ExecContext(ctx, statement)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Change is what a statement did.
type Change struct {
	Rows   int
	LastID int64
}

// Change runs a statement and returns what it did.
func (c *Conn) Change(ctx context.Context, statement string) (Change, error) {
	result, err := c.conn.ExecContext(ctx, statement)
	if err != nil {
		return Change{}, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return Change{}, err
	}
	last, err := result.LastInsertId()
	return Change{int(n), last}, err
}

// Query runs a query.
func (c *Conn) Query(ctx context.Context, query string) (*sql.Rows, error) {
	return c.conn.QueryContext(ctx, query)
}

// QueryRow runs a query whose answer is one row.
func (c *Conn) QueryRow(ctx context.Context, query string) *sql.Row {
	return c.conn.QueryRowContext(ctx, query)
}

// Count runs a query whose answer is one number.
func (c *Conn) Count(ctx context.Context, query string) (int, error) {
	var n int
	err := c.conn.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}
