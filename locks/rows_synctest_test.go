package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// notices is how long it takes at most until a client looks at the rows that it
// holds or waits for.
var notices = timing.RenewEvery + time.Second

// Another server answers: holders keep their locks, and none is granted for a TTL.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		b.lock("other").unlock(t)
		next := b.waits("stock")
		time.Sleep(20 * time.Second)
		w.Restart()
		begin := time.Now()
		time.Sleep(notices)
		if !held.Trusted() {
			t.Fatalf("%v", context.Cause(held.Context()))
		}
		is(t, second(b.Mutex("other").TryLock(t.Context())), locks.ErrBusy)
		free := a.waits("free")
		free.hasNot()
		held.unlock(t)
		next.hasNot()
		sleepUntil(begin, timing.TTL-time.Millisecond)
		next.hasNot()
		free.hasNot()
		next.within(notices + 2*time.Second).unlock(t)
		free.within(notices + 2*time.Second).unlock(t)
		// And then as before.
		begin = time.Now()
		a.lock("stock").unlock(t)
		b.lock("free").unlock(t)
		if time.Since(begin) > 0 {
			t.Error("a restart is remembered for too long")
		}
	})
}

// A client that has not heard of the restart finds out by its write.
func TestRestartAndAWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("stock").unlock(t) // its row is known
		w.Restart()
		begin := time.Now()
		a.lock("stock").unlock(t)
		if took := time.Since(begin); took < timing.TTL || took > timing.TTL+2*time.Second {
			t.Errorf("given after %v", took)
		}
	})
}

// The longest TTL that was seen counts.
func TestRestartWithMixedTTLs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		long := 40 * time.Second
		a, b := w.rig(locks.WithTiming(withTTL(long))), w.rig(locks.WithTiming(withTTL(2*time.Second)))
		held := a.lock("stock")
		next := b.waits("stock")
		time.Sleep(time.Minute)
		w.Restart()
		begin := time.Now()
		time.Sleep(3 * time.Second)
		held.unlock(t)
		next.within(long + 3*time.Second).unlock(t)
		if took := time.Since(begin); took < long {
			t.Errorf("given after %v", took)
		}
	})
}

// The server is restarted while all clients are cut off for longer than their trust
// lasts: a waiter takes its place after a TTL, and then watches those ahead of it.
func TestRestartInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		next := b.waits("stock")
		time.Sleep(20 * time.Second)
		a.link.Cut()
		b.link.Cut()
		time.Sleep(time.Minute)
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		w.Restart()
		a.link.Heal()
		b.link.Heal()
		begin := time.Now()
		next.within(5 * timing.TTL).unlock(t)
		if took := time.Since(begin); took > 2*timing.TTL+3*time.Second {
			t.Errorf("served %v after the database was back", took)
		}
	})
}

// A held lock whose row is gone or older is lost at the next look, and processes
// that saw the newer row grant it to no waiter for a TTL.
func TestChangedRow(t *testing.T) {
	for name, change := range map[string]func(old, row store.LockRow) store.LockRow{
		"deleted": func(_, _ store.LockRow) store.LockRow { return store.LockRow{} },
		"rewound": func(old, _ store.LockRow) store.LockRow { return old },
		"emptied": func(_, row store.LockRow) store.LockRow { row.Queue = nil; row.Version -= 2; return row },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				a.lock("stock").unlock(t)
				old := w.row("stock")
				held := a.lock("stock")
				next, own := b.waits("stock"), a.waits("stock")
				time.Sleep(22 * time.Second)
				w.change("stock", func(row store.LockRow) store.LockRow { return change(old, row) })
				begin := time.Now()
				select {
				case <-held.ended:
				case <-time.After(notices):
					t.Fatal("its holder does not notice")
				}
				is(t, context.Cause(held.Context()), locks.ErrLost)
				is(t, held.Unlock(t.Context()), locks.ErrLost)
				select {
				case <-next.done:
				case <-own.done:
				case <-time.After(timing.TTL + 2*time.Second):
					t.Fatal("the lock is not granted in time")
				}
				if took := time.Since(begin); took < timing.TTL {
					t.Errorf("given after %v", took)
				}
				serve(t, 2*time.Second, next, own)
			})
		})
	}
}

