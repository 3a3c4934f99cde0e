package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// signalWait is how long one GET_LOCK waits before it is repeated: not all servers
// support an unlimited wait. It is below 10 s, the default of long_query_time, so
// that no waiter is in the slow log, and connections are not silent for long.
const signalWait = 9 * time.Second

var (
	getLock = sqltext.Parse(`SELECT GET_LOCK(?, ?)`)
	isUsed  = sqltext.Parse(`SELECT IS_USED_LOCK(?) IS NOT NULL`)

	hasLock = sqltext.Parse(`SELECT IS_USED_LOCK(?) = CONNECTION_ID()`)

	// A lock that a connection gets twice has to be released twice.
	ensureLock  = sqltext.Parse(`SELECT IF(IS_USED_LOCK(?) = CONNECTION_ID(), 1, GET_LOCK(?, 0))`)
	releaseLock = sqltext.Parse(`SELECT RELEASE_LOCK(?)`)
	releaseBoth = sqltext.Parse(`SELECT RELEASE_LOCK(?), RELEASE_LOCK(?)`)
)

// signal is a hand-over signal: a user-level lock of the server. The waiter that
// gets it has the signal, for as long as its connection lives. The server grants it
// in the order of arrival. It says nothing about the lease. Another lock of the
// connection, whose name only one term has, shows that the term is present.
type signal struct {
	leases *leases
	group  string
	term   atomic.Pointer[announced] // the term that is to be present; nil: none

	closing context.Context // ends with Close
	close   context.CancelFunc

	turn chan struct{} // of capacity 1; filling it gives access to what follows
	conn *conn         // nil when there is none, or while Wait waits with it
	has  bool          // the connection has the lock
}

// HandoverSignal implements [store.HandoverSignals]. A signal takes a connection of
// its own with the first Wait and keeps it until Close. Its Wait reconnects; when a
// connection that had the signal is lost, another waiter gets it, and the former
// holder only finds out with its next Wait.
func (l *leases) HandoverSignal(group string) store.HandoverSignal {
	s := &signal{leases: l, group: group, turn: make(chan struct{}, 1)}
	s.closing, s.close = context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns.Stopped() {
		s.close()
	} else {
		l.signals[s] = struct{}{}
		l.conns.Reserve(len(l.signals))
	}
	return s
}

// closeSignals is called when the connections have been stopped.
func (l *leases) closeSignals() error {
	l.mu.Lock()
	signals := l.signals
	l.signals = nil
	l.mu.Unlock()
	var errs []error
	for s := range signals {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Wait implements [store.HandoverSignal]. When the caller has the signal already, it returns
// nil if the connection that has it still lives, and otherwise waits for it again.
func (s *signal) Wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	err := s.wait(ctx)
	switch {
	case err == nil:
		return nil
	case s.closing.Err() != nil:
		return errors.New("wait for the hand-over signal: closed")
	case ctx.Err() != nil:
		return fmt.Errorf("wait for the hand-over signal: %w", ctx.Err())
	}
	return fmt.Errorf("wait for the hand-over signal: %w", s.leases.conns.Explain(err))
}

func (s *signal) wait(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	if s.has && s.stillHas(ctx) {
		s.give()
		return nil
	}
	if s.has || s.conn != nil && !s.conn.Alive(ctx) {
		s.drop()
	}
	c := s.conn
	s.conn = nil // while it waits, no other call uses it
	s.give()

	c, err := s.listen(ctx, c)
	if err != nil {
		return err
	}
	s.turn <- struct{}{}
	defer s.give()
	if s.closing.Err() != nil {
		c.Discard()
		return s.closing.Err()
	}
	s.conn, s.has = c, true
	return nil
}

// stillHas asks the server whether this connection has the lock. It is called
// with the turn.
func (s *signal) stillHas(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	var mine sql.NullBool
	err := s.conn.QueryRow(ctx, hasLock.Render(s.lock(s.conn))).Scan(&mine)
	return err == nil && mine.Bool
}

// listen waits for the lock, with c or a new connection. It returns the
// connection that has got it.
func (s *signal) listen(ctx context.Context, c *conn) (*conn, error) {
	for {
		if c == nil {
			var err error
			if c, err = s.connect(ctx); err != nil {
				return nil, err
			}
		}
		wait, begin := s.leases.currentWait(), time.Now()
		var got sql.NullInt64
		err := s.appear(ctx, c)
		if err == nil {
			err = c.QueryRow(ctx, getLock.Render(s.lock(c), int(wait/time.Second))).Scan(&got)
		}
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
		if ctx.Err() != nil || !mysqlconn.IsConnectionError(err) || !s.leases.shortenWait(wait, time.Since(begin)) {
			return nil, err
		}
	}
}

func (s *signal) connect(ctx context.Context) (*conn, error) {
	if err := s.leases.conns.CheckReserved(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mysqlconn.AnswerLimit, fmt.Errorf("no answer within %v", mysqlconn.AnswerLimit))
	defer cancel()
	c, err := s.leases.conns.Open(ctx, mysqlconn.ReadingLockWait)
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return c, err
}

// lock is the lock's name, the same for all replicas of a group: of at most 64
// characters and in lower case, because servers differ in what they do with
// others.
func (s *signal) lock(c *conn) string {
	return lockName("cronlease:", c.Server.Database, s.leases.prefix, s.group)
}

func lockName(kind, database, prefix, name string) string {
	sum := sha256.Sum256([]byte(database + "\x00" + prefix + "\x00" + name))
	return fmt.Sprintf("%s%x", kind, sum[:20])
}

// announced is a term, and the server that its lease was acquired on.
type announced struct {
	token  uint64
	server string
}

// Announce implements [store.PresenceSignal].
func (s *signal) Announce(ctx context.Context, token uint64, server string) error {
	s.term.Store(&announced{token, server})
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("announce a term: %w", err)
	}
	defer s.give()
	if !s.has {
		return nil // Wait does it
	}
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	if err := s.appear(ctx, s.conn); err != nil {
		s.drop()
		return fmt.Errorf("announce a term: %w", err)
	}
	return nil
}

