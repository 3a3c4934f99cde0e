package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/locks"
)

// doorbell is a connection that sleeps, and is woken by whoever kills its
// statement (KILL QUERY, which needs no privilege among connections of one
// account). Its address is the server's identity and the connection's id there:
// an id is not used twice by one start of a server, so nothing else is killed.
type doorbell struct {
	store *Store

	mu      sync.Mutex
	session *session // nil when there is none
	id      uint64
	closed  bool
}

// Doorbell implements [locks.Ringer]. It takes a connection of its own with the
// first Address or Wait. Who waits with another account, or on another node of a
// cluster, is not reached, and looks by itself once a second.
func (s *Store) Doorbell() locks.Doorbell {
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

// Address implements [locks.Doorbell].
func (d *doorbell) Address(ctx context.Context) (address string, err error) {
	err = d.store.with(ctx, "open doorbell", func(ctx context.Context) error {
		s, id, err := d.open(ctx)
		if err == nil {
			address = addressOf(s, id)
		}
		return err
	})
	return address, err
}

func addressOf(s *session, id uint64) string {
	return s.server.identity + "#" + strconv.FormatUint(id, 10)
}

// open returns the session, a new one if need be.
func (d *doorbell) open(ctx context.Context) (*session, uint64, error) {
	d.mu.Lock()
	s, id, closed := d.session, d.id, d.closed
	d.mu.Unlock()
	if closed {
		return nil, 0, errors.New("closed")
	}
	if s != nil && s.alive(ctx) {
		return s, id, nil
	}
	d.drop(s)
	s, err := openSession(ctx, d.store.pins, settings{lockWait: lockWait})
	if err != nil {
		return nil, 0, err
	}
	n, err := s.count(ctx, connectionID)
	if err != nil {
		s.discard()
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		s.discard()
		return nil, 0, errors.New("closed")
	}
	d.session, d.id = s, uint64(n)
	return s, d.id, nil
}

// drop discards a session.
func (d *doorbell) drop(s *session) {
	if s == nil {
		return
	}
	d.mu.Lock()
	if d.session == s {
		d.session, d.id = nil, 0
	}
	d.mu.Unlock()
	s.discard()
}

// Wait implements [locks.Doorbell].
func (d *doorbell) Wait(ctx context.Context, rows []locks.Watch, limit time.Duration) error {
	return d.store.with(ctx, "wait for doorbell", func(ctx context.Context) error {
		s, _, err := d.open(ctx)
		if err != nil {
			return err
		}
		var moved strings.Builder
		for i, w := range rows {
			if i > 0 {
				moved.WriteString(" UNION ALL ")
			}
			moved.WriteString(fill(d.store.locking.notWaits, w.Name, string(w.Mark)))
		}
		if len(rows) == 0 {
			moved.WriteString("SELECT 1 FROM DUAL WHERE 0 = 1")
		}
		query := fill(d.store.locking.wait, text(moved.String()), text(fmt.Sprintf("%.3f", limit.Seconds())))
		_, err = s.count(ctx, query)
		if number(err) == interrupted {
			return nil
		}
		if err != nil {
			d.drop(s)
		}
		return err
	})
}

// Ring implements [locks.Doorbell].
func (d *doorbell) Ring(ctx context.Context, addresses ...string) error {
	return d.store.onLocks(ctx, "ring doorbells", false, func(ctx context.Context, one *session) error {
		for _, address := range addresses {
			server, id, _ := strings.Cut(address, "#")
			n, err := strconv.ParseUint(id, 10, 64)
			if err != nil || server != one.server.identity {
				continue
			}
			if _, err := one.exec(ctx, fill(killQuery, n)); err != nil && !isServerError(err) {
				return err
			}
		}
		return nil
	})
}

// Close implements [locks.Doorbell].
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
