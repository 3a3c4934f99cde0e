package locks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// afterCrash is the longest time after its last heartbeat that a crashed process
// keeps its places, while there are waiters behind them; aLook is added where a
// test is about something else.
var (
	afterCrash = timing.TTL + time.Second
	aLook      = time.Second
)

// lastBeat is when the session of a process was last renewed.
func (w *world) lastBeat(t *testing.T, r *rig) time.Time {
	t.Helper()
	for _, p := range w.look("stock").Processes {
		if p.Owner == r.Owner() {
			readings, err := w.Read(context.Background(), p.Group)
			if err != nil || readings[0].Lease == nil {
				t.Fatalf("session of %s: %v", r.Owner(), err)
			}
			return readings[0].Lease.RenewedAt
		}
	}
	t.Fatalf("%s has no place", r.Owner())
	return time.Time{}
}

// A holder's process vanishes while another one waits: at whatever moment between
// two heartbeats, its place is removed in time, and not earlier.
func TestCrashOfAHolder(t *testing.T) {
	for i := range 12 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				held := a.lock("stock")
				time.Sleep(time.Duration(i) * 700 * time.Millisecond)
				next := b.waits("stock")
				time.Sleep(40*time.Second + time.Duration(i)*430*time.Millisecond)
				next.hasNot()
				a.crash()
				last := w.lastBeat(t, a)
				next.within(3 * timing.TTL).unlock(t)
				took := next.at.Sub(last)
				if took > afterCrash {
					t.Errorf("given up %v after the last heartbeat", took)
				}
				if took < timing.TTL {
					t.Errorf("taken %v after the last heartbeat", took)
				}
				is(t, held.Unlock(context.Background()), locks.ErrLost)
			})
		})
	}
}

// A waiter that arrives after the crash has to watch the session for its TTL.
func TestWaiterAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.lock("stock")
		a.crash()
		time.Sleep(time.Hour)
		b.waits("stock").within(afterCrash + aLook).unlock(t)
	})
}

// The server does not answer just while a TryLock takes over the session of a dead holder, or releases it: its
// caller waits no longer than its context says, and the takeover goes on without it.
func TestTryLockThatTakesOver(t *testing.T) {
	for _, op := range []string{"Acquire", "Release"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				a.lock("stock")
				b.lock("other").unlock(t) // it has a session
				a.crash()
				_, err := b.Mutex("stock").TryLock(t.Context())
				is(t, err, locks.ErrBusy)
				time.Sleep(afterCrash)
				b.link.Only(op, faulty.Fault{Silence: true})
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err = b.Mutex("stock").TryLock(ctx)
				if took := time.Since(began); took != 100*time.Millisecond {
					t.Errorf("it returned after %v", took)
				}
				is(t, err, locks.ErrBusy)
				is(t, err, context.DeadlineExceeded)
				time.Sleep(time.Second)
				b.link.Heal()
				b.waits("stock").within(2 * timing.TTL).unlock(t)
			})
		})
	}
}

// Close waits for a takeover whose caller has gone, as for all else that the client does.
func TestCloseWhileATryLockTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.lock("stock")
		b.lock("other").unlock(t)
		a.crash()
		_, err := b.Mutex("stock").TryLock(t.Context())
		is(t, err, locks.ErrBusy)
		time.Sleep(afterCrash)
		b.link.Only("Acquire", faulty.Fault{Silence: true})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = b.Mutex("stock").TryLock(ctx)
		is(t, err, locks.ErrBusy)
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < timing.AttemptTimeout {
			t.Errorf("closed after %v, before the statement has ended", took)
		}
	})
}

// Several that crashed at once, holders and waiters, do not add up.
func TestCrashOfMany(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		t.Run(fmt.Sprint("mixed ", mixed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				var crashed []*rig
				for i := range 8 {
					r := w.rig()
					switch {
					case i == 0:
						r.lock("stock")
					case mixed && i%2 == 1:
						r.rwaits("stock")
					default:
						r.waits("stock")
					}
					crashed = append(crashed, r)
					time.Sleep(time.Second)
				}
				b := w.rig()
				next := b.waits("stock")
				time.Sleep(20 * time.Second)
				var last time.Time
				for _, r := range crashed {
					r.crash()
					if at := w.lastBeat(t, r); at.After(last) {
						last = at
					}
				}
				next.within(5 * timing.TTL).unlock(t)
				if took := next.at.Sub(last); took > afterCrash+aLook {
					t.Errorf("given up %v after the last heartbeat of the last one", took)
				}
			})
		})
	}
}