// appear makes the announced term present on a connection to its server. After a
// lost connection, the server may take it for that one's for a while.
func (s *signal) appear(ctx context.Context, c *conn) error {
	term := s.term.Load()
	if term == nil || term.server != c.Server.Identity {
		return nil
	}
	name := s.presence(c, term.token)
	var got sql.NullInt64
	return c.QueryRow(ctx, ensureLock.Render(name, name)).Scan(&got)
}

// presence is the name of the lock that shows that a term is present.
func (s *signal) presence(c *conn, token uint64) string {
	return lockName("cronlease:term:", c.Server.Database, s.leases.prefix, s.group+"\x00"+strconv.FormatUint(token, 10))
}

// Present implements [store.PresenceSignal].
func (s *signal) Present(ctx context.Context, token uint64) (present bool, server string, err error) {
	err = s.leases.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "look for the leader's connection", func(ctx context.Context, c *conn) error {
		server = c.Server.Identity
		return c.QueryRow(ctx, isUsed.Render(s.presence(c, token))).Scan((*sqlscan.Bool)(&present))
	})
	return present, server, err
}

// Pass implements [store.HandoverSignal]. When it returns an error, the connection is
// closed, which gives the signal away as soon as the server notices.
func (s *signal) Pass(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("pass the hand-over signal: %w", err)
	}
	defer s.give()
	term := s.term.Swap(nil)
	if !s.has {
		return nil
	}
	s.has = false
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	pass := releaseLock.Render(s.lock(s.conn))
	if term != nil {
		// In this order, so that the waiter that is woken finds the term gone.
		pass = releaseBoth.Render(s.presence(s.conn, term.token), s.lock(s.conn))
	}
	if err := s.conn.Exec(ctx, pass); err != nil {
		s.drop()
		return fmt.Errorf("pass the hand-over signal: %w", err)
	}
	return nil
}

// Close implements [store.HandoverSignal]. It passes the signal.
func (s *signal) Close() error {
	s.close()
	s.turn <- struct{}{}
	s.drop()
	s.give()
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	delete(s.leases.signals, s)
	s.leases.conns.Reserve(len(s.leases.signals))
	return nil
}

func (s *signal) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *signal) give() { <-s.turn }

// drop discards the connection. It is called with the turn.
func (s *signal) drop() {
	if s.conn != nil {
		s.conn.Discard()
	}
	s.conn, s.has = nil, false
}

func (l *leases) currentWait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signalWait
}

// shortenWait is told that a wait was cut off. If that looks like the read
// timeout of the caller's pool, later waits stay below it, and it returns true.
func (l *leases) shortenWait(wait, took time.Duration) bool {
	if l.conns.Owned() || took < time.Second || took > wait+time.Second {
		return false
	}
	shorter := max(time.Second, (took - time.Second/2).Truncate(time.Second))
	if shorter >= wait {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signalWait = min(l.signalWait, shorter)
	return true
}
