package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
)

func TestCloseOfAnIdleClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		if err := a.Close(t.Context()); err != nil || a.link.All() > 0 {
			t.Errorf("before the first lock: %v, %d statements", err, a.link.All())
		}
		b.lock("stock").unlock(t)
		held := b.lock("stock")
		group := w.look("stock").Processes[0].Group
		held.unlock(t)
		for range 2 { // closing twice is closing once
			begin := time.Now()
			if err := b.Close(t.Context()); err != nil || time.Since(begin) > 0 {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
		}
		// Its session was released.
		readings, err := w.Read(t.Context(), group)
		if err != nil || !readings[0].Lease.Released {
			t.Errorf("session %+v, %v", readings[0].Lease, err)
		}
		for _, r := range []*rig{a, b} {
			is(t, second(r.Mutex("stock").Lock(t.Context())), locks.ErrClosed)
			is(t, second(r.Mutex("stock").TryLock(t.Context())), locks.ErrClosed)
			is(t, second(r.RWMutex("stock").RLock(t.Context())), locks.ErrClosed)
			is(t, r.Do(t.Context(), "stock", func(context.Context) error { t.Error("runs"); return nil }), locks.ErrClosed)
		}
	})
}

// Close ends the waiters with an error, waits for the holders, and removes the
// places of both.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held, other := a.lock("stock"), b.lock("other")
		waiting, behind := a.waits("other"), b.waits("other")
		next := b.waits("stock")
		closed := make(chan error)
		go func() { closed <- a.Close(context.Background()) }()
		if !waiting.is() {
			t.Fatal("still waits")
		}
		is(t, waiting.err, locks.ErrClosed)
		is(t, second(a.Mutex("third").Lock(t.Context())), locks.ErrClosed)
		time.Sleep(time.Hour) // held all that time
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("closed while a lock is held: %v", err)
		default:
		}
		if !held.Trusted() {
			t.Errorf("%v", context.Cause(held.Context()))
		}
		next.hasNot()
		held.unlock(t)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		next.has().unlock(t)
		other.unlock(t)
		behind.has().unlock(t)
	})
}

// Locks that are still held when the context of Close ends are left to expire:
// the error names them, their contexts end before other processes are granted
// them, and their Unlock returns an error.
func TestCloseWithAHeldLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		a.leaves = true
		next := b.waits("stock")
		time.Sleep(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := a.Close(ctx)
		if err == nil || !strings.Contains(err.Error(), "stock") {
			t.Errorf("%v", err)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("closed after %v", took)
		}
		next.hasNot()
		if held.Trusted() {
			t.Error("trusted without a heartbeat")
		}
		select {
		case <-held.ended:
			is(t, context.Cause(held.Context()), locks.ErrLost)
		case <-time.After(timing.Trust()):
			t.Error("the context of a lock goes on, without a heartbeat")
		}
		next.within(2 * timing.TTL).unlock(t)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin = time.Now()
		is(t, held.Unlock(ctx), locks.ErrLost)
		if took := time.Since(begin); took > 0 {
			t.Errorf("its unlock waits for %v, for nothing", took)
		}
	})
}

// A Close that has given up ends every other one, at the same time or later: with an error, whatever
// has been unlocked since.
func TestCloseAfterAClose(t *testing.T) {
	for _, unlock := range []bool{true, false} {
		t.Run(fmt.Sprint("unlocked ", unlock), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.rig()
				held := a.lock("stock")
				a.leaves = true
				beside := make(chan error, 1)
				go func() { beside <- a.Close(context.Background()) }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := a.Close(ctx); err == nil || !strings.Contains(err.Error(), "stock") {
					t.Errorf("%v", err)
				}
				if unlock {
					is(t, held.Unlock(t.Context()), locks.ErrLost)
				}
				begin := time.Now()
				later := a.Close(context.Background())
				if took := time.Since(begin); later == nil || took > 0 {
					t.Errorf("unlocked %v: the next Close after %v: %v", unlock, took, later)
				}
				if err := <-beside; err == nil {
					t.Error("a Close beside it has no error")
				}
				if !unlock {
					is(t, held.Unlock(t.Context()), locks.ErrLost)
				}
			})
		})
	}
}

// Close does not wait for a database that does not answer for longer than its
// context and one statement.
func TestCloseWithoutDatabase(t *testing.T) {
	for name, breakLink := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				held, other := a.lock("stock"), b.lock("other")
				waiting := a.waits("other")
				held.unlock(t)
				breakLink(a.link)
				a.leaves = true
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				err := a.Close(ctx)
				took := time.Since(begin)
				if !waiting.is() {
					t.Fatal("still waits")
				}
				is(t, waiting.err, locks.ErrClosed)
				if err == nil {
					t.Error("no error, and nothing was confirmed")
				}
				if took > time.Second+timing.AttemptTimeout {
					t.Errorf("closed after %v: %v", took, err)
				}
				other.unlock(t)
				b.waits("other").within(afterCrash + 2*aLook).unlock(t) // behind a place that was not removed
			})
		})
	}
}

