package locks_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/locks"
)

func TestLockFor(t *testing.T) {
	for _, kind := range []string{"mutex", "writer", "reader"} {
		for _, unlocks := range []string{"in time", "in the grace", "late", "never"} {
			t.Run(kind+" "+unlocks, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.rig(), w.rig()
					const limit = time.Minute
					get := map[string]func(context.Context, time.Duration) (*locks.Lock, error){
						"mutex": a.Mutex("stock").LockFor, "writer": a.RWMutex("stock").LockFor, "reader": a.RWMutex("stock").RLockFor,
					}[kind]
					// It counts from when it has the lock.
					first := b.lock("stock")
					held := a.wait(kind == "reader", func(ctx context.Context) (*locks.Lock, error) { return get(ctx, limit) })
					time.Sleep(time.Minute)
					first.unlock(t)
					l := held.has()
					begin := time.Now()
					next := b.waits("stock")
					switch unlocks {
					case "in time":
						time.Sleep(limit - time.Second)
						l.unlock(t)
						next.has().unlock(t)
						time.Sleep(2 * limit)
						is(t, context.Cause(l.Context()), locks.ErrUnlocked)
						return
					case "in the grace":
						sleepUntil(begin, limit-time.Nanosecond)
						synctest.Wait()
						if l.Context().Err() != nil || !l.Trusted() {
							t.Fatalf("ended early: %v", context.Cause(l.Context()))
						}
						sleepUntil(begin, limit)
						synctest.Wait()
						is(t, context.Cause(l.Context()), locks.ErrLimit)
						if l.Trusted() {
							t.Error("trusted after its limit")
						}
						next.hasNot()
						time.Sleep(timing.Grace / 2)
						next.hasNot()
						is(t, l.Unlock(t.Context()), locks.ErrLimit)
						next.has().unlock(t)
						return
					}
					sleepUntil(begin, limit+timing.Grace-time.Nanosecond)
					next.hasNot()
					sleepUntil(begin, limit+timing.Grace)
					next.has()
					if unlocks == "late" {
						is(t, l.Unlock(t.Context()), locks.ErrLimit)
						if !next.stay.Trusted() || len(w.look("stock").Places) != 1 {
							t.Error("a late unlock has taken it from another holder")
						}
						is(t, l.Unlock(t.Context()), locks.ErrUnlocked)
					}
					next.stay.unlock(t)
				})
			})
		}
	}
}

// The longest limit there is ends nothing, and does not overflow.
func TestLockForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.wait(false, func(ctx context.Context) (*locks.Lock, error) { return a.Mutex("stock").LockFor(ctx, math.MaxInt64) })
		l := held.has()
		next := b.waits("stock")
		time.Sleep(time.Hour)
		next.hasNot()
		if !l.Trusted() {
			t.Errorf("lost: %v", context.Cause(l.Context()))
		}
		l.unlock(t)
		next.has().unlock(t)
	})
}

func TestLockForNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newWorld(t).rig()
		for _, limit := range []time.Duration{0, -time.Second} {
			for _, get := range []func(context.Context, time.Duration) (*locks.Lock, error){a.Mutex("stock").LockFor, a.RWMutex("stock").LockFor, a.RWMutex("stock").RLockFor} {
				if l, err := get(t.Context(), limit); l != nil || err == nil {
					t.Errorf("for %v: %v, %v", limit, l, err)
				}
			}
		}
		synctest.Wait()
		if n := a.link.All(); n > 0 {
			t.Errorf("%d statements", n)
		}
	})
}

// The limit passes while the database is away: the context still ends, and the lock
// is passed on once the database is back.
func TestLockForWithoutDatabase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		l, err := a.Mutex("stock").LockFor(t.Context(), 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s := w.enter(l, false, timing.Grace)
		next := b.waits("stock")
		a.link.Hang()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		is(t, context.Cause(s.Context()), locks.ErrLimit)
		time.Sleep(timing.Grace + time.Second)
		next.hasNot()
		a.link.Heal()
		next.within(timing.AttemptTimeout + time.Second).unlock(t)
		if err := s.Unlock(t.Context()); !errors.Is(err, locks.ErrLimit) {
			t.Errorf("%v", err)
		}
	})
}

// A holder that never unlocks after its limit costs its process nothing: neither
// Close nor the session after a lost one waits for it.
func TestNeverUnlocked(t *testing.T) {
	t.Run("close", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.rig(), w.rig()
			if _, err := a.Mutex("stock").LockFor(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			begin := time.Now()
			if err := a.Close(context.Background()); err != nil || time.Since(begin) > 0 {
				t.Errorf("closed after %v: %v", time.Since(begin), err)
			}
			b.lock("stock").unlock(t)
		})
	})
	t.Run("lost session", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			w := newWorld(t)
			a := w.rig()
			if _, err := a.Mutex("stock").LockFor(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			a.link.Cut()
			time.Sleep(timing.TTL)
			waiting := a.waits("other")
			a.link.Heal()
			waiting.within(2 * time.Second).unlock(t)
		})
	})
}

// The error of an unlock that is not confirmed tells of the limit too.
func TestUnlockAfterTheLimitWithoutDatabase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		l, err := a.Mutex("stock").LockFor(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		a.link.Cut()
		ctx, cancel := context.WithTimeout(t.Context(), timing.Grace/2)
		defer cancel()
		err = l.Unlock(ctx)
		is(t, err, locks.ErrLimit)
		is(t, err, context.DeadlineExceeded)
	})
}
