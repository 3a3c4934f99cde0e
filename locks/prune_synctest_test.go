package locks_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// idle is longer than a row without holders and waiters is kept.
const idle = 25 * time.Second

// Rows without holders and waiters are deleted soon, whichever process left them;
// rows of locks that are held or waited for stay.
func TestPruning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		kept := a.lock("kept")
		waiting := b.waits("kept")
		b.lock("old").unlock(t)
		time.Sleep(5 * time.Second)
		if w.row("old").Version == 0 {
			t.Error("deleted too early")
		}
		time.Sleep(idle)
		if w.row("old").Version > 0 {
			t.Error("not deleted")
		}
		if !kept.Trusted() || !w.has("kept", kept.mark) || waiting.is() {
			t.Error("deleted while it is held")
		}
		begin := time.Now()
		for _, r := range []*rig{a, b} {
			r.lock("old").unlock(t)
		}
		if time.Since(begin) > 0 {
			t.Error("the first request after the pruning waits")
		}
		kept.unlock(t)
		waiting.within(time.Second).unlock(t)
	})
}

// Rows that a dead process left are deleted by other processes, within hours.
func TestPruningForOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		kept := a.lock("kept")
		b.lock("old").unlock(t)
		b.crash()
		time.Sleep(3 * time.Hour)
		if w.row("old").Version > 0 {
			t.Error("not deleted")
		}
		kept.unlock(t)
	})
}

// Other processes clean rows of a dead process's places within hours, of waiting
// ones too, and even if the names are never used again. The places of a live
// process stay.
func TestRowsOfADeadProcess(t *testing.T) {
	for _, restored := range []bool{false, true} {
		t.Run(fmt.Sprint("its session was deleted: ", restored), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.rig()
				kept := a.lock("kept")
				var groups []string
				var dying []*rig
				for i := range 3 {
					r, waiter := w.rig(), w.rig()
					dying = append(dying, r, waiter)
					for n := range 100 { // more than one page
						r.lock(fmt.Sprint("order/", i, ".", n))
					}
					r.waits("kept")
					waiter.waits(fmt.Sprint("order/", i, ".", 0))
				}
				for _, p := range w.look("kept").Processes[1:] {
					groups = append(groups, p.Group)
				}
				for _, r := range dying {
					r.crash()
				}
				if restored {
					for _, group := range groups {
						w.Update(group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil })
					}
				}
				time.Sleep(5 * time.Hour)
				if n := w.rows(); n != 1 {
					t.Errorf("%d rows are left, want that of %q", n, "kept")
				}
				if n := len(w.look("kept").Places); n != 1 {
					t.Errorf("%d places in a row, want that of its holder", n)
				}
				if !kept.Trusted() || !w.has("kept", kept.mark) {
					t.Error("a lock was taken from a living process")
				}
				kept.unlock(t)
			})
		})
	}
}

// A lock that is held for days stays with its holder, whatever the database's clock
// shows, even if heartbeats are more than an hour apart.
func TestRowsOfALivingProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		slow := locks.WithTiming(withTTL(6 * time.Hour))
		a, b := w.rig(slow), w.rig(slow)
		kept := a.lock("kept")
		b.lock("other").unlock(t)
		for day := range 3 {
			w.StepClock(time.Duration(1-day) * 24 * time.Hour)
			time.Sleep(24 * time.Hour)
			if !kept.Trusted() || !w.has("kept", kept.mark) {
				t.Fatal("the lock was taken from its holder")
			}
		}
		a.crash()
		time.Sleep(16 * time.Hour) // a search that had begun before takes a TTL, and so does the next
		if n := w.rows(); n > 0 {
			t.Errorf("%d rows are left of the one that died", n)
		}
	})
}

// The rows of a released session are deleted within hours, and those of a dead
// process's session after a week.
func TestPruningOfSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, began := newWorld(t), time.Now()
		a, b, c := w.rig(locks.WithTiming(withTTL(time.Hour))), w.rig(), w.rig()
		kept := a.lock("kept")
		given, crashed := b.lock("stock"), c.lock("other")
		groups := []string{w.look("kept").Processes[0].Group, w.look("stock").Processes[0].Group, w.look("other").Processes[0].Group}
		left := func() string {
			readings, err := w.Read(t.Context(), groups...)
			if err != nil {
				t.Fatal(err)
			}
			there := make([]bool, len(readings))
			for i, r := range readings {
				there[i] = r.Lease != nil || r.Fence != nil
			}
			return fmt.Sprint(there)
		}
		given.unlock(t)
		crashed.unlock(t)
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		c.crash()
		for _, step := range []struct {
			until time.Duration
			want  string
		}{
			{30 * time.Minute, "[true true true]"},
			{4 * time.Hour, "[true false true]"},
			{6 * 24 * time.Hour, "[true false true]"},
			{8 * 24 * time.Hour, "[true false false]"},
		} {
			time.Sleep(step.until - time.Since(began))
			if got := left(); got != step.want {
				t.Errorf("after %v: %s, want %s", step.until, got, step.want)
			}
		}
		if !kept.Trusted() {
			t.Error("a session that is held was deleted")
		}
		kept.unlock(t)
	})
}

