package locks_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
)

// unclear are the ways in which the outcome of a statement stays unknown.
var unclear = map[string]faulty.Fault{
	"refused":               {Err: faulty.ErrLost},
	"lost reply":            {Err: faulty.ErrLost, Applied: true},
	"at once":               {Err: faulty.ErrLost, Late: time.Nanosecond},
	"soon":                  {Err: faulty.ErrLost, Late: 6 * time.Millisecond},
	"late":                  {Err: faulty.ErrLost, Late: time.Second},
	"very late":             {Err: faulty.ErrLost, Late: time.Minute},
	"silence":               {Silence: true},
	"slow":                  {Late: time.Second, Reply: time.Second},
	"slow reply":            {Reply: 2 * time.Second},
	"too slow":              {Late: timing.AttemptTimeout + time.Second},
	"too slow to be heard":  {Reply: timing.AttemptTimeout + time.Second},
	"slower than the trust": {Late: timing.TTL + time.Second},
}

// Whatever happens to one of the first statements of a lock, it is granted once, to
// one holder at a time, and the row is empty afterwards.
func TestUnclearLock(t *testing.T) {
	for name, f := range unclear {
		for _, op := range []string{"WriteLocks", "ReadLocks", "Acquire", "Read", "Prepare"} {
			for at := range 3 {
				t.Run(fmt.Sprintf("%s %s %d", op, name, at), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						w := newWorld(t)
						a, b := w.rig(), w.rig()
						a.link.Once(op, append(make([]faulty.Fault, at), f)...)
						for range 2 {
							a.waits("stock").within(timing.TTL + hangs).unlock(t)
							b.waits("stock").within(timing.TTL + hangs).unlock(t)
						}
						shared := a.begin(true, a.RWMutex("stock").RLock)
						serve(t, timing.TTL+hangs, shared, b.begin(false, b.Mutex("stock").Lock))
						time.Sleep(2 * time.Minute)
						if row := w.row("stock"); row.Queue != nil {
							t.Errorf("left in the row: %s", row.Queue)
						}
					})
				})
			}
		}
	}
}

// Whatever happens to the statement of an unlock, the next waiter gets the lock, and
// an unlock that returned nil has taken effect.
func TestUnclearUnlock(t *testing.T) {
	for name, f := range unclear {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				held := a.lock("stock")
				next, own := b.waits("stock"), a.waits("stock")
				a.link.Once("WriteLocks", f)
				held.unlock(t)
				if w.has("stock", held.mark) {
					t.Error("unlocked, and its mark is in the row")
				}
				next.within(2 * time.Second).unlock(t)
				own.within(2 * time.Second)
				time.Sleep(2 * time.Minute)
				if !own.stay.Trusted() || !w.has("stock", own.stay.mark) {
					t.Error("a late unlock has taken another lock of its process")
				}
				own.stay.unlock(t)
			})
		})
	}
}

// A caller gives up while the statement that takes its place is in flight: the
// place is removed in the end, and never holds the lock for long.
func TestUnclearGivingUp(t *testing.T) {
	for name, f := range unclear {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again %v", name, again), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.rig(), w.rig()
					a.lock("other").unlock(t) // it has its session
					b.lock("stock").unlock(t)
					faults := []faulty.Fault{f}
					if again {
						faults = append(faults, f, faulty.Fault{Err: faulty.ErrLost})
					}
					a.link.Once("WriteLocks", faults...)
					first := a.waits("stock")
					first.stop(errEnough)
					if !first.is() {
						t.Fatal("still waits")
					}
					if first.err == nil {
						first.stay.unlock(t)
					}
					for i := range 10 {
						b.waits("stock").within(2 * hangs).unlock(t)
						if i > 5 {
							time.Sleep(10 * time.Second)
						}
						a.waits("other").within(2 * hangs).unlock(t)
					}
					time.Sleep(time.Minute)
					if row := w.row("stock"); row.Queue != nil {
						t.Errorf("left in the row: %s", row.Queue)
					}
				})
			})
		}
	}
}

// The same, without writes of other processes, which would make the late statement
// fail: the process itself has to make sure of that.
func TestUnclearAndQuiet(t *testing.T) {
	for name, f := range unclear {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, try %v", name, try), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.rig(), w.rig()
					a.lock("other").unlock(t) // it has its session
					a.link.Once("WriteLocks", f)
					var first *waiter
					if try {
						first = a.begin(false, a.Mutex("stock").TryLock)
					} else {
						first = a.waits("stock")
						first.stop(errEnough)
					}
					<-first.done
					if first.err == nil {
						first.stay.unlock(t)
					}
					time.Sleep(hangs)
					for range 120 {
						if row := w.row("stock"); row.Queue != nil {
							t.Fatalf("a place that was given up comes back: %s", row.Queue)
						}
						time.Sleep(time.Second)
					}
					b.waits("stock").has().unlock(t)
				})
			})
		}
	}
}

