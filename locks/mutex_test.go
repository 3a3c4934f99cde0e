package locks_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

func client(t *testing.T, s store.Locks, options ...locks.Option) *locks.Client {
	t.Helper()
	c, err := locks.New(s, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func lock(t *testing.T, m *locks.Mutex) *locks.Lock {
	t.Helper()
	l, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func unlock(t *testing.T, l *locks.Lock) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOneAtATimeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		a, b := client(t, store), client(t, store)
		first := lock(t, a.Mutex("stock"))
		if _, err := b.Mutex("stock").TryLock(t.Context()); !errors.Is(err, locks.ErrBusy) {
			t.Fatalf("TryLock of a held lock: %v", err)
		}
		got := make(chan int, 8)
		release := make(chan struct{})
		for i, c := range []*locks.Client{b, a, b, a} {
			go func() {
				l, err := c.Mutex("stock").Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				got <- i
				<-release
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if len(got) > 0 {
			t.Fatal("the lock has two holders")
		}
		begin := time.Now()
		unlock(t, first)
		for i := range 4 {
			if next := <-got; next != i {
				t.Fatalf("number %d has it, want %d", next, i)
			}
			synctest.Wait()
			if len(got) > 0 {
				t.Fatal("two have it")
			}
			release <- struct{}{}
		}
		synctest.Wait()
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("four hand-overs took %v", took)
		}
	})
}

// A nested lock leaves nothing behind once it is unlocked, though the outer one is held for long.
func TestNestedLeavesNothing(t *testing.T) {
	t.Parallel()
	m := client(t, memdb.New()).Mutex("stock", locks.Reentrant())
	outer, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	inner, err := m.Lock(outer.Context())
	if err != nil {
		t.Fatal(err)
	}
	runtime.AddCleanup(inner, func(gone chan struct{}) { close(gone) }, gone)
	if err := inner.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	limit := time.After(10 * time.Second)
	for waits := true; waits; {
		runtime.GC()
		select {
		case <-gone:
			waits = false
		case <-look.C:
		case <-limit:
			t.Error("it is still there")
			waits = false
		}
	}
	if err := outer.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