// Processes vanish one after the other: the waiter behind them gets the lock within
// the bound of the last.
func TestCrashOfOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.rig(), w.rig(), w.rig()
		a.lock("stock")
		second, third := b.waits("stock"), c.waits("stock")
		time.Sleep(20 * time.Second)
		a.crash()
		time.Sleep(timing.TTL / 2)
		last := w.lastBeat(t, b)
		b.crash()
		third.within(3 * timing.TTL)
		if took := third.at.Sub(last); took > afterCrash+aLook {
			t.Errorf("given up %v after the last heartbeat", took)
		}
		third.stay.unlock(t)
		second.stop(errEnough)
	})
}

// A waiter that crashed is passed over when its turn comes.
func TestCrashOfAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.rig(), w.rig(), w.rig()
		held := a.lock("stock")
		gone, next := b.waits("stock"), c.waits("stock")
		b.crash()
		time.Sleep(2 * timing.TTL)
		begin := time.Now()
		held.unlock(t)
		next.has().unlock(t)
		if took := time.Since(begin); took > 0 {
			t.Errorf("found out only when its turn came: %v", took)
		}
		gone.stop(errEnough)
	})
}

// Processes that only try find out too, by trying again.
func TestCrashAndTryLock(t *testing.T) {
	for _, every := range []time.Duration{time.Second, timing.TTL + time.Second, time.Minute} {
		t.Run(every.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				a.lock("stock")
				time.Sleep(7 * time.Second)
				a.crash()
				begin := time.Now()
				for {
					l, err := b.Mutex("stock").TryLock(t.Context())
					if err == nil {
						took := time.Since(begin)
						if took < timing.TTL-timing.RenewEvery || took > timing.TTL+2*every {
							t.Errorf("had it after %v", took)
						}
						w.enter(l, false, timing.Grace).unlock(t)
						return
					}
					is(t, err, locks.ErrBusy)
					if time.Since(begin) > 10*timing.TTL+2*every {
						t.Fatal("never had it")
					}
					time.Sleep(every)
				}
			})
		})
	}
}

// A live holder is never mistaken for a crashed one, neither by waiters nor by
// TryLock, however rarely they look.
func TestLivingHolder(t *testing.T) {
	for _, every := range []time.Duration{time.Second, timing.TTL + 300*time.Millisecond, 40 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b, c := w.rig(), w.rig(), w.rig()
				held := a.lock("stock")
				waiting := c.waits("stock")
				for range 20 {
					is(t, second(b.Mutex("stock").TryLock(t.Context())), locks.ErrBusy)
					time.Sleep(every)
					w.StepClock(time.Hour)
				}
				waiting.hasNot()
				held.unlock(t)
				waiting.has().unlock(t)
			})
		})
	}
}

// A process with a longer TTL than the others' is waited for as long.
func TestMixedTTLs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		long, short := 40*time.Second, 3*time.Second
		a, b := w.rig(locks.WithTiming(lease.Timing{TTL: long})), w.rig(locks.WithTiming(lease.Timing{TTL: short}))
		a.grace, b.grace = withTTL(long).Grace, withTTL(short).Grace
		held := a.lock("stock")
		next := b.waits("stock")
		time.Sleep(time.Minute)
		a.crash()
		last := w.lastBeat(t, a)
		next.within(2 * long)
		if took := next.at.Sub(last); took < long || took > long+2*time.Second {
			t.Errorf("given up %v after the last heartbeat", took)
		}
		is(t, context.Cause(held.Context()), locks.ErrLost)
		// And one with a shorter is not waited for any longer.
		b.crash()
		c := w.rig(locks.WithTiming(lease.Timing{TTL: long}))
		begin := time.Now()
		c.waits("stock").within(2 * long).unlock(t)
		if took := time.Since(begin); took > short+2*time.Second {
			t.Errorf("given up after %v", took)
		}
	})
}

// The rows of a session are deleted, and its holder cannot find out: it trusts its
// own TTL, which is longer than the waiter's.
func TestDeletedSessionOfALongTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		long, short := 40*time.Second, 3*time.Second
		a, b := w.rig(locks.WithTiming(lease.Timing{TTL: long})), w.rig(locks.WithTiming(lease.Timing{TTL: short}))
		a.grace, b.grace = withTTL(long).Grace, withTTL(short).Grace
		held := a.lock("stock")
		next := b.waits("stock")
		time.Sleep(time.Minute)
		a.crash()
		w.Update(w.look("stock").Processes[0].Group, deleteRows)
		next.within(2*long + 2*time.Second).unlock(t)
		is(t, context.Cause(held.Context()), locks.ErrLost)
	})
}

