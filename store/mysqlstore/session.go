package mysqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/lease"
)

const (
	// A heartbeat that waits for a row lock is of little use after that. A
	// takeover waits for fenced transactions to end. Both are short, so that a
	// statement whose client gave up does not live on for long.
	beatLockWait    = 1 * time.Second
	lookLockWait    = 3 * time.Second
	ledgerLockWait  = 5 * time.Second // a claim waits as long as a takeover, and then learns of it
	migrateLockWait = 60 * time.Second

	// answerLimit bounds each statement whose context does not.
	answerLimit = 30 * time.Second

	// writableFor is how long a session of a store with several hosts is used
	// after its server said that it takes writes, before it is asked again: it may
	// have been demoted, and still answers sessions that only read, and those whose
	// privileges let them write all the same.
	writableFor = 1 * time.Second
)

// settings are what a session has that others do not.
type settings struct {
	lockWait time.Duration // whole seconds
}

// session is one connection with the store's settings, which never goes back
// into a pool.
type session struct {
	number uint64 // never used twice by a process
	server server
	conn   *sql.Conn
	asked  time.Time // when its server took writes; guarded by the slot's turn
}

var sessions atomic.Uint64

// openSession takes a connection out of the pool and makes it a session.
func (s *Store) openSession(ctx context.Context, set settings) (*session, error) {
	// The pool may have idle connections that are dead, and if its DSN says
	// checkConnLiveness=false, it does not notice.
	for attempt := 0; ; attempt++ {
		conn, err := s.connect(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		one := &session{number: sessions.Add(1), conn: conn, asked: time.Now()}
		if err = s.checkWrapper(ctx, conn); err == nil {
			one.server, err = setUp(ctx, conn, set)
		}
		if err == nil {
			return one, nil
		}
		one.discard()
		if attempt == 3 || ctx.Err() != nil || !isConnectionError(err) {
			return nil, fmt.Errorf("set up connection: %w", err)
		}
	}
}

// connect takes a connection out of the pool. Those of [Open] hold connects back
// themselves after a refused login, for all that use them.
func (s *Store) connect(ctx context.Context) (conn *sql.Conn, err error) {
	if s.owned {
		return s.pins.Conn(ctx)
	}
	none := func(context.Context) (string, error) { return "", nil } // the pool knows it
	err = s.logins.connect(ctx, none, func(ctx context.Context, _ string) error {
		conn, err = s.pins.Conn(ctx)
		return err
	})
	return conn, err
}

// setUp sets the session's settings and reads them and the server's back.
func setUp(ctx context.Context, conn *sql.Conn, set settings) (server, error) {
	// Statements of one connection that reach different sessions find different
	// marks.
	mark := rand.Text()
	for _, statement := range sessionStatements(set, mark) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return server{}, err
		}
	}
	s, err := readServer(ctx, conn)
	if err != nil {
		return server{}, err
	}
	if s.mark != mark {
		return server{}, errShared
	}
	if err := s.checkSession(); err != nil {
		return server{}, err
	}
	if s.variables[snapshotIsolation] == "ON" {
		// Also in READ COMMITTED, a statement that reads and then locks fails when
		// the row changed in between.
		if _, err := conn.ExecContext(ctx, latestRows); err != nil {
			return server{}, err
		}
	}
	if s.isGalera() {
		if _, err := conn.ExecContext(ctx, setGalera); err != nil {
			return server{}, err
		}
	}
	return s, nil
}

// errShared is of a proxy that gives the statements of one connection different
// sessions.
var errShared = fmt.Errorf("%w: the statements of one connection reach different sessions: connect to the server itself, or make what is in between keep a session for each connection (in ProxySQL: multiplexing off for this user)",
	lease.ErrSetup)

func sessionStatements(set settings, mark string) []string {
	wait := int(set.lockWait / time.Second)
	return []string{setNames, setSession.Render(wait, wait, mark), setIsolation}
}

