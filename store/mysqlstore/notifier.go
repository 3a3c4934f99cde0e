package mysqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// notifier is a connection that sleeps until another client kills its statement
// (KILL QUERY, which needs no privilege among connections of one account). Its
// address is the server's identity and the name of a user-level lock that its
// session has, which is never used twice: so no other statement is killed. A
// connection's id would not do, because proxies have ids of their own.
//
// If the session turns out to be shared, as behind a proxy that shares sessions,
// the notifier is deaf: it has no address, and polls instead.
//
// On MariaDB it does not rest in SLEEP: two clients that kill that at the same
// moment block each other for 2 s (the sleeper has a mutex that the first one tries
// to take, and wants one that the second has). It waits for restLock instead, in
// GET_LOCK. A connection for readings has that lock: of the connections that there
// are anyway, these use no rows of locks, so none of them waits behind a change of
// that table that waits for the notifier. On MySQL, SLEEP has no such fault, and
// GET_LOCK takes whole seconds only.
type notifier struct {
	rows    *lockRows
	series  *mysqlconn.Series
	opening chan struct{} // of capacity 1; full while a connection is opened

	mu     sync.Mutex
	conn   *conn  // nil when there is none
	name   string // of its lock; empty when the notifier is deaf
	rests  bool   // the restLock is another connection's, or was
	closed bool
}

