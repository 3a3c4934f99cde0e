package mysqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// doorbell is a connection that sleeps until another client kills its statement
// (KILL QUERY, which needs no privilege among connections of one account). Its
// address is the server's identity and the name of a user-level lock that its
// session has, which is never used twice: so no other statement is killed. A
// connection's id would not do, because proxies have ids of their own.
//
// If the session turns out to be shared, as behind a proxy that shares sessions,
// the doorbell is deaf: it has no address, and polls instead.
type doorbell struct {
	store *Store

	mu      sync.Mutex
	session *session // nil when there is none
	name    string   // of its lock; empty when the doorbell is deaf
	closed  bool
}

// Doorbell implements [store.Notifiers]. It takes a connection of its own with the
// first Address or Wait. Waiters with another account, or on another node of a
// cluster, cannot be rung, and poll once a second.
func (s *Store) Notifier() store.Notifier {
	d := &doorbell{store: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		d.closed = true
	} else {
		s.doorbells[d] = struct{}{}
	}
	return d
}

// Address implements [store.Notifier].
func (d *doorbell) Address(ctx context.Context) (address string, err error) {
	err = d.store.with(ctx, "open doorbell", func(ctx context.Context) error {
		s, name, err := d.open(ctx)
		if err == nil && name != "" {
			address = s.server.identity + "#" + name
		}
		return err
	})
	return address, err
}

// bellName is what the names of doorbells begin with.
const bellName = "cronlease:bell:"

// open returns the session, a new one if need be, and the name of its lock, which
// is empty when the session is not the doorbell's own.
func (d *doorbell) open(ctx context.Context) (*session, string, error) {
	d.mu.Lock()
	s, name, closed := d.session, d.name, d.closed
	d.mu.Unlock()
	if closed {
		return nil, "", errors.New("closed")
	}
	if s != nil && s.alive(ctx) {
		return s, name, nil
	}
	d.drop(s)
	s, err := d.store.openSession(ctx, settings{lockWait: lockWait})
	if err != nil {
		return nil, "", err
	}
	if name, err = s.takeName(ctx); err != nil {
		s.discard()
		return nil, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		s.discard()
		return nil, "", errors.New("closed")
	}
	d.session, d.name = s, name
	return s, name, nil
}

// takeName takes a lock of a new name, and returns that if the lock is this
// session's.
func (s *session) takeName(ctx context.Context) (string, error) {
	name := bellName + strings.ToLower(rand.Text())
	var got sql.NullInt64
	if err := s.conn.QueryRowContext(ctx, getLock.Render(name, 0)).Scan(&got); err != nil || got.Int64 != 1 {
		return "", err
	}
	// In a statement of its own: behind a proxy it may reach another session.
	owns, err := s.count(ctx, ownsBell.Render(name))
	if err != nil || owns != 1 {
		return "", err
	}
	return name, nil
}

// deafen is told that a session was not the doorbell's own.
func (d *doorbell) deafen(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == s {
		d.name = ""
	}
}

// drop discards a session.
func (d *doorbell) drop(s *session) {
	if s == nil {
		return
	}
	d.mu.Lock()
	if d.session == s {
		d.session, d.name = nil, ""
	}
	d.mu.Unlock()
	s.discard()
}

// Wait implements [store.Notifier].
func (d *doorbell) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	return d.store.with(ctx, "wait for doorbell", func(ctx context.Context) error {
		s, name, err := d.open(ctx)
		if err != nil {
			return err
		}
		if name == "" {
			return sleep(ctx, limit)
		}
		var moved strings.Builder
		for i, w := range rows {
			if i > 0 {
				moved.WriteString(" UNION ALL ")
			}
			moved.WriteString(d.store.locking.notWaits.Render(w.Name, string(w.Mark)))
		}
		if len(rows) == 0 {
			moved.WriteString("SELECT 1 FROM DUAL WHERE 0 = 1")
		}
		query := d.store.locking.wait.Render(sqltext.Raw(moved.String()), name, sqltext.Raw(fmt.Sprintf("%.3f", limit.Seconds())))
		answer, err := s.count(ctx, query)
		switch {
		case mysqlerr.Number(err) == mysqlerr.Interrupted:
			return nil
		case err != nil:
			d.drop(s)
		case answer == 2:
			d.deafen(s)
			return sleep(ctx, limit)
		}
		return err
	})
}

// sleep is a Wait that only looks again.
func sleep(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ring implements [store.Notifier].
func (d *doorbell) Notify(ctx context.Context, addresses ...string) error {
	return d.store.onLocks(ctx, "ring doorbells", false, func(ctx context.Context, one *session) error {
		for _, address := range addresses {
			// Earlier versions had a connection's id in the place of the name; they
			// look once a second.
			server, name, _ := strings.Cut(address, "#")
			if server != one.server.identity || !strings.HasPrefix(name, bellName) || len(name) > 64 {
				continue
			}
			if _, err := one.exec(ctx, killQuery.Render(name)); err != nil && !isServerError(err) {
				return err
			}
		}
		return nil
	})
}

// Close implements [store.Notifier].
func (d *doorbell) Close() error {
	d.mu.Lock()
	d.closed = true
	s := d.session
	d.mu.Unlock()
	d.drop(s)
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	delete(d.store.doorbells, d)
	return nil
}
