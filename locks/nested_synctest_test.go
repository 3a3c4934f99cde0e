package locks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/locks"
)

var errEnough = errors.New("enough")

func TestNested(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		ctx, cancel := context.WithCancel(held.Context())
		defer cancel()
		for _, get := range []func(context.Context) (*locks.Lock, error){
			a.Mutex("stock").Lock, a.Mutex("stock").TryLock, a.RWMutex("stock").RLock, a.RWMutex("stock").TryRLock,
			func(ctx context.Context) (*locks.Lock, error) { return a.Mutex("stock").LockFor(ctx, time.Second) },
			func(ctx context.Context) (*locks.Lock, error) {
				return nil, a.Do(ctx, "stock", func(context.Context) error { t.Error("runs"); return nil })
			},
		} {
			l, err := get(ctx)
			if l != nil {
				t.Error("has it twice")
			}
			is(t, err, locks.ErrNested)
		}
		// Other locks, and other clients, are not nested.
		l, err := a.Mutex("other").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Mutex("stock").Lock(l.Context()); !errors.Is(err, locks.ErrNested) {
			t.Errorf("under two locks: %v", err)
		}
		if _, err := a.Mutex("other").Lock(l.Context()); !errors.Is(err, locks.ErrNested) {
			t.Errorf("under two locks: %v", err)
		}
		is(t, second(b.Mutex("stock").TryLock(ctx)), locks.ErrBusy)
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		held.unlock(t)
		// Once it is unlocked its context holds nothing any more.
		is(t, second(a.Mutex("stock").Lock(ctx)), locks.ErrUnlocked)
		if l, err = a.Mutex("stock").Lock(context.WithoutCancel(ctx)); err != nil {
			t.Fatal(err)
		}
		w.enter(l, false, timing.Grace).unlock(t)
	})
}

func second(_ *locks.Lock, err error) error { return err }

func TestReentrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		m := a.Mutex("stock", locks.Reentrant())
		held := a.lock("stock", locks.Reentrant())
		sent := a.link.All()
		inner, err := m.Lock(held.Context())
		if err != nil {
			t.Fatal(err)
		}
		innermost, err := m.TryLock(inner.Context())
		if err != nil {
			t.Fatal(err)
		}
		reading, err := a.RWMutex("stock", locks.Reentrant()).RLock(held.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []*locks.Lock{inner, innermost, reading} {
			if l.Name() != "stock" || l.Token() != held.Token() || !l.Trusted() || l.Context().Err() != nil {
				t.Errorf("%q, token %d, trusted %v, %v", l.Name(), l.Token(), l.Trusted(), l.Context().Err())
			}
		}
		if n := a.link.All(); n != sent {
			t.Errorf("%d statements for nested locks", n-sent)
		}
		next := b.waits("stock")
		for _, l := range []*locks.Lock{innermost, reading, inner} {
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			is(t, l.Unlock(t.Context()), locks.ErrUnlocked)
			next.hasNot()
			if !held.Trusted() || held.Context().Err() != nil {
				t.Fatal("the outer one ends with an inner one")
			}
		}
		inner, err = m.Lock(held.Context())
		if err != nil {
			t.Fatal(err)
		}
		held.unlock(t)
		next.has()
		if inner.Trusted() || inner.Context().Err() == nil {
			t.Error("the inner one outlives the outer one")
		}
		is(t, inner.Unlock(t.Context()), locks.ErrUnlocked)
		next.stay.unlock(t)
	})
}

// A reader cannot upgrade to a writer by any method: two that did would deadlock.
func TestUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.rlock("stock")
		rw := a.RWMutex("stock", locks.Reentrant())
		for _, get := range []func(context.Context) (*locks.Lock, error){rw.Lock, rw.TryLock, a.Mutex("stock", locks.Reentrant()).Lock} {
			err := second(get(held.Context()))
			is(t, err, locks.ErrNested)
			if !strings.Contains(err.Error(), "read") {
				t.Errorf("%v", err)
			}
		}
		again, err := rw.RLock(held.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		held.unlock(t)
	})
}

func TestNestedAfterLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("stock", locks.Reentrant())
		inner, err := a.Mutex("stock", locks.Reentrant()).Lock(held.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.link.Cut()
		<-inner.Context().Done()
		is(t, context.Cause(inner.Context()), locks.ErrLost)
		err = second(a.Mutex("stock", locks.Reentrant()).Lock(held.Context()))
		is(t, err, locks.ErrLost)
		is(t, inner.Unlock(t.Context()), locks.ErrLost)
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		synctest.Wait()
	})
}

// A nested lock's context ends when the lock is lost, however the caller derived the
// context that it passed from the outer one.
func TestNestedContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("stock", locks.Reentrant())
		inner, err := a.Mutex("stock", locks.Reentrant()).Lock(context.WithoutCancel(held.Context()))
		if err != nil {
			t.Fatal(err)
		}
		a.link.Cut()
		<-held.Context().Done()
		synctest.Wait()
		if inner.Trusted() {
			t.Error("trusted")
		}
		if inner.Context().Err() == nil {
			t.Error("the context of the nested lock goes on after the lock was lost")
		}
		is(t, held.Unlock(t.Context()), locks.ErrLost)
	})
}

// A bounded time is kept inside another lock too.
func TestNestedLockFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("stock", locks.Reentrant())
		inner, err := a.Mutex("stock", locks.Reentrant()).LockFor(held.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if inner.Context().Err() == nil || inner.Trusted() {
			t.Error("a nested LockFor goes on after its limit")
		}
		if held.Context().Err() != nil {
			t.Error("and it ends the outer one")
		}
		held.unlock(t)
	})
}

// The context of a lock can look alive for a moment after the lock has ended. A caller that asks then
// is told why, by the reason that its context ends with too.
func TestNestedAtTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		limit  time.Duration
		reason error
	}{
		"limit": {time.Second, locks.ErrLimit},
		"lost":  {time.Hour, locks.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.rig()
				m := a.Mutex("stock", locks.Reentrant())
				for range 100 { // whose timer comes first at the moment of the end is chance
					held, err := m.LockFor(t.Context(), test.limit)
					if err != nil {
						t.Fatal(err)
					}
					inner, err := m.Lock(held.Context())
					if err != nil {
						t.Fatal(err)
					}
					if errors.Is(test.reason, locks.ErrLost) {
						a.link.Cut()
					}
					for held.Trusted() {
						time.Sleep(50 * time.Millisecond)
					}
					is(t, second(m.Lock(held.Context())), test.reason)
					is(t, inner.Unlock(t.Context()), test.reason)
					a.link.Heal()
					is(t, held.Unlock(t.Context()), test.reason)
					is(t, context.Cause(held.Context()), test.reason)
					if t.Failed() {
						return
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}
