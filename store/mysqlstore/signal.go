package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// signalWait is how long one GET_LOCK waits before it is repeated: not all servers
// support an unlimited wait, and proxies close connections that are silent for long,
// often after 30 s.
const signalWait = 24 * time.Second

// unannouncedWait is how long it waits while nothing is to be present: what is announced
// meanwhile appears with the next one.
const unannouncedWait = time.Second

// askEvery is how often the server is asked, at least, whether a connection has the
// lock: with the next Wait after that, of which a leader has one every 15 s. So its
// connection is silent for a minute at most, which load balancers let pass. Whether the
// server has closed the connection is seen without that.
const askEvery = 45 * time.Second

var (
	getLock = sqltext.Parse(`SELECT GET_LOCK(?, ?)`)
	isUsed  = sqltext.Parse(`SELECT IS_USED_LOCK(?) IS NOT NULL`)

	hasLock = sqltext.Parse(`SELECT IS_USED_LOCK(?) = CONNECTION_ID()`)

	releaseLock = sqltext.Parse(`SELECT RELEASE_LOCK(?)`)
	releaseBoth = sqltext.Parse(`SELECT RELEASE_LOCK(?), RELEASE_LOCK(?)`)
)

// errManyWriters is of clusters: the lock is one node's, and a row lock makes no
// statement on another node wait.
var errManyWriters = fmt.Errorf("%w on a cluster with several writers", errors.ErrUnsupported)

var _ store.DirectHandover = (*signal)(nil)

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

	alone context.Context // ends when the store has another signal
	crowd context.CancelFunc

	series *mysqlconn.Series // of Wait, which nobody calls twice at a time

	turn   chan struct{} // of capacity 1; filling it gives access to what follows, and where shared is true, the board's turn does
	shared bool          // it is on the board, and has no connection of its own
	conn   *conn         // nil when there is none, or while Wait waits with it
	waits  bool          // Wait does
	has    bool          // the connection has the lock
	asked  time.Time     // when the server last said so
	shown  *announced    // present by the connection; Wait's while it waits with that
}

// HandoverSignal implements [store.HandoverSignals]. The only signal of a store takes a connection
// with the first Wait and keeps it until Close. All signals of a store with several
// have two connections together, and a hand-over to them takes up to 50 ms more.
// A Wait reconnects; when a connection that had the signal is lost, another waiter gets it, and the
// former holder only finds out with its next Wait.
func (l *leases) HandoverSignal(group string) store.HandoverSignal {
	s := &signal{leases: l, group: group, series: l.conns.NewSeries(mysqlconn.ReadingLockWait), turn: make(chan struct{}, 1)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.alone, s.crowd = context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns.Stopped() {
		s.close()
		return s
	}
	if s.shared = len(l.signals) > 0; s.shared {
		s.crowd()
	}
	for other := range l.signals {
		other.crowd()
	}
	l.signals[s] = struct{}{}
	l.conns.Reserve(min(len(l.signals), 2))
	return s
}

// all returns the signals.
func (l *leases) all() []*signal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.signals))
}

// adopt puts all signals on the board, and returns the connection of the one that was alone if it has
// one. It is called with the board's turn.
func (l *leases) adopt(ctx context.Context) (c *conn, err error) {
	for _, s := range l.all() {
		if err := s.take(ctx); err != nil {
			return c, err
		}
		if s.conn != nil {
			c, s.conn = s.conn, nil
		}
		s.shared = true
		s.give()
	}
	return c, nil
}

// anotherHas reports whether another signal of the group has its lock. It is called with the
// board's turn.
func (l *leases) anotherHas(s *signal) bool {
	return slices.ContainsFunc(l.all(), func(other *signal) bool { return other != s && other.group == s.group && other.has })
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
	l.board.close()
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
	alone, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alone, cancel)()
	if s.alone.Err() == nil {
		if err := s.waitAlone(alone); err == nil || s.alone.Err() == nil || ctx.Err() != nil {
			return err
		}
	}
	return s.leases.board.wait(ctx, s)
}

