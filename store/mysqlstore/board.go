package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// boardInterval is how often the server looks for free locks while a board waits: a hand-over
// takes as much longer than one to a store with a single signal.
const boardInterval = 50 * time.Millisecond

// boardWait is how long one statement looks. After it, the board sees whether the connection that
// has the locks was lost, by which its replicas are present.
const boardWait = 10 * time.Second

// board is the hand-over signals of a store that has several, on two connections, however
// many they are. A connection can wait for one lock at a time, but have any number. So one has
// the locks, and all that is done on it takes no time. The other one waits: in a statement that looks at all the
// locks again and again, within the server, and ends once one of them is free. Then its
// waiter tries to take it.
//
// The store's first signal is alone at first, on a connection by which it waits and has the
// lock. With the second signal, that becomes the one that has the board's locks.
type board struct {
	leases *leases
	having *mysqlconn.Series
	asking *mysqlconn.Series

	turn chan struct{} // of capacity 1; filling it gives access to what follows, and to has and shown of the signals
	conn *conn         // that has the locks; nil when there is none

	mu      sync.Mutex // guards what follows
	waiters map[*signal]chan error
	asks    bool   // there is a goroutine that asks
	known   bool   // it asks for all waiters
	on      string // the lock of the session on which it asks; empty before the first
	server  string // that conn leads to
	work    sync.WaitGroup
}

func newBoard(l *leases) *board {
	return &board{
		leases: l, turn: make(chan struct{}, 1), waiters: map[*signal]chan error{},
		having: l.conns.NewSeries(mysqlconn.ReadingLockWait), asking: l.conns.NewSeries(mysqlconn.ReadingLockWait),
	}
}

// wait is [signal.wait] of a signal on the board.
func (b *board) wait(ctx context.Context, s *signal) error {
	for {
		got, err := b.try(ctx, s)
		if got || err != nil {
			return err
		}
		free := b.join(s)
		select {
		case err := <-free:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			b.leave(s)
			return ctx.Err()
		}
	}
}

// try takes the signal's lock if it is free, and reports whether the signal has it.
func (b *board) try(ctx context.Context, s *signal) (got bool, err error) {
	err = b.do(ctx, true, func(ctx context.Context, c *conn) error {
		if s.closing.Err() != nil {
			return nil //nolint:nilerr // its caller sees that
		}
		if s.has {
			if got = time.Since(s.asked) < askEvery; got {
				return nil
			}
			var mine sql.NullBool
			err := c.QueryRow(ctx, hasLock.Render(s.lock(c))).Scan(&mine)
			s.has, s.asked = mine.Bool, time.Now()
			if got = s.has; got || err != nil {
				return err
			}
		}
		if err := s.appear(ctx, c); err != nil {
			return err
		}
		// A connection gets a lock that it has: another signal of the group may have it.
		if b.leases.anotherHas(s) {
			return nil
		}
		var free sql.NullInt64
		err := c.QueryRow(ctx, getLock.Render(s.lock(c), 0)).Scan(&free)
		if got = err == nil && free.Int64 == 1; got {
			s.has, s.asked = true, time.Now()
		}
		return err
	})
	return got, err
}

// do runs do with the connection that has the locks, or without one if there is none and
// it is not needed. What it does is not cut short by the end of ctx, which would cost all signals theirs.
func (b *board) do(ctx context.Context, needed bool, do func(context.Context, *conn) error) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	if b.conn != nil && !b.conn.Alive(ctx) {
		b.drop()
	}
	if b.conn == nil && needed {
		if err := b.open(ctx); err != nil {
			return err
		}
	}
	if b.conn == nil {
		return nil
	}
	limited, end := b.leases.conns.Bind(context.WithoutCancel(ctx))
	defer end()
	limited, cancel := context.WithTimeout(limited, mysqlconn.AnswerLimit)
	defer cancel()
	err := do(limited, b.conn)
	if err != nil {
		b.drop()
	}
	return err
}

// open makes the connection of the signal that was alone the board's, or opens one. It is
// called with the turn.
func (b *board) open(ctx context.Context) error {
	c, err := b.leases.adopt(ctx)
	if err == nil && c == nil {
		c, err = b.leases.connect(ctx, b.having)
	}
	if err != nil {
		return err
	}
	b.conn = c
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server = c.Server.Identity
	return nil
}

// drop discards the connection that has the locks, with what they are. It is called with the
// turn.
func (b *board) drop() {
	if b.conn == nil {
		return
	}
	b.having.Drop(b.conn)
	b.conn = nil
	for _, s := range b.leases.all() {
		s.has, s.shown = false, nil
	}
}

// pass is [signal.Pass] of a signal on the board.
func (b *board) pass(ctx context.Context, s *signal) error {
	s.term.Store(nil)
	err := b.do(ctx, false, func(ctx context.Context, c *conn) error {
		if s.has {
			return s.pass(ctx, c)
		}
		return s.appear(ctx, c) // it hides the term
	})
	if err != nil {
		return fmt.Errorf("pass the hand-over signal: %w", err)
	}
	return nil
}

// release is [signal.Release] of a signal on the board: in two statements, since a commit that
// hangs on the connection that has the locks would cost all signals theirs.
func (b *board) release(ctx context.Context, s *signal, owner string, token uint64) error {
	has := false
	if err := b.do(ctx, false, func(context.Context, *conn) error { has = s.has; return nil }); err != nil {
		return fmt.Errorf("release lease with its signal: %w", err)
	}
	if !has {
		return errors.New("release lease with its signal: this connection does not have the signal")
	}
	if err := b.leases.Release(ctx, s.group, owner, token); err != nil {
		return err
	}
	return b.pass(ctx, s)
}

