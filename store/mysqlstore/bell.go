package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// bellWait is how long one GET_LOCK waits before it is repeated: not all servers
// support an unlimited wait. It is below 10 s, the default of long_query_time, so
// that no waiter is in the slow log, and connections are not silent for long.
const bellWait = 9 * time.Second

var (
	getLock     = sqltext.Parse(`SELECT GET_LOCK(?, ?)`)
	hasLock     = sqltext.Parse(`SELECT IS_USED_LOCK(?) = CONNECTION_ID()`)
	releaseLock = sqltext.Parse(`SELECT RELEASE_LOCK(?)`)
)

// bell is a user-level lock of the server: the bell that gets it is rung, and has
// it for as long as its connection lives. The server grants it to waiters in the
// order of arrival. It says nothing about the lease.
type bell struct {
	leases *leases
	group  string

	closing context.Context // ends with Close
	close   context.CancelFunc

	turn chan struct{} // of capacity 1; filling it gives access to what follows
	conn *conn         // nil when there is none, or while Wait waits with it
	has  bool          // the connection has the lock
}

// HandoverSignal implements [store.HandoverSignals]. A signal takes a connection
// of its own with the first Wait and keeps it until Close. Its Wait reconnects;
// when a connection that had the signal is lost, another waiter is woken, and the
// former holder only finds out with its next Wait.
func (l *leases) HandoverSignal(group string) store.HandoverSignal {
	b := &bell{leases: l, group: group, turn: make(chan struct{}, 1)}
	b.closing, b.close = context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns.Stopped() {
		b.close()
	} else {
		l.bells[b] = struct{}{}
		l.conns.Reserve(len(l.bells))
	}
	return b
}

// closeBells is called when the connections have been stopped.
func (l *leases) closeBells() error {
	l.mu.Lock()
	bells := l.bells
	l.bells = nil
	l.mu.Unlock()
	var errs []error
	for b := range bells {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// Wait implements [store.HandoverSignal]. When the caller has the bell already, it returns
// nil if the connection that has it still lives, and otherwise waits for it again.
func (b *bell) Wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.closing, cancel)()
	err := b.wait(ctx)
	switch {
	case err == nil:
		return nil
	case b.closing.Err() != nil:
		return errors.New("wait for bell: closed")
	case ctx.Err() != nil:
		return fmt.Errorf("wait for bell: %w", ctx.Err())
	}
	return fmt.Errorf("wait for bell: %w", b.leases.conns.Explain(err))
}

func (b *bell) wait(ctx context.Context) error {
	if err := b.take(ctx); err != nil {
		return err
	}
	if b.has && b.stillHas(ctx) {
		b.give()
		return nil
	}
	if b.has || b.conn != nil && !b.conn.Alive(ctx) {
		b.drop()
	}
	c := b.conn
	b.conn = nil // while it waits, no other call uses it
	b.give()

	c, err := b.listen(ctx, c)
	if err != nil {
		return err
	}
	b.turn <- struct{}{}
	defer b.give()
	if b.closing.Err() != nil {
		c.Discard()
		return b.closing.Err()
	}
	b.conn, b.has = c, true
	return nil
}

// stillHas asks the server whether this connection has the lock. It is called
// with the turn.
func (b *bell) stillHas(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	var mine sql.NullBool
	err := b.conn.QueryRow(ctx, hasLock.Render(b.lock(b.conn))).Scan(&mine)
	return err == nil && mine.Bool
}

// listen waits for the lock, with c or a new connection. It returns the
// connection that has got it.
func (b *bell) listen(ctx context.Context, c *conn) (*conn, error) {
	for {
		if c == nil {
			var err error
			if c, err = b.connect(ctx); err != nil {
				return nil, err
			}
		}
		wait, begin := b.leases.currentBellWait(), time.Now()
		var got sql.NullInt64
		err := c.QueryRow(ctx, getLock.Render(b.lock(c), int(wait/time.Second))).Scan(&got)
		switch {
		case err == nil && got.Int64 == 1:
			return c, nil
		case err == nil && got.Valid: // not in that time
			continue
		case err == nil:
			err = errors.New("the server has no GET_LOCK to give")
		}
		c.Discard()
		c = nil
		if ctx.Err() != nil || !mysqlconn.IsConnectionError(err) || !b.leases.shortenBellWait(wait, time.Since(begin)) {
			return nil, err
		}
	}
}

func (b *bell) connect(ctx context.Context) (*conn, error) {
	if err := b.leases.conns.CheckReserved(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mysqlconn.AnswerLimit, fmt.Errorf("no answer within %v", mysqlconn.AnswerLimit))
	defer cancel()
	c, err := b.leases.conns.Open(ctx, mysqlconn.ReadingLockWait)
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return c, err
}

// lock is the lock's name, the same for all replicas of a group: of at most 64
// characters and in lower case, because servers differ in what they do with
// others.
func (b *bell) lock(c *conn) string {
	return lockName(c.Server.Database, b.leases.prefix, b.group)
}

func lockName(database, prefix, group string) string {
	sum := sha256.Sum256([]byte(database + "\x00" + prefix + "\x00" + group))
	return fmt.Sprintf("cronlease:%x", sum[:20])
}

// Pass implements [store.HandoverSignal]. When it returns an error, the connection is
// closed, which gives the bell away as soon as the server notices.
func (b *bell) Pass(ctx context.Context) error {
	if err := b.take(ctx); err != nil {
		return fmt.Errorf("pass bell: %w", err)
	}
	defer b.give()
	if !b.has {
		return nil
	}
	b.has = false
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	if err := b.conn.Exec(ctx, releaseLock.Render(b.lock(b.conn))); err != nil {
		b.drop()
		return fmt.Errorf("pass bell: %w", err)
	}
	return nil
}

// Close implements [store.HandoverSignal]. It passes the bell.
func (b *bell) Close() error {
	b.close()
	b.turn <- struct{}{}
	b.drop()
	b.give()
	b.leases.mu.Lock()
	defer b.leases.mu.Unlock()
	delete(b.leases.bells, b)
	b.leases.conns.Reserve(len(b.leases.bells))
	return nil
}

func (b *bell) take(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *bell) give() { <-b.turn }

// drop discards the connection. It is called with the turn.
func (b *bell) drop() {
	if b.conn != nil {
		b.conn.Discard()
	}
	b.conn, b.has = nil, false
}

func (l *leases) currentBellWait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bellWait
}

// shortenBellWait is told that a wait was cut off. If that looks like the read
// timeout of the caller's pool, later waits stay below it, and it returns true.
func (l *leases) shortenBellWait(wait, took time.Duration) bool {
	if l.conns.Owned() || took < time.Second || took > wait+time.Second {
		return false
	}
	shorter := max(time.Second, (took - time.Second/2).Truncate(time.Second))
	if shorter >= wait {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bellWait = min(l.bellWait, shorter)
	return true
}