func (s *signal) waitAlone(ctx context.Context) error {
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
	s.conn, s.waits = nil, true // while it waits, no other call uses it
	s.give()

	c, err := s.listen(ctx, c)
	s.turn <- struct{}{}
	defer s.give()
	if s.waits = false; err != nil {
		return err
	}
	if s.closing.Err() != nil || s.shared {
		s.series.Drop(c)
		return context.Canceled
	}
	s.conn, s.has, s.asked = c, true, time.Now()
	return s.show(ctx) // a term that was announced meanwhile
}

// stillHas reports whether this connection has the lock. It is called with the turn.
func (s *signal) stillHas(ctx context.Context) bool {
	if !s.conn.Alive(ctx) {
		return false
	}
	if time.Since(s.asked) < askEvery {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	var mine sql.NullBool
	err := s.conn.QueryRow(ctx, hasLock.Render(s.lock(s.conn))).Scan(&mine)
	s.asked = time.Now()
	return err == nil && mine.Bool
}

// listen waits for the lock, with c or a new connection. It returns the
// connection that has got it.
func (s *signal) listen(ctx context.Context, c *conn) (*conn, error) {
	for {
		if c == nil {
			var err error
			if c, err = s.leases.connect(ctx, s.series); err != nil {
				return nil, err
			}
		}
		wait, begin := s.leases.currentWait(), time.Now()
		if s.term.Load() == nil {
			wait = min(wait, unannouncedWait)
		}
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
		s.series.Drop(c)
		c, s.shown = nil, nil
		if ctx.Err() != nil || !mysqlconn.IsConnectionError(err) || !s.leases.shortenWait(wait, time.Since(begin)) {
			return nil, err
		}
	}
}

func (l *leases) connect(ctx context.Context, series *mysqlconn.Series) (*conn, error) {
	if err := l.conns.CheckReserved(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mysqlconn.AnswerLimit, fmt.Errorf("no answer within %v", mysqlconn.AnswerLimit))
	defer cancel()
	c, err := series.Open(ctx)
	if err == nil {
		if err = c.Exec(ctx, noSlowQueries.Render()); err != nil {
			series.Drop(c)
		}
	}
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
	if s.shared {
		s.give()
		if err := s.leases.board.do(ctx, true, s.appear); err != nil {
			return fmt.Errorf("announce a term: %w", err)
		}
		return nil
	}
	defer s.give()
	if s.closing.Err() != nil || s.conn == nil && s.waits {
		return nil // Wait does it
	}
	if s.conn == nil { // of a replica that waits for no signal
		c, err := s.leases.connect(ctx, s.series)
		if err != nil {
			return fmt.Errorf("announce a term: %w", err)
		}
		s.conn = c
	}
	if err := s.show(ctx); err != nil {
		return fmt.Errorf("announce a term: %w", err)
	}
	return nil
}

// show is appear for the connection that has the signal. It is called with the turn.
func (s *signal) show(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	err := s.appear(ctx, s.conn)
	if err != nil {
		s.drop()
	}
	return err
}

// appear makes the announced term present on a connection to its server, and no
// other one. After a lost connection, the server may take it for that one's for a
// while. A lock that a connection gets twice has to be released twice.
func (s *signal) appear(ctx context.Context, c *conn) error {
	term := s.term.Load()
	if term != nil && term.server != c.Server.Identity && !store.IsReplicaToken(term.token) {
		term = nil
	}
	if s.shown != nil && (term == nil || *s.shown != *term) {
		if err := c.Exec(ctx, releaseLock.Render(s.presence(c, s.shown.token))); err != nil {
			return err
		}
		s.shown = nil
	}
	if term == nil || s.shown != nil {
		return nil
	}
	var got sql.NullInt64
	err := c.QueryRow(ctx, getLock.Render(s.presence(c, term.token), 0)).Scan(&got)
	if err == nil && got.Int64 == 1 {
		s.shown = term
	}
	return err
}

// presence is the name of the lock that shows that a term is present.
func (s *signal) presence(c *conn, token uint64) string {
	return presenceLock(c, s.leases.prefix, s.group, token)
}

func presenceLock(c *conn, prefix, group string, token uint64) string {
	return lockName("cronlease:term:", c.Server.Database, prefix, group+"\x00"+strconv.FormatUint(token, 10))
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
	if s.shared {
		s.give()
		return s.leases.board.pass(ctx, s)
	}
	defer s.give()
	s.term.Store(nil)
	if !s.has {
		if s.conn != nil { // by which Announce has shown it
			return s.show(ctx)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, mysqlconn.AnswerLimit)
	defer cancel()
	if err := s.pass(ctx, s.conn); err != nil {
		s.drop()
		return fmt.Errorf("pass the hand-over signal: %w", err)
	}
	return nil
}

// pass gives the locks away, that of the term first, so that the waiter which is woken
// finds the term gone. It is called with the turn.
func (s *signal) pass(ctx context.Context, c *conn) error {
	shown := s.shown
	s.has, s.shown = false, nil
	if shown == nil {
		return c.Exec(ctx, releaseLock.Render(s.lock(c)))
	}
	return c.Exec(ctx, releaseBoth.Render(s.presence(c, shown.token), s.lock(c)))
}

// Release implements [store.DirectHandover]. The server grants the lock to the next
// waiter while the release is being committed: the waiter's message and this commit
// are under way at the same time.
func (s *signal) Release(ctx context.Context, owner string, token uint64) error {
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("release lease with its signal: %w", err)
	}
	if s.shared {
		s.give()
		return s.leases.board.release(ctx, s, owner, token)
	}
	defer s.give()
	return s.leases.conns.Bounded(ctx, "release lease with its signal", func(ctx context.Context) error {
		switch {
		case !s.has:
			return errors.New("this connection does not have the signal")
		case s.conn.Server.ManyWriters():
			return errManyWriters
		case !s.leases.conns.Usable(ctx, s.conn):
			return errors.New("the connection was lost, or its server takes no writes")
		}
		n, err := s.conn.Changed(ctx, s.leases.sql.handOver.Render(s.presence(s.conn, token), s.lock(s.conn), s.group, owner, token))
		if err == nil && n > 0 {
			s.has, s.shown = false, nil
			s.term.Store(nil)
			return nil
		}
		if err == nil {
			n, err = s.conn.Count(ctx, s.leases.sql.isReleased.Render(s.group, owner, token))
		}
		switch {
		case err != nil: // has stays: Pass passes what was not passed yet
			return err
		case n == 0:
			return store.ErrChanged
		}
		s.term.Store(nil)
		if s.pass(ctx, s.conn) != nil {
			s.drop()
		}
		return nil
	})
}

// Take implements [store.DirectHandover]. It waits up to 2 s for the lease row.
func (s *signal) Take(ctx context.Context, a store.Acquire) (uint64, error) {
	if a.Read.Group != s.group {
		return 0, fmt.Errorf("take lease: a reading of %q for the signal of %q", a.Read.Group, s.group)
	}
	return s.leases.acquire(ctx, a, func(ctx context.Context, c *conn, micros, next uint64) (mysqlconn.Change, error) {
		if c.Server.ManyWriters() {
			return mysqlconn.Change{}, errManyWriters
		}
		done, err := c.Change(ctx, s.leases.sql.takeReleased.Render(s.group, a.Owner, next, a.Owner, next, a.Heartbeat, micros,
			a.Read.Fence.Token, a.Read.Lease.Token, a.Read.Lease.Heartbeat))
		if err != nil && mysqlconn.IsAnswer(err) { // rolled back, or not granted in time
			err = store.ErrChanged
		}
		return done, err
	})
}

// Close implements [store.HandoverSignal]. It passes the signal.
func (s *signal) Close() error {
	s.close()
	s.turn <- struct{}{}
	shared := s.shared
	if !shared {
		s.drop()
	}
	s.give()
	if shared { // what fails has cost the connection, and with it the signal
		_ = s.leases.board.pass(context.Background(), s)
	}
	s.leases.mu.Lock()
	delete(s.leases.signals, s)
	last := len(s.leases.signals) == 0
	s.leases.conns.Reserve(min(len(s.leases.signals), 2))
	s.leases.mu.Unlock()
	if shared && last {
		s.leases.board.clear()
	}
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
		s.series.Drop(s.conn)
		s.shown = nil
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
