package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/store"
)

// bellWait is how long one GET_LOCK waits before it is repeated: not all servers
// support an unlimited wait. It is below 10 s, the default of long_query_time, so
// that no waiter is in the slow log, and connections are not silent for long.
const bellWait = 9 * time.Second

// bell is a user-level lock of the server: the bell that gets it is rung, and has
// it for as long as its connection lives. The server grants it to waiters in the
// order of arrival. It says nothing about the lease.
type bell struct {
	store *Store
	group string

	closing context.Context // ends with Close
	close   context.CancelFunc

	turn    chan struct{} // of capacity 1; filling it gives access to what follows
	session *session      // nil when there is none, or while Wait waits with it
	has     bool          // the session has the lock
}

// Bell implements [store.HandoverSignals]. A bell takes a connection of its own with the
// first Wait and keeps it until Close. Its Wait reconnects; when a connection
// that had the bell is lost, another waiter is rung, and the former holder only
// finds out with its next Wait.
func (s *Store) HandoverSignal(group string) store.HandoverSignal {
	b := &bell{store: s, group: group, turn: make(chan struct{}, 1)}
	b.closing, b.close = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		b.close()
	} else {
		s.bells[b] = struct{}{}
	}
	return b
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
	return fmt.Errorf("wait for bell: %w", b.store.explain(err))
}

func (b *bell) wait(ctx context.Context) error {
	if err := b.take(ctx); err != nil {
		return err
	}
	if b.has && b.stillHas(ctx) {
		b.give()
		return nil
	}
	if b.has || b.session != nil && !b.session.alive(ctx) {
		b.drop()
	}
	s := b.session
	b.session = nil // while it waits, no other call uses it
	b.give()

	s, err := b.listen(ctx, s)
	if err != nil {
		return err
	}
	b.turn <- struct{}{}
	defer b.give()
	if b.closing.Err() != nil {
		s.discard()
		return b.closing.Err()
	}
	b.session, b.has = s, true
	return nil
}

// stillHas asks the server whether this connection has the lock. It is called
// with the turn.
func (b *bell) stillHas(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var mine sql.NullBool
	err := b.session.conn.QueryRowContext(ctx, hasLock.Render(b.lock(b.session))).Scan(&mine)
	return err == nil && mine.Bool
}

// listen waits for the lock, with s or a new session. It returns the session
// that has got it.
func (b *bell) listen(ctx context.Context, s *session) (*session, error) {
	for {
		if s == nil {
			var err error
			if s, err = b.connect(ctx); err != nil {
				return nil, err
			}
		}
		wait, begin := b.store.currentBellWait(), time.Now()
		var got sql.NullInt64
		err := s.conn.QueryRowContext(ctx, getLock.Render(b.lock(s), int(wait/time.Second))).Scan(&got)
		switch {
		case err == nil && got.Int64 == 1:
			return s, nil
		case err == nil && got.Valid: // not in that time
			continue
		case err == nil:
			err = errors.New("the server has no GET_LOCK to give")
		}
		s.discard()
		s = nil
		if ctx.Err() != nil || !isConnectionError(err) || !b.store.shortenBellWait(wait, time.Since(begin)) {
			return nil, err
		}
	}
}

func (b *bell) connect(ctx context.Context) (*session, error) {
	if err := b.store.checkBells(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
	defer cancel()
	s, err := b.store.openSession(ctx, settings{lockWait: lookLockWait})
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return s, err
}

// lock is the lock's name, the same for all replicas of a group: of at most 64
// characters and in lower case, because servers differ in what they do with
// others.
func (b *bell) lock(s *session) string {
	return lockName(s.server.database, b.store.tables.prefix, b.group)
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
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if _, err := b.session.exec(ctx, releaseLock.Render(b.lock(b.session))); err != nil {
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
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	delete(b.store.bells, b)
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

// drop discards the session. It is called with the turn.
func (b *bell) drop() {
	if b.session != nil {
		b.session.discard()
	}
	b.session, b.has = nil, false
}

// checkBells keeps bells from taking the connections that the rest of the store
// needs from the caller's pool, and the caller's last.
func (s *Store) checkBells() error {
	most := s.pins.Stats().MaxOpenConnections
	s.mu.Lock()
	bells := len(s.bells)
	s.mu.Unlock()
	if others := pinned - 1; most > 0 && bells+others >= most {
		return fmt.Errorf("the pool has SetMaxOpenConns(%d): %d bells need at least %d", most, bells, bells+others+1)
	}
	return nil
}

func (s *Store) currentBellWait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bellWait
}

// shortenBellWait is told that a wait was cut off. If that looks like the read
// timeout of the caller's pool, later waits stay below it, and it returns true.
func (s *Store) shortenBellWait(wait, took time.Duration) bool {
	if s.owned || took < time.Second || took > wait+time.Second {
		return false
	}
	shorter := max(time.Second, (took - time.Second/2).Truncate(time.Second))
	if shorter >= wait {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bellWait = min(s.bellWait, shorter)
	return true
}