// discard closes the connection for good.
func (s *session) discard() {
	// The pool closes what it is told is bad. It can say nothing of interest:
	// the connection may be closed already.
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

// alive reports whether the server has kept its end of an idle connection. It
// sends nothing: the driver looks at the socket.
func (s *session) alive(ctx context.Context) bool {
	err := s.conn.Raw(func(c any) error {
		if r, ok := c.(driver.SessionResetter); ok {
			return r.ResetSession(ctx)
		}
		return nil
	})
	return err == nil
}

// writable reports whether the server takes writes, as far as it was asked or
// is asked now.
func (s *session) writable(ctx context.Context) bool {
	now := time.Now()
	if now.Sub(s.asked) < writableFor {
		return true
	}
	var settings string
	if err := s.conn.QueryRowContext(ctx, readOnlySettings).Scan(&settings); err != nil || settings != "" {
		return false
	}
	s.asked = now
	return true
}

// exec runs a statement that changes rows.
func (s *session) exec(ctx context.Context, statement string) (sql.Result, error) {
	return s.conn.ExecContext(ctx, statement)
}

// changed runs a statement and returns how many rows it changed.
func (s *session) changed(ctx context.Context, statement string) (int, error) {
	result, err := s.exec(ctx, statement)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// change runs a statement and returns what it did.
func (s *session) change(ctx context.Context, statement string) (change, error) {
	result, err := s.exec(ctx, statement)
	if err != nil {
		return change{}, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return change{}, err
	}
	last, err := result.LastInsertId()
	return change{int(n), last}, err
}

// count runs a query whose answer is one number.
func (s *session) count(ctx context.Context, query string) (int, error) {
	var n int
	err := s.conn.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// slot is the place of one session that is opened when needed and used by one
// at a time.
type slot struct {
	store *Store
	set   settings
	turn  chan struct{} // of capacity 1; filling it gives access to the session

	session *session      // nil when there is none; guarded by turn
	number  atomic.Uint64 // the session's, readable without the turn; 0 when there is none
}

func newSlot(s *Store, set settings) *slot {
	return &slot{store: s, set: set, turn: make(chan struct{}, 1)}
}

func (l *slot) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *slot) give() { <-l.turn }

// usable reports whether there is a session that was not closed by the server
// and, where there is another host to go to, takes writes. It drops one that is
// not. It is called with the turn.
func (l *slot) usable(ctx context.Context) bool {
	if l.session != nil && (!l.session.alive(ctx) || l.store.several && !l.session.writable(ctx)) {
		l.drop()
	}
	return l.session != nil
}

// open returns the session, a new one if need be. It is called with the turn.
func (l *slot) open(ctx context.Context) (s *session, fresh bool, err error) {
	if l.store.closing.Err() != nil { // shut has been here, or waits for its turn
		return nil, false, errClosed
	}
	if l.usable(ctx) {
		return l.session, false, nil
	}
	s, err = l.store.openSession(ctx, l.set)
	if err != nil {
		return nil, false, err
	}
	l.session = s
	l.number.Store(s.number)
	l.store.learn(s.server)
	return s, true, nil
}

// drop discards the session. It is called with the turn.
func (l *slot) drop() {
	if l.session != nil {
		l.number.Store(0)
		l.session.discard()
		l.session = nil
	}
}

// shut drops the session once it is free, which the store's closing hastens.
func (l *slot) shut() {
	l.turn <- struct{}{}
	l.drop()
	l.give()
}

// run calls do with the session. It is called with the turn. A session is kept
// only after a clear answer. When the connection turns out to be lost, do is
// called once more with a new session: if it only reads, if the driver says that
// its statement was never sent, or if the server refused it because it takes no
// writes and there is another host to go to.
func (l *slot) run(ctx context.Context, reads bool, do func(*session) error) error {
	for attempt := 0; ; attempt++ {
		s, fresh, err := l.open(ctx)
		if err != nil {
			return err
		}
		err = do(s)
		if err == nil || isAnswer(err) {
			return s.explainWait(ctx, err)
		}
		l.drop()
		again := errors.Is(err, driver.ErrBadConn) || reads && isConnectionError(err) || l.store.several && isReadOnly(err)
		if fresh || !again || attempt > 0 || ctx.Err() != nil {
			return err
		}
	}
}

// with runs do in a call that is named op in errors.
func (s *Store) with(ctx context.Context, op string, do func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	var err error
	if s.closing.Err() != nil {
		err = errClosed
	} else {
		err = do(limited)
	}
	switch {
	case err == nil || isAnswer(err) && !isServerError(err):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case s.closing.Err() != nil:
		return fmt.Errorf("%s: %w", op, errClosed)
	case limited.Err() != nil:
		return fmt.Errorf("%s: %w", op, context.Cause(limited))
	}
	return fmt.Errorf("%s: %w", op, s.explain(err))
}

// onBeats runs do with the heartbeats' session.
func (s *Store) onBeats(ctx context.Context, op string, do func(context.Context, *session) error) error {
	return s.with(ctx, op, func(ctx context.Context) error {
		if err := s.beats.take(ctx); err != nil {
			return err
		}
		defer s.beats.give()
		return s.beats.run(ctx, false, func(one *session) error { return do(ctx, one) })
	})
}

// onLook runs do, which may be repeated if it only reads, with a session for
// looks: the first one if it is free.
func (s *Store) onLook(ctx context.Context, op string, reads bool, do func(context.Context, *session) error) error {
	return s.with(ctx, op, func(ctx context.Context) error {
		l, err := s.takeLook(ctx)
		if err != nil {
			return err
		}
		defer l.give()
		return l.run(ctx, reads, func(one *session) error { return do(ctx, one) })
	})
}

// onLedger runs do, which may be repeated if it only reads, with a session for
// the ledger: the first one that is free.
func (s *Store) onLedger(ctx context.Context, op string, reads bool, do func(context.Context, *session) error) error {
	return s.with(ctx, op, func(ctx context.Context) error {
		l, err := s.takeLedger(ctx, reads)
		if err != nil {
			return err
		}
		defer l.give()
		return l.run(ctx, reads, func(one *session) error {
			return one.retryConflicts(ctx, deadlockTries, func() error { return do(ctx, one) })
		})
	})
}

func (s *Store) takeLedger(ctx context.Context, reads bool) (*slot, error) {
	var turns [ledgers]chan struct{} // nil where the pool is too small for one more
	most := s.ledgersInPool()
	if !reads && s.onManyWriters() {
		most = 1 // all write the fence row: from different nodes, they would fail
	}
	for i, l := range s.ledgers[:most] {
		turns[i] = l.turn
		select {
		case l.turn <- struct{}{}:
			return l, nil
		default:
		}
	}
	select {
	case turns[0] <- struct{}{}:
		return s.ledgers[0], nil
	case turns[1] <- struct{}{}:
		return s.ledgers[1], nil
	case turns[2] <- struct{}{}:
		return s.ledgers[2], nil
	case turns[3] <- struct{}{}:
		return s.ledgers[3], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ledgersInPool is how many connections the ledger may keep, so that the rest of
// the store and the caller have theirs.
func (s *Store) ledgersInPool() int {
	most := s.pins.Stats().MaxOpenConnections
	if most == 0 {
		return ledgers
	}
	s.mu.Lock()
	bells := max(1, len(s.bells))
	s.mu.Unlock()
	others := 1 + looks + bells
	if s.locksUsed.Load() {
		others += lockPins
	}
	return min(max(1, most-others-1), ledgers)
}

func (s *Store) takeLook(ctx context.Context) (*slot, error) {
	return takeEither(ctx, s.looks[0], s.looks[1])
}

// takeEither takes the first of two slots if it is free, else whichever is next.
func takeEither(ctx context.Context, first, second *slot) (*slot, error) {
	for _, l := range []*slot{first, second} {
		select {
		case l.turn <- struct{}{}:
			return l, nil
		default:
		}
	}
	select {
	case first.turn <- struct{}{}:
		return first, nil
	case second.turn <- struct{}{}:
		return second, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