// join has the server looked at for the signal's lock. What it returns gets nil when the lock
// seems free.
func (b *board) join(s *signal) <-chan error {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := make(chan error, 1)
	b.waiters[s] = free
	switch {
	case b.leases.conns.Stopped():
		free <- mysqlconn.ErrClosed
	case !b.asks:
		b.asks, b.known = true, false
		b.work.Go(b.ask)
	case b.known:
		b.known = false
		b.work.Go(b.interrupt)
	}
	return free
}

func (b *board) leave(s *signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, s)
}

// interrupt ends the statement that does not look for the newest waiters.
func (b *board) interrupt() {
	b.leases.interrupt(func() (on string, done bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.on, b.known || !b.asks
	})
}

// ask asks the server for free locks for as long as there are waiters.
func (b *board) ask() {
	ctx, end := b.leases.conns.Bind(context.Background())
	defer end()
	var c *conn
	defer func() {
		if c != nil {
			b.asking.Drop(c)
		}
	}()
	for {
		waiting, server := b.waiting()
		if len(waiting) == 0 {
			return
		}
		var free []int
		var err error
		if c != nil && !c.Alive(ctx) {
			b.asking.Drop(c)
			c = nil
		}
		if c == nil {
			if c, err = b.leases.connect(ctx, b.asking); err == nil {
				b.mu.Lock()
				b.on = c.LockName()
				b.mu.Unlock()
			}
		}
		if err == nil && c.Server.Identity != server {
			err = errors.New("the connections for hand-over signals lead to different servers")
		}
		if err == nil {
			free, err = b.look(ctx, c, waiting)
		}
		if len(free) == 0 && err == nil && b.isLost(ctx) {
			for i := range waiting { // one of them opens it, and all show again what they are
				free = append(free, i)
			}
		}
		switch {
		case mysqlerr.Number(err) == mysqlerr.Interrupted:
			continue
		case err != nil && c != nil:
			b.asking.Drop(c)
			c = nil
		}
		b.tell(waiting, free, err)
	}
}

// isLost reports whether there is no connection that has the locks.
func (b *board) isLost(ctx context.Context) (lost bool) {
	lost = true
	_ = b.do(ctx, false, func(context.Context, *conn) error { lost = false; return nil })
	return lost
}

// waiting returns the waiters, and the server on which they try to take their locks. There is
// no goroutine that asks when there are none.
func (b *board) waiting() (waiting []*signal, server string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.waiters {
		waiting = append(waiting, s)
	}
	b.known = true
	if len(waiting) == 0 || b.leases.conns.Stopped() {
		for s, free := range b.waiters {
			free <- mysqlconn.ErrClosed
			delete(b.waiters, s)
		}
		b.asks, b.on, waiting = false, "", nil
	}
	return waiting, b.server
}

// tell wakes the waiters whose lock is free, or all of them after an error.
func (b *board) tell(waiting []*signal, free []int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range waiting {
		if to := b.waiters[s]; to != nil && (err != nil || slices.Contains(free, i)) {
			to <- err
			delete(b.waiters, s)
		}
	}
}

// look waits until the lock of one of the signals is free, and returns which are.
func (b *board) look(ctx context.Context, c *conn, waiting []*signal) (free []int, err error) {
	wait, began := min(b.leases.currentWait(), boardWait), time.Now()
	var list string
	err = c.QueryRow(ctx, lookStatement(c, waiting, wait)).Scan(&list)
	switch {
	case errors.Is(err, sql.ErrNoRows): // not in that time
		return nil, nil
	case err != nil && mysqlconn.IsConnectionError(err):
		b.leases.shortenWait(wait, time.Since(began))
	}
	for text := range strings.SplitSeq(list, ",") {
		if i, err := strconv.Atoi(text); err == nil {
			free = append(free, i)
		}
	}
	return free, err
}

// lookStatement goes through as many rows as there are intervals, sleeps at each, and ends with
// the first at which a lock is free: it lists those. That all depends on the row keeps the server from
// doing it only once.
func lookStatement(c *conn, waiting []*signal, wait time.Duration) string {
	var list strings.Builder
	for i, s := range waiting {
		fmt.Fprintf(&list, ",IF(IS_USED_LOCK(CONCAT('%s',LEFT(c.n,0))) IS NULL,'%d',NULL)", s.lock(c), i)
	}
	rows := func(n int) string { return "(SELECT 1 AS n" + strings.Repeat(" UNION ALL SELECT 1", n-1) + ")" }
	return fmt.Sprintf("SELECT CONCAT_WS(','%s) FROM %s a STRAIGHT_JOIN %s b STRAIGHT_JOIN %s c WHERE CONCAT_WS(',',IF(SLEEP(%.3f+LEFT(c.n,0)),'x',NULL)%s)<>'' LIMIT 1",
		list.String(), rows(max(1, int(wait/boardInterval)/64)), rows(8), rows(8), boardInterval.Seconds(), list.String())
}

// clear discards the connection when no signal is left.
func (b *board) clear() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if len(b.leases.all()) == 0 {
		b.drop()
	}
}

// close waits until nothing asks any more, once the connections have been stopped and the signals
// closed.
func (b *board) close() {
	b.work.Wait()
	b.clear()
}