// Unlock and Close return nil only for what the database has confirmed, also when the session's
// trust ends first. Nothing was lost: the work had stopped.
func TestUnlockWithoutDatabase(t *testing.T) {
	for name, breakLink := range outages {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, closes %v", name, closes), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.rig(), w.rig()
					a.leaves = true
					l, err := a.Mutex("stock").Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					next := b.waits("stock")
					time.Sleep(3 * time.Second)
					breakLink(a.link)
					begin, unlocked := time.Now(), make(chan error, 1)
					go func() { unlocked <- l.Unlock(t.Context()) }()
					if closes {
						synctest.Wait()
						if a.Close(t.Context()) == nil {
							t.Error("Close returned nil")
						}
					}
					if err := <-unlocked; err == nil || errors.Is(err, locks.ErrLost) || !strings.Contains(err.Error(), "not confirmed") {
						t.Errorf("Unlock returned %v", err)
					}
					if took := time.Since(begin); took > 2*timing.TTL {
						t.Errorf("returned after %v", took)
					}
					next.within(afterCrash + aLook).unlock(t)
				})
			})
		}
	}
}

// A Close that comes soon after says so too; not one after the session must have expired, or with a
// database that answers.
func TestCloseAfterAnUnlockInDoubt(t *testing.T) {
	for what, test := range map[string]struct {
		after time.Duration
		heals bool
		want  bool
	}{
		"soon": {0, false, false}, "late": {timing.TTL + 1, false, true}, "with the database": {timing.TTL / 2, true, true},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.rig()
				held := a.lock("stock")
				a.link.Cut()
				if err := held.Unlock(t.Context()); err == nil {
					t.Error("confirmed without a database")
				}
				if test.heals {
					a.link.Heal()
					a.lock("other").unlock(t)
				}
				time.Sleep(test.after)
				a.leaves = !test.want
				if err := a.Close(t.Context()); (err == nil) != test.want {
					t.Errorf("Close returned %v", err)
				}
			})
		})
	}
}

// The release of the session confirms an unlock that could not be written.
func TestUnlockByTheReleaseOfTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		b.lock("other").unlock(t)
		held := a.lock("stock")
		a.link.Always(func(op string) (f faulty.Fault) {
			if op == "WriteLocks" || op == "Renew" {
				f.Err = faulty.ErrLost
			}
			return f
		})
		held.unlock(t)
		l, err := b.Mutex("stock").TryLock(t.Context())
		if err != nil {
			t.Fatalf("unlocked, but not free: %v", err)
		}
		w.enter(l, false, timing.Grace).unlock(t)
	})
}

// So does the answer to its write, also after the session's end, while other work of it has not stopped.
func TestUnlockAnsweredAfterItsSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held, other := a.lock("stock"), a.lock("other")
		time.Sleep(3*timing.RenewEvery - 100*time.Millisecond)
		w.Update(w.look("stock").Processes[0].Group, deleteRows)
		a.link.Only("WriteLocks", faulty.Fault{Reply: time.Second})
		begin := time.Now()
		held.unlock(t)
		if took := time.Since(begin); other.Context().Err() == nil || took > 2*time.Second {
			t.Errorf("confirmed after %v; the session has ended: %v", took, other.Context().Err() != nil)
		}
		a.link.Heal()
		is(t, other.Unlock(t.Context()), locks.ErrLost)
	})
}

// A caller that waits before the first session, without a database, gets the error
// too.
func TestCloseBeforeTheFirstSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.link.Hang()
		waiting := a.waits("stock")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 2*timing.AttemptTimeout {
			t.Errorf("closed after %v", took)
		}
		if !waiting.is() {
			t.Fatal("still waits")
		}
		is(t, waiting.err, locks.ErrClosed)
	})
}

// A session whose release is not confirmed expires, and only that is told.
func TestSessionThatIsLeft(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				core, logs := observer.New(zapcore.InfoLevel)
				a := w.rig(locks.WithLogger(zap.New(core)))
				a.lock("stock").unlock(t)
				want := 0
				if fails {
					want = 1
					a.link.Only("Release", faulty.Fault{Err: faulty.ErrLost})
				}
				if err := a.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if n := logs.FilterMessage("the session is left to expire").Len(); n != want {
					t.Errorf("%d lines, want %d: %v", n, want, logs.All())
				}
			})
		})
	}
}
