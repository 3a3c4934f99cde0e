package locks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// hangs is how long a statement that was sent into the silence keeps its caller
// from sending the next, at most.
var hangs = timing.AttemptTimeout + 2*time.Second

var outages = map[string]func(*link){"cut": (*link).Cut, "hung": (*link).Hang}

// An outage shorter than the remaining trust costs no holder its lock.
func TestShortOutage(t *testing.T) {
	for name, breakLink := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				held := a.lock("stock")
				next := b.waits("stock")
				for range 20 {
					time.Sleep(7300 * time.Millisecond)
					breakLink(a.link)
					breakLink(b.link)
					time.Sleep(timing.Trust() - timing.RenewEvery - timing.AttemptTimeout)
					a.link.Heal()
					b.link.Heal()
				}
				if !held.Trusted() || held.Context().Err() != nil {
					t.Errorf("%v", context.Cause(held.Context()))
				}
				next.hasNot()
				held.unlock(t)
				next.within(hangs).unlock(t)
			})
		})
	}
}

// In a longer one, the contexts end in time, with a cause, before another process is
// granted the lock, and every waiter gets it afterwards.
func TestLongOutage(t *testing.T) {
	for name, breakLink := range outages {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, all %v", name, all), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.rig(), w.rig()
					held, shared := a.lock("stock"), a.rlock("shared")
					next, own, writer := b.waits("stock"), a.waits("stock"), b.waits("shared")
					time.Sleep(20 * time.Second)
					breakLink(a.link)
					if all {
						breakLink(b.link)
					}
					last := w.lastBeat(t, a)
					for _, s := range []*stay{held, shared} {
						<-s.ended
						is(t, context.Cause(s.Context()), locks.ErrLost)
						if at := s.until.Sub(last); at > timing.Trust()+time.Second/10 {
							t.Errorf("ended %v after the last heartbeat", at)
						}
						if s.Trusted() {
							t.Error("still trusted")
						}
						is(t, s.Unlock(t.Context()), locks.ErrLost)
						is(t, s.Unlock(t.Context()), locks.ErrUnlocked)
					}
					time.Sleep(10 * time.Minute)
					a.link.Heal()
					b.link.Heal()
					limit := hangs + 2*time.Second
					if all {
						limit += timing.TTL
					}
					serve(t, limit, next, own, writer)
				})
			})
		}
	}
}

// The holder does not stop when its lock is lost, and never unlocks.
func TestStubbornHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		next := b.waits("stock")
		own := a.waits("other")
		own.has().unlock(t)
		time.Sleep(20 * time.Second)
		last := w.lastBeat(t, a)
		a.link.Hang()
		<-held.ended
		next.within(2 * timing.TTL).unlock(t)
		if took := next.at.Sub(last); took > afterCrash+aLook {
			t.Errorf("others wait for %v", took)
		}
		a.link.Heal()
		// Its own process gets no locks while it runs, for a TTL at most.
		own = a.waits("other")
		own.within(2*timing.TTL + 2*time.Second).unlock(t)
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		a.lock("stock").unlock(t)
	})
}

// The session is lost while the database can be reached: it is released as soon as
// the holder has stopped, and not before.
func TestSlowHolderOfALostSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		group := w.look("stock").Processes[0].Group
		next := b.waits("stock")
		time.Sleep(20 * time.Second)
		a.link.Only("Renew", faulty.Fault{Err: faulty.ErrLost})
		<-held.ended
		released := func() bool {
			synctest.Wait()
			readings, err := w.Read(t.Context(), group)
			if err != nil {
				t.Fatal(err)
			}
			return readings[0].Lease.Released
		}
		time.Sleep(timing.Grace / 2)
		next.hasNot()
		if released() {
			t.Error("the session is released while its holder still works")
		}
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		if !released() {
			t.Error("the session is not released")
		}
		next.within(afterCrash).unlock(t)
	})
}

