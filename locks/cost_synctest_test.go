package locks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// A client without holders and waiters rereads the locks that it unlocked until a
// reading comes a trust after the last unlock, which is the third one with the default
// timing. Then it sends only heartbeats. A client that was never used sends nothing.
func TestCostOfAnIdleClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.lock("stock").unlock(t)
		before, beats := a.link.All(), a.link.Count("Renew")
		time.Sleep(time.Hour)
		beats = a.link.Count("Renew") - beats
		others := a.link.All() - before - beats
		if most := int(time.Hour/timing.RenewEvery) + 1; beats > most {
			t.Errorf("%d heartbeats in an hour", beats)
		}
		if others > 9 { // three readings, three times pruning after that, and three statements in the hour
			t.Errorf("%d other statements in an hour: %v", others, a.link.Counts())
		}
		if n := b.link.All(); n > 0 {
			t.Errorf("%d statements of a client that was never used", n)
		}
	})
}

// Holders cost one look at their rows per heartbeat, however many they are.
func TestCostOfHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		for i := range 100 {
			a.lock(fmt.Sprint("stock/", i))
		}
		before := a.link.All()
		time.Sleep(10 * time.Minute)
		if n, most := a.link.All()-before, 2*int(10*time.Minute/timing.RenewEvery)+4; n > most {
			t.Errorf("%d statements in ten minutes, want at most %d: %v", n, most, a.link.Counts())
		}
		w.unlockAll(t)
	})
}

// unlockAll unlocks all held locks at once.
func (w *world) unlockAll(t *testing.T) {
	var group sync.WaitGroup
	for _, stays := range w.stays {
		for _, s := range stays {
			group.Go(func() { s.unlock(t) })
		}
	}
	group.Wait()
}

// Where a commit takes long, the next ones do not wait for it.
func TestSlowCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		for i := range 3 {
			a.lock(fmt.Sprint("stock/", i)).unlock(t)
		}
		const commit = 100 * time.Millisecond
		a.link.Only("WriteLocks", faulty.Fault{Hold: commit})
		a.lock("stock/0").unlock(t) // its caller does not yet know that they take long
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				begin := time.Now()
				a.lock(fmt.Sprint("stock/", i)).unlock(t)
				if took := time.Since(begin); took > 2*commit+5*time.Millisecond {
					t.Errorf("lock %d, and its unlock, took %v, and a commit takes %v", i, took, commit)
				}
			})
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
	})
}

// Where commits are quick, the requests of many go into few statements.
func TestQuickCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		const many = 200
		names := make([]string, many)
		for i := range names {
			names[i] = fmt.Sprint("stock/", i)
			a.lock(names[i]).unlock(t)
		}
		a.link.Only("WriteLocks", faulty.Fault{Hold: time.Millisecond})
		before := a.link.Count("WriteLocks")
		for range 10 {
			var all sync.WaitGroup
			for _, name := range names {
				all.Go(func() { a.lock(name).unlock(t) })
			}
			all.Wait()
		}
		if n := a.link.Count("WriteLocks") - before; n > 10*8 {
			t.Errorf("%d locks and unlocks took %d statements", 10*many, n)
		} else {
			t.Logf("%d locks and unlocks took %d statements", 10*many, n)
		}
		a.link.Heal()
	})
}

// However many wait in a process, it listens to one notifier, once at a time, and
// looks at all their rows by one statement a second.
func TestCostOfManyWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		const many = 1000
		var holders []*stay
		for i := range many / 10 {
			holders = append(holders, a.lock(fmt.Sprint("stock/", i)))
		}
		var waiters []*waiter
		for i := range many {
			waiters = append(waiters, b.begin(false, b.Mutex(fmt.Sprint("stock/", i%len(holders))).Lock))
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		before, looks, waits := b.link.All(), b.link.Count("ReadLocks"), b.link.Count("Wait")
		time.Sleep(time.Minute)
		t.Logf("in a minute: %d looks, %d waits, %d in all", b.link.Count("ReadLocks")-looks, b.link.Count("Wait")-waits, b.link.All()-before)
		if n := b.link.Count("ReadLocks") - looks; n > 60+int(time.Minute/timing.RenewEvery)+5 {
			t.Errorf("%d looks in a minute", n)
		}
		if n := b.link.All() - before; n > 60*5 {
			t.Errorf("%d statements in a minute: %v", n, b.link.Counts())
		}
		begin := time.Now()
		for _, s := range holders {
			go s.unlock(t)
		}
		serve(t, time.Second, waiters...)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a thousand hand-overs took %v", took)
		}
		synctest.Wait()
		if b.link.mostEver != 1 {
			t.Errorf("%d waits for the notifier at once", b.link.mostEver)
		}
	})
}