// A process that has noticed a rewound row, and waits for the holder to notice too,
// does not cause other processes, which know as much, to grant the lock.
func TestRewoundRowAndOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.rig(), w.rig(), w.rig()
		a.lock("stock").unlock(t)
		b.rwaits("stock").has().unlock(t)
		c.rwaits("stock").has().unlock(t)
		old := w.row("stock")
		held := a.lock("stock")
		next, third := b.waits("stock"), c.waits("stock")
		time.Sleep(7 * time.Second)
		before := a.link.Count("ReadLocks")
		for a.link.Count("ReadLocks") == before { // it has just looked
			time.Sleep(10 * time.Millisecond)
		}
		w.change("stock", func(store.LockRow) store.LockRow { return old })
		begin := time.Now()
		select {
		case <-next.done:
		case <-third.done:
		}
		if took := time.Since(begin); took < timing.TTL {
			t.Errorf("given after %v; its holder had ended: %v", took, held.Context().Err() != nil)
		}
		<-held.ended
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		serve(t, 2*time.Second, next, third)
	})
}

// Tokens grow although the row was deleted, also in a process that never saw it.
func TestTokensOfADeletedRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		old := a.lock("stock")
		old.unlock(t)
		for range 50 {
			s := a.lock("stock")
			s.unlock(t)
			old = s
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		w.change("stock", func(store.LockRow) store.LockRow { return store.LockRow{} })
		b := w.rig()
		s := b.lock("stock")
		if s.Token() <= old.Token() {
			t.Errorf("token %d after %d", s.Token(), old.Token())
		}
		s.unlock(t)
		// With the clock set back, a process that saw the row still makes them grow.
		w.StepClock(-24 * time.Hour)
		w.change("stock", func(store.LockRow) store.LockRow { return store.LockRow{} })
		next := b.waits("stock")
		next.within(timing.TTL + 2*time.Second)
		if next.stay.Token() <= s.Token() {
			t.Errorf("token %d after %d", next.stay.Token(), s.Token())
		}
		next.stay.unlock(t)
	})
}

// Tokens grow although the row was restored from a backup, also in a process that
// never saw the newer row.
func TestTokensOfARestoredRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("stock").unlock(t)
		backup := w.row("stock")
		time.Sleep(time.Hour)
		highest := uint64(0)
		for range 5 {
			s := a.lock("stock")
			highest = s.Token()
			s.unlock(t)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		w.change("stock", func(store.LockRow) store.LockRow { return backup })
		w.highest["stock"] = 0
		b := w.rig()
		l, err := b.Mutex("stock").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l.Token() <= highest {
			t.Errorf("token %d after %d", l.Token(), highest)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A failover that loses an unlock leaves a place of a live process in the row,
// although the process no longer wants the lock. Its write to remove the place may
// lose against another process's write, and is retried.
func TestLostUnlock(t *testing.T) {
	for _, name := range []string{"rewound", "failover", "second"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				w.resurrected["stock"] = true
				a, b := w.rig(), w.rig()
				kept := a.lock("other") // its process goes on to use locks
				held := a.lock("stock")
				b.rwaits("free").has().unlock(t)
				lost := w.row("stock")
				held.unlock(t)
				b.lock("stock").unlock(t)
				time.Sleep(time.Minute)
				w.change("stock", func(store.LockRow) store.LockRow { return lost })
				limit := 2*timing.TTL + 2*time.Second
				refused := name != "second"
				switch name {
				case "failover":
					w.Restart()
				case "second":
					limit += 2 * timing.TTL
					a.link.Always(func(op string) faulty.Fault {
						if op != "WriteLocks" || refused {
							return faulty.Fault{}
						}
						refused = true
						return faulty.Fault{Before: func() {
							w.change("stock", func(r store.LockRow) store.LockRow { r.Version++; return r })
						}}
					})
				}
				b.waits("stock").within(limit).unlock(t)
				if !refused {
					t.Error("no write came second")
				}
				a.link.Heal()
				kept.unlock(t)
			})
		})
	}
}

