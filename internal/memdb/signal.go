package memdb

import (
	"context"
	"errors"
	"sync"

	"github.com/cronlease/cronlease/store"
)

var errClosed = errors.New("memstore: signal closed")

// signal waits for a slot in its group's channel: the one that fills the channel
// has it.
type signal struct {
	line   chan struct{}
	closed chan struct{}

	mu   sync.Mutex
	has  bool
	shut bool // closed is closed
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
	return &signal{line: line, closed: make(chan struct{})}
}

// Wait implements [store.HandoverSignal].
func (b *signal) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.had() {
		return nil
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

// Close implements [store.HandoverSignal].
func (b *signal) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
	if !b.shut {
		b.shut = true
		close(b.closed)
	}
	return nil
}