// At any rate of names that are never used again, their rows are few.
func TestNamesThatAreNeverUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		const perSecond = 300
		most := 0
		for second := range rounds.Of(t, 30) {
			for i := range perSecond {
				r := a
				if i%2 == 0 {
					r = b
				}
				l, err := r.Mutex(fmt.Sprint("order/", second, ".", i)).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			most = max(most, w.rows())
		}
		if most > perSecond*int(idle/time.Second) {
			t.Errorf("up to %d rows", most)
		}
		time.Sleep(idle)
		synctest.Wait()
		if n := w.rows(); n > 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// Tokens of a lock grow although its row was deleted and the database's clock
// went back: see also [database.wrong], which looks at all of them.
func TestTokensGrowOverPruning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		last := uint64(0)
		for _, step := range []time.Duration{0, -time.Hour, 0, -24 * time.Hour, time.Minute, -365 * 24 * time.Hour} {
			w.StepClock(step)
			r := w.rig() // one that has seen nothing
			for _, r := range []*rig{r, a} {
				begin := time.Now()
				l := r.lock("stock")
				if l.Token() <= last {
					t.Errorf("after a step of %v: token %d after %d", step, l.Token(), last)
				}
				last = l.Token()
				if waited := time.Since(begin); waited > 0 {
					t.Errorf("after a step of %v: waited for %v", step, waited)
				}
				l.unlock(t)
				time.Sleep(2 * idle)
				if w.row("stock").Version > 0 {
					t.Errorf("after a step of %v: not deleted", step)
				}
			}
		}
	})
}

// A statement whose caller gave up, and that runs after its row was used and deleted
// again, adds no place to the queue.
func TestLateStatementAfterPruning(t *testing.T) {
	for _, what := range []string{"the lock", "the unlock"} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				other := a.lock("other")
				late := faulty.Fault{Err: faulty.ErrLost, Late: 10 * time.Minute}
				if what == "the lock" {
					a.link.Once("WriteLocks", late)
					a.lock("stock").unlock(t)
				} else {
					held := a.lock("stock")
					a.link.Once("WriteLocks", late)
					held.unlock(t)
				}
				time.Sleep(2 * idle)
				if w.row("stock").Version > 0 {
					t.Fatal("not deleted")
				}
				time.Sleep(10 * time.Minute)
				if row := w.row("stock"); row.Version > 0 {
					t.Errorf("a late statement has written %s", row.Queue)
				}
				begin := time.Now()
				b.lock("stock").unlock(t)
				if waited := time.Since(begin); waited > 0 {
					t.Errorf("the next one waited for %v", waited)
				}
				other.unlock(t)
			})
		})
	}
}

// Nor does the insert of a row, if the database's clock was set back before the row was used and
// deleted: its version is above all that came after it.
func TestLateInsertAfterAStepBack(t *testing.T) {
	for _, what := range []string{"a lock", "a try that was turned away"} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				a.lock("other").unlock(t) // it has its session
				a.link.Once("WriteLocks", faulty.Fault{Late: time.Minute})
				if what == "a lock" {
					first := a.waits("stock")
					w.StepClock(-time.Hour)
					first.within(hangs).unlock(t)
				} else {
					a.link.Once("WriteLocks", faulty.Fault{Before: func() { // its next one comes second
						w.change("stock", func(r store.LockRow) store.LockRow { r.Version++; return r })
					}})
					tried := make(chan error)
					go func() { tried <- second(a.Mutex("stock").TryLock(t.Context())) }()
					synctest.Wait()
					w.StepClock(-time.Hour)
					held := b.lock("stock")
					is(t, <-tried, locks.ErrBusy)
					held.unlock(t)
				}
				time.Sleep(2 * idle)
				if w.row("stock").Version > 0 {
					t.Fatal("not deleted")
				}
				time.Sleep(time.Minute)
				if row := w.row("stock"); row.Queue != nil {
					t.Errorf("the place of a request that is over: %s", row.Queue)
				}
				b.waits("stock").within(time.Second).unlock(t)
			})
		})
	}
}

// A process that has used more locks than it caches still knows what it has just seen: a row that is
// deleted by hand a second later bars the lock.
func TestDeletedRowAndManyNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.link.Cut() // so that this costs no more than the names
		var all sync.WaitGroup
		for i := range 4200 {
			all.Go(func() { is(t, second(a.Mutex(fmt.Sprint("order/", i)).TryLock(t.Context())), faulty.ErrLost) })
		}
		all.Wait()
		a.link.Heal()
		held := b.lock("stock")
		is(t, second(a.Mutex("stock").TryLock(t.Context())), locks.ErrBusy)
		time.Sleep(time.Second)
		w.change("stock", func(store.LockRow) store.LockRow { return store.LockRow{} })
		is(t, second(a.Mutex("stock").TryLock(t.Context())), locks.ErrBusy)
		<-held.ended
		is(t, held.Unlock(t.Context()), locks.ErrLost)
		a.waits("stock").within(timing.TTL + time.Second).unlock(t)
	})
}

// A missing row that cannot have been pruned was deleted by another program: its
// lock is not granted for a TTL, because its holder may not know yet.
func TestDeletedAndNotPruned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		b.lock("pruned").unlock(t)
		time.Sleep(idle) // so that there is a floor
		held := a.lock("stock")
		is(t, second(b.Mutex("stock").TryLock(t.Context())), locks.ErrBusy)
		a.link.Hang()
		w.change("stock", func(store.LockRow) store.LockRow { return store.LockRow{} })
		waiting := b.waits("stock")
		<-held.ended
		if waiting.is() {
			t.Error("granted while the holder trusts it")
		}
		if !strings.Contains(fmt.Sprint(held.Unlock(t.Context())), "lost") {
			t.Error("the holder does not know")
		}
		a.link.Heal()
		waiting.within(2 * timing.TTL).unlock(t)
	})
}