// A process that holds no other lock repeats it too, though nobody asks for the lock meanwhile, the row can
// not be read when it might be, and the first repetition is lost as well.
func TestLostUnlockOfAnIdleProcess(t *testing.T) {
	for _, what := range []string{"failover", "outage", "again"} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				w.resurrected["stock"] = true
				a, b := w.rig(), w.rig()
				b.lock("other").unlock(t)
				held := a.lock("stock")
				lost := w.row("stock")
				lose := func() {
					w.change("stock", func(store.LockRow) store.LockRow { return lost })
					w.Restart()
				}
				held.unlock(t)
				lose()
				if what == "outage" {
					a.link.Only("ReadLocks", faulty.Fault{Err: faulty.ErrLost})
					time.Sleep(time.Minute)
					a.link.Heal()
				}
				soon := 2*timing.TTL + 2*timing.RenewEvery
				for begin := time.Now(); w.look("stock").Places != nil; time.Sleep(time.Second) {
					if time.Since(begin) > soon {
						t.Fatal("the lock is held by nobody")
					}
				}
				if what == "again" {
					lose()
				}
				time.Sleep(soon)
				b.waits("stock").within(timing.TTL + 2*time.Second).unlock(t)
				before := a.link.Count("ReadLocks")
				time.Sleep(time.Minute)
				if n := a.link.Count("ReadLocks") - before; n > 0 {
					t.Errorf("%d more readings", n)
				}
			})
		})
	}
}

// However many a failover loses, each is repeated.
func TestManyLostUnlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		var all sync.WaitGroup
		rows := make([]store.LockRow, 2*256+1)
		kept := a.lock("kept")
		for i := range rows {
			all.Go(func() {
				l, err := a.Mutex(fmt.Sprint("order/", i)).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second + time.Duration(i)*time.Millisecond)
				rows[i] = w.row(l.Name())
				is(t, l.Unlock(t.Context()), nil)
			})
		}
		all.Wait()
		for _, row := range rows {
			w.resurrected[row.Name] = true
			w.change(row.Name, func(store.LockRow) store.LockRow { return row })
		}
		w.Restart()
		time.Sleep(3 * timing.TTL)
		left := 0
		for _, row := range rows {
			if w.row(row.Name).Queue != nil {
				left++
			}
		}
		if left > 0 {
			t.Errorf("%d locks are held by nobody", left)
		}
		kept.unlock(t)
	})
}

// The row is deleted just before the process checks the locks that it holds: its
// waiter on that lock is not forgotten.
func TestDeletedBetweenLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("stock")
		own := a.waits("stock")
		synctest.Wait()
		var last time.Time
		deleted := false
		a.link.Always(func(op string) faulty.Fault {
			if op != "ReadLocks" || deleted {
				return faulty.Fault{}
			}
			// Of two looks at one instant, one is the waiter's and one the holder's.
			if time.Now().Equal(last) {
				deleted = true
				return faulty.Fault{Before: func() {
					w.change("stock", func(store.LockRow) store.LockRow { return store.LockRow{} })
				}}
			}
			last = time.Now()
			return faulty.Fault{}
		})
		<-held.ended
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		own.within(timing.TTL + 2*time.Second).unlock(t)
	})
}

