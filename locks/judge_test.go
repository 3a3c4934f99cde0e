package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
)

// A TryLock returns when its context ends, even while another goroutine is still
// finding out whether the holder is alive. This runs in real time: a bubble would
// deadlock if it failed.
func TestTryLockBesideASlowLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newLink(w.database)
	holder, err := locks.New(w.database)
	if err != nil {
		t.Fatal(err)
	}
	held, err := holder.Mutex("stock").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := locks.New(l)
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Mutex("own").Lock(t.Context()) // it has its session
	if err != nil {
		t.Fatal(err)
	}
	looking, answer := make(chan struct{}), make(chan struct{})
	l.Once("Read", faulty.Fault{Before: func() {
		close(looking)
		<-answer
	}})
	try := func(ctx context.Context) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if l, err := c.Mutex("stock").TryLock(ctx); err == nil {
				t.Errorf("has it too: %v", l.Token())
			}
		}()
		return done
	}
	first := try(t.Context())
	<-looking
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	other := try(ctx)
	select {
	case <-other:
	case <-time.After(10 * time.Second):
		t.Error("a TryLock does not heed its context while the holder is looked at for another")
	}
	close(answer)
	<-first
	<-other
	for _, l := range []*locks.Lock{held, own} {
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []*locks.Client{c, holder} {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
