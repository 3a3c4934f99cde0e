package memstore

import (
	"context"
	"errors"
	"sync"

	"github.com/cronlease/cronlease/store"
)

var errClosed = errors.New("memstore: bell closed")

// bell waits for a slot in its group's channel: the bell that fills the channel
// has been rung.
type bell struct {
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
	line, ok := s.bells[group]
	if !ok {
		line = make(chan struct{}, 1)
		s.bells[group] = line
	}
	return &bell{line: line, closed: make(chan struct{})}
}

// Wait implements [store.HandoverSignal].
func (b *bell) Wait(ctx context.Context) error {
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

func (b *bell) had() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.has
}

// take keeps the line, unless the bell was closed meanwhile: then it would
// never be passed.
func (b *bell) take() error {
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
func (b *bell) Pass(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
	return nil
}

func (b *bell) pass() {
	if b.has {
		b.has = false
		<-b.line
	}
}

// Close implements [store.HandoverSignal].
func (b *bell) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
	if !b.shut {
		b.shut = true
		close(b.closed)
	}
	return nil
}