// Notifier implements [store.Notifiers]. It takes a connection of its own with the
// first Address or Wait. Waiters with another account, or on another node of a
// cluster, cannot be notified, and poll once a second.
func (l *lockRows) Notifier() store.Notifier {
	n := &notifier{rows: l, series: l.conns.NewSeries(mysqlconn.LockLockWait), opening: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns.Stopped() {
		n.closed = true
	} else {
		l.notifiers[n] = struct{}{}
	}
	return n
}

// closeNotifiers is called when the connections have been stopped.
func (l *lockRows) closeNotifiers() error {
	l.mu.Lock()
	notifiers := maps.Clone(l.notifiers)
	l.mu.Unlock()
	var errs []error
	for n := range notifiers {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// Address implements [store.Notifier].
func (n *notifier) Address(ctx context.Context) (address string, err error) {
	err = n.rows.conns.Bounded(ctx, "open the notifier", func(ctx context.Context) error {
		c, name, err := n.open(ctx)
		if err == nil && name != "" {
			address = c.Server.Identity + "#" + name
		}
		return err
	})
	return address, err
}

// notifierLock is what the names of notifiers begin with.
const notifierLock = "cronlease:bell:"

// open returns the connection, a new one if need be, and the name of its lock, which
// is empty when its session is not the notifier's own.
func (n *notifier) open(ctx context.Context) (*conn, string, error) {
	select {
	case n.opening <- struct{}{}:
		defer func() { <-n.opening }()
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	n.mu.Lock()
	c, name, closed := n.conn, n.name, n.closed
	n.mu.Unlock()
	if closed {
		return nil, "", errors.New("closed")
	}
	if c != nil && c.Alive(ctx) {
		return c, name, nil
	}
	n.drop(c)
	c, err := n.series.Open(ctx)
	if err != nil {
		return nil, "", err
	}
	rests := false
	if name, err = takeName(ctx, c); err == nil && name != "" {
		rests, err = n.rows.takeRestLock(ctx, c)
	}
	if err != nil {
		n.series.Drop(c)
		return nil, "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		n.series.Drop(c)
		return nil, "", errors.New("closed")
	}
	n.conn, n.name, n.rests = c, name, rests
	return c, name, nil
}

// takeName takes a lock of a new name, and returns that if the lock is this
// session's.
func takeName(ctx context.Context, c *conn) (string, error) {
	name := notifierLock + strings.ToLower(rand.Text())
	var got sql.NullInt64
	if err := c.QueryRow(ctx, getLock.Render(name, 0)).Scan(&got); err != nil || got.Int64 != 1 {
		return "", err
	}
	// In a statement of its own: behind a proxy it may reach another session.
	owns, err := c.Count(ctx, ownsLock.Render(name))
	if err != nil || owns != 1 {
		return "", err
	}
	return name, nil
}

// takeRestLock has a connection for readings take the lock that notifiers wait for,
// unless another of them has it already. It reports whether the notifier's server is
// the same, and MariaDB.
func (l *lockRows) takeRestLock(ctx context.Context, notifier *conn) (rests bool, err error) {
	if !notifier.Server.IsMariaDB() {
		return false, nil
	}
	err = l.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "prepare to wait for notifications", func(ctx context.Context, c *conn) error {
		rests = c.Server.Identity == notifier.Server.Identity
		if !rests {
			return nil
		}
		return c.Exec(ctx, getLock.Render(l.restLock, 0))
	})
	return rests, err
}

// giveRestLock gives the lock, which the connection of a notifier has got, to one for
// readings again.
func (l *lockRows) giveRestLock(ctx context.Context, notifier *conn) (rests bool, err error) {
	if err := notifier.Exec(ctx, releaseLock.Render(l.restLock)); err != nil {
		return false, err
	}
	return l.takeRestLock(ctx, notifier)
}

// interrupt ends the statement of the session that has the lock on, again and again until done:
// each may have come between two statements.
func (l *lockRows) interrupt(state func() (on string, done bool)) {
	ctx, end := l.conns.Bind(context.Background())
	defer end()
	again := retry.Forever(time.Millisecond, time.Second)
	for {
		on, done := state()
		if done || ctx.Err() != nil {
			return
		}
		if on != "" { // what fails is tried again
			_ = l.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "wait for more", func(ctx context.Context, c *conn) error {
				if err := c.Exec(ctx, killQuery.Render(on)); !mysqlconn.IsServerError(err) {
					return err
				}
				return nil // it is gone
			})
		}
		_ = retry.Sleep(ctx, again.NextBackOff())
	}
}

// rest is the expression in which a connection waits to be killed.
func (l *lockRows) rest(limit time.Duration, rests bool) sqltext.Raw {
	seconds := sqltext.Raw(fmt.Sprintf("%.3f", limit.Seconds()))
	if rests {
		return sqltext.Raw(restForLock.Render(l.restLock, seconds))
	}
	return sqltext.Raw(restInSleep.Render(seconds))
}

// deafen is told that a connection was not the notifier's own.
func (n *notifier) deafen(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == c {
		n.name = ""
	}
}

// drop discards a connection.
func (n *notifier) drop(c *conn) {
	if c == nil {
		return
	}
	n.mu.Lock()
	if n.conn == c {
		n.conn, n.name = nil, ""
	}
	n.mu.Unlock()
	n.series.Drop(c)
}

// Wait implements [store.Notifier].
func (n *notifier) Wait(ctx context.Context, watched []store.LockWatch, limit time.Duration) error {
	return n.rows.conns.Bounded(ctx, "wait for a notification", func(ctx context.Context) error {
		c, name, err := n.open(ctx)
		if err != nil {
			return err
		}
		if name == "" {
			return retry.Sleep(ctx, limit) // it only looks again
		}
		var moved strings.Builder
		for i, w := range watched {
			if i > 0 {
				moved.WriteString(" UNION ALL ")
			}
			moved.WriteString(n.rows.sql.notWaits.Render(w.Name, string(w.Mark)))
		}
		if len(watched) == 0 {
			moved.WriteString("SELECT 1 FROM DUAL WHERE 0 = 1")
		}
		query := n.rows.sql.wait.Render(sqltext.Raw(moved.String()), name, n.rows.rest(limit, n.isResting()))
		answer, err := c.Count(ctx, query)
		switch {
		case mysqlerr.Number(err) == mysqlerr.Interrupted:
			return nil
		case err != nil:
			n.drop(c)
		case answer == 2:
			n.deafen(c)
			return retry.Sleep(ctx, limit) // it only looks again
		case answer == 3: // the connection that had the lock is gone
			var rests bool
			if rests, err = n.rows.giveRestLock(ctx, c); err != nil {
				n.drop(c)
			}
			n.setRests(c, rests)
		}
		return err
	})
}

func (n *notifier) isResting() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rests
}

func (n *notifier) setRests(c *conn, rests bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == c {
		n.rests = rests
	}
}

// Notify implements [store.Notifier].
func (n *notifier) Notify(ctx context.Context, addresses ...string) error {
	return n.rows.conns.Do(ctx, mysqlconn.Locks, mysqlconn.Write, "notify waiters", func(ctx context.Context, c *conn) error {
		for _, address := range addresses {
			// Earlier versions had a connection's id in the place of the name; they
			// look once a second.
			server, name, _ := strings.Cut(address, "#")
			if server != c.Server.Identity || !strings.HasPrefix(name, notifierLock) || len(name) > 64 {
				continue
			}
			if err := c.Exec(ctx, killQuery.Render(name)); err != nil && !mysqlconn.IsServerError(err) {
				return err
			}
		}
		return nil
	})
}

// Close implements [store.Notifier].
func (n *notifier) Close() error {
	n.mu.Lock()
	n.closed = true
	c := n.conn
	n.mu.Unlock()
	n.drop(c)
	n.rows.mu.Lock()
	defer n.rows.mu.Unlock()
	delete(n.rows.notifiers, n)
	return nil
}
