package memdb

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

var (
	_ store.Locks     = (*Store)(nil)
	_ store.Notifiers = (*Store)(nil)
)

// lockRow is a row of a lock.
type lockRow struct {
	version uint64
	queue   []byte
	written time.Time
}

// ReadLocks implements [store.Locks].
func (s *Store) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	if err := ctx.Err(); err != nil {
		return store.LockReading{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := store.LockReading{Now: s.now(), Server: s.identity(), Floor: s.lockFloor}
	for _, name := range names {
		row := s.locks[name]
		r.Rows = append(r.Rows, store.LockRow{Name: name, Version: row.version, Queue: slices.Clone(row.queue)})
	}
	return r, nil
}

// WriteLocks implements [store.Locks].
func (s *Store) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, w := range writes {
		if err := w.Check(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make([]bool, len(writes))
	if server != s.identity() {
		return done, nil
	}
	for i, w := range writes {
		if row, ok := s.locks[w.Name]; row.version == w.Expect && (ok || w.Version > s.lockFloor) {
			s.locks[w.Name] = lockRow{w.Version, slices.Clone(w.Queue), s.now()}
			done[i] = true
		}
	}
	return done, nil
}

// HeldLocks implements [store.Locks].
func (s *Store) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now().Add(-idle)
	var found []string
	for name, row := range s.locks {
		if name > after && len(row.queue) > 0 && row.written.Before(before) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found[:min(len(found), limit)], nil
}

// PruneLocks implements [store.Locks].
func (s *Store) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, n := s.now().Add(-idle), 0
	for name, row := range s.locks {
		if n < limit && len(row.queue) == 0 && row.written.Before(before) {
			s.lockFloor = max(s.lockFloor, row.version)
			delete(s.locks, name)
			n++
		}
	}
	return n, nil
}

// PruneSessions implements [store.Locks].
func (s *Store) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, n := s.now(), 0
	for group, l := range s.leases {
		idle := expired
		if l.Released {
			idle = released
		}
		if n < limit && strings.HasPrefix(group, prefix) && l.RenewedAt.Before(now.Add(-idle)) {
			delete(s.leases, group)
			delete(s.fences, group)
			n++
		}
	}
	return n, nil
}

// UpdateLock changes the row of a lock behind its clients' backs, as an operator or
// a restored backup may. One that change returns with version 0 is deleted.
func (s *Store) UpdateLock(name string, change func(store.LockRow) store.LockRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.locks[name]
	changed := change(store.LockRow{Name: name, Version: row.version, Queue: slices.Clone(row.queue)})
	if changed.Version == 0 {
		delete(s.locks, name)
		return
	}
	s.locks[name] = lockRow{changed.Version, slices.Clone(changed.Queue), s.now()}
}

func (s *Store) identity() string {
	return fmt.Sprint("memory/", s.server)
}

// notifier is a channel that others find by its address.
type notifier struct {
	store   *Store
	address string
	woken   chan struct{} // of capacity 1
	closed  sync.Once
}

// Notifier implements [store.Notifiers].
func (s *Store) Notifier() store.Notifier {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbered++
	d := &notifier{store: s, address: fmt.Sprint("memory/", s.numbered), woken: make(chan struct{}, 1)}
	s.notifiers[d.address] = d
	return d
}

// Wait implements [store.Notifier].
func (d *notifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	d.store.mu.Lock()
	changed := slices.ContainsFunc(rows, func(w store.LockWatch) bool { return !bytes.Contains(d.store.locks[w.Name].queue, w.Mark) })
	d.store.mu.Unlock()
	if changed {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-d.woken:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Address implements [store.Notifier].
func (d *notifier) Address(ctx context.Context) (string, error) { return d.address, ctx.Err() }

// Notify implements [store.Notifier].
func (d *notifier) Notify(ctx context.Context, addresses ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	for _, address := range addresses {
		if other := d.store.notifiers[address]; other != nil {
			select {
			case other.woken <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// Close implements [store.Notifier].
func (d *notifier) Close() error {
	d.closed.Do(func() {
		d.store.mu.Lock()
		defer d.store.mu.Unlock()
		delete(d.store.notifiers, d.address)
	})
	return nil
}
