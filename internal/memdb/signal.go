package memdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/cronlease/cronlease/store"
)

var (
	errClosed = errors.New("memstore: signal closed")
	errCutOff = errors.New("memstore: signal cut off")
	errNotHad = errors.New("memstore: release with a signal that another has")

	_ store.DirectHandover = (*signal)(nil)
)

// signal waits for a slot in its group's channel: the one that fills the channel
// has it.
type signal struct {
	store  *Store
	line   chan struct{}
	closed chan struct{}
	group  string
	off    bool // see CutOff; of store.mu

	mu   sync.Mutex
	has  bool
	shut bool // closed is closed
}

// term is one that a signal has announced.
type term struct {
	group string
	token uint64
}

// HandoverSignal implements [store.HandoverSignals].
func (s *Store) HandoverSignal(group string) store.HandoverSignal {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, ok := s.signals[group]
	if !ok {
		line = make(chan struct{}, 1)
		s.signals[group] = line
	}
	return &signal{store: s, group: group, line: line, closed: make(chan struct{})}
}

// Announce implements [store.PresenceSignal].
func (b *signal) Announce(ctx context.Context, token uint64, server string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.hide()
	if b.off {
		return errCutOff
	}
	if server == b.store.identity() || store.IsReplicaToken(token) {
		b.store.present[term{b.group, token}] = b
	}
	return nil
}

// Present implements [store.PresenceSignal].
func (b *signal) Present(ctx context.Context, token uint64) (bool, string, error) {
	if err := ctx.Err(); err != nil {
		return false, "", err
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return b.store.present[term{b.group, token}] != nil, b.store.identity(), nil
}

// vanish makes the terms of the signal absent.
func (b *signal) vanish() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.hide()
}

func (b *signal) hide() {
	maps.DeleteFunc(b.store.present, func(_ term, of *signal) bool { return of == b })
}

// Cut cuts the connection of the signal of a group's leader, as an administrator or
// a network may: the next waiter has the signal. The leader finds out with its next
// Wait.
func (s *Store) Cut(group string) { s.cut(group, false) }

// CutOff is Cut, and the leader's signal gets no connection any more.
func (s *Store) CutOff(group string) { s.cut(group, true) }

func (s *Store) cut(group string, off bool) {
	s.mu.Lock()
	b := s.present[term{group, s.leases[group].Token}]
	if b != nil {
		b.off = off
	}
	s.mu.Unlock()
	if b != nil {
		_ = b.Pass(context.Background())
	}
}

// isOff reports whether CutOff was called.
func (b *signal) isOff() bool {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return b.off
}

// Wait implements [store.HandoverSignal].
func (b *signal) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.had() {
		return nil
	}
	if b.isOff() {
		return errCutOff
	}
	select {
	case b.line <- struct{}{}:
		return b.take()
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
		return errClosed
	}
}

func (b *signal) had() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.has
}

// take keeps the line, unless the signal was closed meanwhile: then it would
// never be passed.
func (b *signal) take() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		<-b.line
		return errClosed
	}
	b.has = true
	return nil
}

// Pass implements [store.HandoverSignal].
func (b *signal) Pass(context.Context) error {
	b.vanish()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
	return nil
}

func (b *signal) pass() {
	if b.has {
		b.has = false
		<-b.line
	}
}

// Release implements [store.DirectHandover].
func (b *signal) Release(ctx context.Context, owner string, token uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.has {
		return errNotHad
	}
	if err := b.store.Release(ctx, b.group, owner, token); err != nil {
		return err
	}
	b.vanish()
	b.pass()
	return nil
}

// Take implements [store.DirectHandover].
func (b *signal) Take(ctx context.Context, a store.Acquire) (uint64, error) {
	if a.Read.Group != b.group {
		return 0, fmt.Errorf("memstore: a reading of %q for the signal of %q", a.Read.Group, b.group)
	}
	return b.store.acquire(ctx, a, func(l store.Lease) bool { return l.Released && l.Heartbeat >= a.Read.Lease.Heartbeat })
}

// Close implements [store.HandoverSignal].
func (b *signal) Close() error {
	b.vanish()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
	if !b.shut {
		b.shut = true
		close(b.closed)
	}
	return nil
}