// Requests made while a statement is in flight are batched into the next, up to 256
// locks.
func TestStatementsAreCombined(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("first").unlock(t)
		a.link.Only("WriteLocks", faulty.Fault{Reply: 10 * time.Millisecond})
		const many = 1000
		for _, what := range []string{"locks", "unlocks"} {
			a.link.rows = nil
			before := a.link.Count("WriteLocks")
			begin := time.Now()
			if what == "locks" {
				var all []*waiter
				for i := range many {
					all = append(all, a.begin(false, a.Mutex(fmt.Sprint("stock/", i)).Lock))
				}
				for _, x := range all {
					x.within(time.Second)
				}
			} else {
				w.stays["first"] = nil
				w.unlockAll(t)
			}
			statements, most := a.link.Count("WriteLocks")-before, slices.Max(a.link.rows)
			t.Logf("a thousand %s by %d statements, of up to %d rows, in %v", what, statements, most, time.Since(begin))
			if statements > many/256+4 || most > 256 {
				t.Errorf("a thousand %s by %d statements, of up to %d rows", what, statements, most)
			}
		}
	})
}

// A lock and its unlock are one write each, without a reading as long as no other
// process writes the row.
func TestCostOfALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("stock").unlock(t)
		before, writes := a.link.All(), a.link.Count("WriteLocks")
		for range 100 {
			a.lock("stock").unlock(t)
		}
		if n := a.link.Count("WriteLocks") - writes; n != 200 {
			t.Errorf("%d writes for 100 locks", n)
		}
		if n := a.link.All() - before; n != 200 {
			t.Errorf("%d statements for 100 locks: %v", n, a.link.Counts())
		}
	})
}

// A hundred requests for one lock are granted one after the other, whichever
// process they belong to.
func TestCrowdOnOneLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		rigs := []*rig{w.rig(), w.rig(), w.rig(), w.rig()}
		held := rigs[0].lock("stock")
		var all []*waiter
		for i := range 100 {
			all = append(all, rigs[i%4].waits("stock"))
		}
		begin := time.Now()
		held.unlock(t)
		for i, x := range all {
			x.has()
			if i+1 < len(all) && all[i+1].is() {
				t.Fatalf("%d has it beside %d", i+1, i)
			}
			x.stay.unlock(t)
		}
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// While a write of a lock is in flight, its waiters send no statements.
func TestNobodySpins(t *testing.T) {
	for _, op := range []string{"WriteLocks", "ReadLocks"} {
		for name, f := range map[string]faulty.Fault{"late": {Late: time.Second}, "reply": {Reply: time.Second}, "silence": {Silence: true}} {
			t.Run(op+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.rig(), w.rig()
					held := a.lock("stock")
					waiting, more := b.waits("stock"), a.waits("stock")
					time.Sleep(time.Second / 2)
					b.link.Only(op, f)
					// b is writing while the row says that it has the lock.
					last := b.begin(true, b.RWMutex("stock").RLock)
					time.Sleep(time.Millisecond)
					before := b.link.All()
					go held.unlock(t)
					time.Sleep(time.Second)
					if n := b.link.All() - before; n > 200 {
						t.Errorf("%d statements in a second: %v", n, b.link.Counts())
					}
					b.link.Heal()
					serve(t, hangs, waiting, more, last)
				})
			})
		}
	}
}

// patient notes whether statements may wait for the rows of others.
type patient struct {
	*link
	waits []bool
}

func (p *patient) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	p.waits = append(p.waits, writes[0].Wait)
	return p.link.WriteLocks(ctx, server, writes)
}

// A statement with one row may wait for it, unless so long a wait would look like a database
// that is away.
func TestStatementsThatMayWait(t *testing.T) {
	for timeout, want := range map[time.Duration]bool{timing.AttemptTimeout: true, 2 * time.Second: true, 2*time.Second - 1: false} {
		t.Run(timeout.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				p := &patient{link: newLink(w.database)}
				a := w.rigOn(p.link, p, locks.WithTiming(lease.Timing{AttemptTimeout: timeout}))
				a.lock("stock").unlock(t)
				if !slices.Equal(p.waits, []bool{want, want}) {
					t.Errorf("they may wait: %v, want %v", p.waits, want)
				}
			})
		})
	}
}