// The rows of a session are deleted between the two readings of a waiter's first
// look at it: the waiter still counts them as missing for a TTL.
func TestDeletedSessionBetweenReadings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		b.lock("other").unlock(t) // it has a session, and reads no other lease
		group := w.look("stock").Processes[0].Group
		b.link.Once("Read", faulty.Fault{}, faulty.Fault{Before: func() { w.Update(group, deleteRows) }})
		next := b.waits("stock")
		begin := time.Now()
		select {
		case <-held.ended:
		case <-time.After(notices):
			t.Fatal("its holder does not notice")
		}
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		next.within(timing.TTL + 2*time.Second - time.Since(begin)).unlock(t)
	})
}

// Without a notifier, waiters poll every 100 ms.
func TestWithoutANotifier(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		type silent struct{ store.Locks }
		la, lb := newLink(w.database), newLink(w.database)
		a, b := w.rigOn(la, silent{la}), w.rigOn(lb, silent{lb})
		for range 20 {
			held := a.lock("stock")
			next := b.waits("stock")
			time.Sleep(time.Second)
			held.unlock(t)
			next.within(101 * time.Millisecond).unlock(t)
		}
		a.lock("stock")
		next := b.waits("stock")
		time.Sleep(20 * time.Second)
		last := w.lastBeat(t, a)
		a.crash()
		next.within(3 * timing.TTL).unlock(t)
		if took := next.at.Sub(last); took > afterCrash+aLook {
			t.Errorf("given up %v after the last heartbeat", took)
		}
	})
}

// A notifier that does not wake, or cannot be listened to, costs a second.
func TestBrokenNotifier(t *testing.T) {
	for _, op := range []string{"Notify", "Wait", "Address"} {
		for name, f := range map[string]faulty.Fault{"errors": {Err: faulty.ErrLost}, "silence": {Silence: true}} {
			t.Run(op+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.rig(), w.rig()
					for _, r := range []*rig{a, b} {
						r.link.Only(op, f)
					}
					held := a.lock("stock")
					next := b.waits("stock")
					time.Sleep(10 * time.Second)
					held.unlock(t)
					// The wait for a notifier that is silent ends after its attempt's time.
					limit := time.Second + 100*time.Millisecond
					if f.Silence && op != "Notify" {
						limit += timing.AttemptTimeout
					}
					next.within(limit).unlock(t)
				})
			})
		}
	}
}

// The holder's process is gone, and so is the waiter's database for a while.
func TestCrashAndOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.lock("stock")
		next := b.waits("stock")
		time.Sleep(20 * time.Second)
		a.crash()
		b.link.Hang()
		time.Sleep(time.Hour)
		b.link.Heal()
		s := next.within(timing.TTL + timing.AttemptTimeout + 5*time.Second)
		synctest.Wait()
		if s.Context().Err() != nil {
			t.Errorf("%v", context.Cause(s.Context()))
		}
		s.unlock(t)
		if errors.Is(next.err, locks.ErrLost) {
			t.Error(next.err)
		}
	})
}

// A place of a session whose name is none is one that nothing can remove, until its row is
// repaired. Other locks are not concerned.
func TestSessionWithoutAName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.rig()
		w.change("stock", func(row store.LockRow) store.LockRow {
			row.Version = 7
			row.Queue = []byte(`{"processes":[{"group":" ","token":1,"owner":"x","started":1,"ttl":15000000000}],"places":[{"id":" .1","granted":7,"since":1}]}`)
			return row
		})
		next := b.waits("stock")
		time.Sleep(2 * timing.TTL)
		next.hasNot()
		b.lock("other").unlock(t)
		w.change("stock", func(row store.LockRow) store.LockRow { row.Version++; row.Queue = nil; return row })
		next.within(2 * time.Second).unlock(t)
	})
}

// A look at a holder's session that fails is repeated soon.
func TestFailedLookAtAHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.lock("stock")
		next := b.waits("stock")
		b.link.Only("Read", faulty.Fault{Err: faulty.ErrLost})
		time.Sleep(timing.TTL)
		a.crash()
		before := b.link.Count("Read")
		time.Sleep(10 * time.Second)
		if n := b.link.Count("Read") - before; n < 50 || n > 101 {
			t.Errorf("%d looks in 10 s", n)
		}
		b.link.Heal()
		next.within(afterCrash + aLook).unlock(t)
	})
}