// The row of the session is not there, or not its own, any more.
func TestLostSession(t *testing.T) {
	for name, change := range map[string]func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence){
		"deleted":       func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil },
		"lease deleted": func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f },
		"rewound": func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			l.Heartbeat--
			return l, f
		},
		"older term": func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			l.Token--
			f.Token--
			return l, f
		},
		"released": func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			l.Released = true
			return l, f
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				held := a.lock("stock")
				own, next := a.waits("other"), b.waits("stock")
				own.has().unlock(t)
				time.Sleep(22 * time.Second)
				if name == "released" {
					// Only its holder may do that, so all that is promised is that the
					// session is lost at its next heartbeat.
					next.stop(errEnough)
					synctest.Wait()
				}
				w.Update(w.look("stock").Processes[0].Group, change)
				select {
				case <-held.ended:
				case <-time.After(timing.RenewEvery + time.Second):
					t.Fatal("its holder does not notice")
				}
				is(t, context.Cause(held.Context()), locks.ErrLost)
				is(t, held.Unlock(t.Context()), locks.ErrLost)
				if name != "released" {
					next.within(2*timing.TTL + 2*time.Second).unlock(t)
				}
				again := a.waits("stock")
				again.within(2*timing.TTL + 2*time.Second).unlock(t)
			})
		})
	}
}

// The contexts of a process's locks end when its trust does, also while the
// statement that deletes old rows gets no answer.
func TestLossDuringPruning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		// A statement may take long here, so that one is in flight in many of
		// the processes when their trust ends.
		timing, err := lease.Timing{TTL: time.Hour, RenewEvery: 20 * time.Minute, AttemptTimeout: 25 * time.Minute}.Complete()
		if err != nil {
			t.Fatal(err)
		}
		var stays []*stay
		for i := range 40 {
			r := w.rig(locks.WithTiming(timing))
			l, err := r.Mutex(fmt.Sprint("stock/", i)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stays = append(stays, w.enter(l, false, timing.Grace))
			r.crash()
		}
		begin := time.Now()
		late := 0
		for _, s := range stays {
			<-s.ended
			if s.until.Sub(begin) > timing.Trust() {
				late++
			}
		}
		if late > 0 {
			t.Errorf("%d of %d contexts outlive the trust of their session", late, len(stays))
		}
	})
}

// The database does not come back for a long time: nothing gives up.
func TestLastingOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.link.Cut()
		waiting := a.waits("stock")
		time.Sleep(2 * time.Hour)
		waiting.hasNot()
		if n := a.link.All(); n < 2*60*60/2 {
			t.Errorf("%d statements in two hours", n)
		}
		a.link.Heal()
		waiting.within(2 * time.Second).unlock(t)
		if waiting.err != nil || errors.Is(waiting.err, locks.ErrLost) {
			t.Error(waiting.err)
		}
	})
}

// An outage is a few lines in the log of a process that holds some locks and waits
// for others.
func TestAnOutageIsLoggedOnceAMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		w := newWorld(t)
		a, b := w.rig(), w.rig(locks.WithLogger(zap.New(core)))
		held, own := a.lock("stock"), b.lock("own")
		next := b.waits("stock")
		b.link.Cut()
		time.Sleep(10 * time.Minute)
		if n := logs.Len(); n < 10 || n > 16 { // some are of the lost session
			t.Errorf("%d warnings in 10 minutes", n)
		}
		b.link.Heal()
		is(t, own.Unlock(t.Context()), locks.ErrLost)
		held.unlock(t)
		next.within(hangs).unlock(t)
	})
}

// A check of held locks that fails is repeated sooner than one that succeeds.
func TestFailedCheckOfHeldLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("stock")
		time.Sleep(timing.RenewEvery / 10) // not at the instants of its checks
		looks := func() int {
			before := a.link.Count("ReadLocks")
			time.Sleep(8 * timing.RenewEvery)
			return a.link.Count("ReadLocks") - before
		}
		if n := looks(); n != 8 {
			t.Errorf("%d checks in 8 intervals", n)
		}
		a.link.Only("ReadLocks", faulty.Fault{Err: faulty.ErrLost})
		time.Sleep(timing.RenewEvery)
		if n := looks(); n < 31 || n > 33 {
			t.Errorf("%d checks in 8 intervals of an outage", n)
		}
		held.unlock(t)
	})
}