// A TryLock whose statement has no clear answer has not got the lock, and does
// not get it later.
func TestUnclearTryLock(t *testing.T) {
	for name, f := range unclear {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				a.lock("stock").unlock(t)
				a.link.Once("WriteLocks", f)
				l, err := a.Mutex("stock").TryLock(t.Context())
				if err == nil {
					w.enter(l, false, timing.Grace).unlock(t)
				} else if f.Err == nil && f.Late+f.Reply < timing.AttemptTimeout && !f.Silence {
					t.Errorf("%v", err)
				}
				b.waits("stock").within(hangs).unlock(t)
				time.Sleep(2 * time.Minute)
				if row := w.row("stock"); row.Queue != nil {
					t.Errorf("left in the row: %s", row.Queue)
				}
			})
		})
	}
}

// Another process writes the row before a late write arrives.
func TestLateWriteFindsAnotherVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.lock("stock").unlock(t)
		b.lock("stock").unlock(t)
		// The write that gives it to a is carried out when b has had it twice.
		a.link.Once("WriteLocks", faulty.Fault{Late: 10 * time.Second})
		waiting := a.waits("stock")
		held := b.lock("stock")
		time.Sleep(20 * time.Second)
		if !held.Trusted() || len(w.look("stock").Places) != 2 {
			t.Errorf("%s", w.row("stock").Queue)
		}
		waiting.hasNot()
		held.unlock(t)
		waiting.has().unlock(t)
	})
}

// A lock is granted by a statement whose answer comes after its process's trust has
// ended: the caller does not get a lock that is not trusted.
func TestGivenTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := b.lock("stock")
		waiting := a.waits("stock")
		time.Sleep(20 * time.Second)
		// a is cut off, and is granted the lock.
		a.link.Hang()
		held.unlock(t)
		next := b.waits("stock")
		time.Sleep(timing.TTL + 10*time.Second)
		next.has()
		a.link.Heal()
		time.Sleep(hangs)
		waiting.hasNot()
		next.stay.unlock(t)
		waiting.within(2 * time.Second)
		synctest.Wait()
		if !waiting.stay.Trusted() {
			t.Error("not trusted")
		}
		waiting.stay.unlock(t)
	})
}

// Rows are read slowly while all else is fast: what is read is old when it comes.
func TestSlowReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		for _, r := range []*rig{a, b} {
			r.link.Only("ReadLocks", faulty.Fault{Reply: 800 * time.Millisecond})
		}
		done := make(chan struct{})
		for i := range 8 {
			r := []*rig{a, b}[i%2]
			go func() {
				for range 10 {
					l, err := r.Mutex("stock").Lock(t.Context())
					if err != nil {
						t.Error(err)
						break
					}
					s := w.enter(l, false, timing.Grace)
					time.Sleep(time.Duration(i) * 130 * time.Millisecond)
					s.unlock(t)
				}
				done <- struct{}{}
			}()
		}
		for range 8 {
			<-done
		}
	})
}

// What a caller's context says when the database is the reason.
func TestWhyItWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("stock").unlock(t)
		a.link.Cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := second(a.Mutex("stock").Lock(ctx))
		is(t, err, context.DeadlineExceeded)
		if err == nil || !containsAll(err.Error(), "stock", faulty.ErrLost.Error()) {
			t.Errorf("%v", err)
		}
	})
}

// A session whose work has not stopped is left to expire, even when another caller
// in its process wants a lock: it is not released while the work runs on.
func TestAbandonedSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		l, err := a.Mutex("stock").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := b.begin(false, b.Mutex("stock").Lock)
		time.Sleep(time.Second)
		a.link.Only("Renew", faulty.Fault{Err: faulty.ErrLost})
		<-l.Context().Done()
		ended := time.Now()
		a.link.Heal()
		other := a.begin(false, a.Mutex("other").Lock)
		next.within(4 * timing.TTL)
		// It is renewed for a TTL, so that the work may stop, and expires a TTL
		// after the last time.
		if after := time.Since(ended); after < 2*timing.TTL-timing.RenewEvery || after > 2*timing.TTL+2*time.Second {
			t.Errorf("the next one has it %v after the context ended", after)
		}
		next.stay.unlock(t)
		other.within(timing.TTL + 2*time.Second).unlock(t)
		is(t, l.Unlock(t.Context()), locks.ErrLost)
	})
}