// A row that cannot be decoded is an error for the callers of that lock, and affects
// no other lock.
func TestMalformedRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("held")
		w.change("broken", func(row store.LockRow) store.LockRow { row.Version, row.Queue = 7, []byte("{"); return row })
		err := second(a.Mutex("broken").TryLock(t.Context()))
		if err == nil {
			t.Fatal("a lock whose row cannot be read")
		}
		if _, err := a.Inspect(t.Context(), "broken"); err == nil {
			t.Error("it is inspected")
		}
		switch found, err := locks.List(t.Context(), w, "", 10); {
		case err != nil || len(found) != 2:
			t.Errorf("a list beside it: %+v, %v", found, err)
		case found[0].Name != "broken" || found[0].Err == nil || !strings.Contains(found[0].Err.Error(), "repair or delete it"):
			t.Errorf("in a list: %+v", found[0])
		case found[1].Name != "held" || found[1].Err != nil || len(found[1].Holders) != 1:
			t.Errorf("beside it: %+v", found[1])
		}
		waiting := a.waits("broken")
		for range 20 {
			time.Sleep(time.Second)
			other := a.waits("other")
			other.within(2 * time.Second).unlock(t)
			is(t, second(a.Mutex("held").TryLock(t.Context())), locks.ErrBusy)
		}
		held.unlock(t)
		w.change("broken", func(row store.LockRow) store.LockRow { row.Version, row.Queue = 8, nil; return row })
		waiting.within(2 * time.Second).unlock(t)
	})
}

// An unlock whose row cannot be read is not confirmed.
func TestUnlockOfAMalformedRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("stock")
		a.link.Once("WriteLocks", faulty.Fault{Before: func() {
			w.change("stock", func(r store.LockRow) store.LockRow { r.Version++; r.Queue = []byte("{"); return r })
		}})
		if err := held.Unlock(t.Context()); err == nil || !strings.Contains(err.Error(), "not confirmed") || errors.Is(err, locks.ErrLost) {
			t.Errorf("Unlock returned %v", err)
		}
		w.change("stock", func(r store.LockRow) store.LockRow { r.Version++; r.Queue = nil; return r })
		a.waits("stock").within(2 * time.Second).unlock(t)
	})
}

// An account that may not delete goes on.
func TestPruningRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		core, logs := observer.New(zapcore.InfoLevel)
		a := w.rig(locks.WithTiming(withTTL(time.Hour)), locks.WithLogger(zap.New(core)))
		a.link.Only("PruneLocks", faulty.Fault{Err: faulty.ErrLost})
		held := a.lock("stock")
		time.Sleep(12 * time.Hour)
		if !held.Trusted() {
			t.Errorf("%v", context.Cause(held.Context()))
		}
		if n := a.link.Count("PruneLocks"); n < 11 || n > 13 {
			t.Errorf("tried %d times in 12 hours", n)
		} else if told := logs.FilterMessage("unused rows of locks could not be deleted").Len(); told != n {
			t.Errorf("%d lines about it, want %d", told, n)
		}
		logs.TakeAll()
		searched := a.link.Count("HeldLocks")
		a.link.Only("HeldLocks", faulty.Fault{Err: faulty.ErrLost})
		time.Sleep(12 * time.Hour)
		failed := a.link.Count("HeldLocks") - searched
		if told := logs.FilterMessage("rows of locks could not be searched for dead processes").Len(); failed < 8 || told != failed {
			t.Errorf("%d lines about %d searches that failed", told, failed)
		}
		held.unlock(t)
	})
}

// A look at rows that began before a name was forgotten says nothing about a lock that
// was taken under that name since.
func TestForgottenInALook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		// With a longer TTL, looks are so rare that what the last one saw does not matter any more.
		a, b := w.rig(locks.WithTiming(withTTL(time.Minute))), w.rig()
		kept := a.lock("kept")
		a.lock("stock").unlock(t)
		time.Sleep(time.Hour + time.Minute)
		looks := make(chan struct{})
		a.link.Once("ReadLocks", faulty.Fault{Before: func() { close(looks) }, Hold: 2 * time.Second})
		<-looks
		a.Tidy()
		held := a.lock("stock")
		next := b.waits("stock")
		time.Sleep(3 * time.Second)
		if !w.has("stock", held.mark) || !held.Trusted() {
			t.Errorf("the lock was taken from its holder: %v", context.Cause(held.Context()))
		}
		next.hasNot()
		held.unlock(t)
		next.within(time.Second).unlock(t)
		kept.unlock(t)
	})
}
