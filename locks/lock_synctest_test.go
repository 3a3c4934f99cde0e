package locks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

func TestContextOfAHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
		defer cancel()
		l, err := a.Mutex("stock").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if l.Name() != "stock" || l.Token() == 0 || !l.Trusted() || l.Context().Value(key{}) != "value" {
			t.Errorf("%q, token %d, trusted %v, value %v", l.Name(), l.Token(), l.Trusted(), l.Context().Value(key{}))
		}
		if _, ok := l.Context().Deadline(); ok {
			t.Error("the context has the end of the one that bounds the waiting")
		}
		holds := lease.Holds(l.Context())
		if len(holds) != 1 {
			t.Fatalf("holds %+v", holds)
		}
		hold := holds[0]
		if hold.Kind != lease.HoldLock || hold.Name != "stock" || hold.Owner != a.Owner() || hold.Token != l.Token() || hold.Store != store.Locks(a.link) || !hold.Trusted() || !w.has("stock", hold.Mark) {
			t.Errorf("hold %+v, row %s", hold, w.row("stock").Queue)
		}
		time.Sleep(time.Hour) // and cancelled long ago
		cancel()
		synctest.Wait()
		if err := l.Context().Err(); err != nil || !l.Trusted() {
			t.Errorf("after an hour: %v", context.Cause(l.Context()))
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		is(t, context.Cause(l.Context()), locks.ErrUnlocked)
		if l.Trusted() || hold.Trusted() || w.has("stock", hold.Mark) {
			t.Error("relied on after its unlock")
		}
		next := a.lock("stock")
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		next.unlock(t)
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.rig(), w.rig(), w.rig()
		held := a.lock("stock")
		given, next := b.waits("stock"), c.waits("stock")
		why := errors.New("enough")
		given.stop(why)
		if !given.is() {
			t.Fatal("still waits")
		}
		is(t, given.err, why)
		if !strings.Contains(given.err.Error(), a.Owner()) {
			t.Errorf("the error does not name the holder: %v", given.err)
		}
		if n := len(w.look("stock").Places); n != 2 {
			t.Errorf("%d places, want the holder and the waiter: %s", n, w.row("stock").Queue)
		}
		own := a.wait(false, func(ctx context.Context) (*locks.Lock, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return a.Mutex("stock").Lock(ctx)
		})
		own.hasNot()
		time.Sleep(time.Second)
		if !own.is() {
			t.Fatal("still waits")
		}
		is(t, own.err, context.DeadlineExceeded)
		held.unlock(t)
		next.has().unlock(t)
		if row := w.row("stock"); row.Queue != nil {
			t.Errorf("a place is left in the row: %s", row.Queue)
		}
	})
}

// A lock that is granted at the instant at which its caller gives up passes to the
// next waiter.
func TestGivenUpWhenGiven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.rig(), w.rig(), w.rig()
		for range 50 {
			held := a.lock("stock")
			first, next := b.waits("stock"), c.waits("stock")
			go first.stop(errEnough)
			held.unlock(t)
			if !first.is() {
				t.Fatal("no answer")
			}
			if first.err == nil {
				next.hasNot()
				first.stay.unlock(t)
			} else {
				is(t, first.err, errEnough)
			}
			next.has().unlock(t)
		}
	})
}

// The same, when the answer comes in the instant in which the context ends.
func TestGivenUpWhenTheAnswerComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		a.lock("stock").unlock(t)
		for range 40 {
			a.link.Only("WriteLocks", faulty.Fault{Reply: time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			l, err := a.Mutex("stock").Lock(ctx)
			cancel()
			if err == nil {
				w.enter(l, false, timing.Grace).unlock(t)
			} else {
				is(t, err, context.DeadlineExceeded)
			}
			a.link.Heal()
			b.waits("stock").within(3 * time.Second).unlock(t)
		}
	})
}

func TestEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		cancel(why)
		m, rw := a.Mutex("stock"), a.RWMutex("stock")
		for i, get := range []func(context.Context) (*locks.Lock, error){
			m.Lock, m.TryLock, rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock,
			func(ctx context.Context) (*locks.Lock, error) { return m.LockFor(ctx, time.Second) },
			func(ctx context.Context) (*locks.Lock, error) { return rw.LockFor(ctx, time.Second) },
			func(ctx context.Context) (*locks.Lock, error) { return rw.RLockFor(ctx, time.Second) },
			func(ctx context.Context) (*locks.Lock, error) {
				return nil, m.Do(ctx, func(context.Context) error { t.Error("runs"); return nil })
			},
			func(ctx context.Context) (*locks.Lock, error) {
				return nil, a.Do(ctx, "stock", func(context.Context) error { t.Error("runs"); return nil })
			},
		} {
			l, err := get(ctx)
			if l != nil || !errors.Is(err, why) {
				t.Errorf("%d: %v, %v", i, l, err)
			}
		}
		synctest.Wait()
		if n := a.link.All(); n > 0 {
			t.Errorf("%d statements", n)
		}
	})
}

func TestNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		for _, name := range []string{"", " ", "a b", ".hidden", "/x", "ä", "x\n", "x'", strings.Repeat("x", 129)} {
			if _, err := a.Mutex(name).Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "lock") {
				t.Errorf("name %q: %v", name, err)
			}
			if _, err := a.RWMutex(name).TryRLock(t.Context()); err == nil {
				t.Errorf("name %q is read", name)
			}
			if _, err := a.Inspect(t.Context(), name); err == nil {
				t.Errorf("name %q is inspected", name)
			}
		}
		synctest.Wait()
		if n := a.link.All(); n > 0 {
			t.Errorf("%d statements", n)
		}
		for _, name := range []string{"a", "0", "Order/42", "a.b_c:d/e@f+g-h", strings.Repeat("x", 128)} {
			a.lock(name).unlock(t)
		}
		// Names are case-sensitive, and different locks are independent.
		lower, upper := a.lock("stock"), a.lock("STOCK")
		lower.unlock(t)
		upper.unlock(t)
	})
}

func TestOptionsOfNew(t *testing.T) {
	t.Parallel()
	if _, err := locks.New(nil); err == nil || !strings.Contains(err.Error(), "store") {
		t.Errorf("no store: %v", err)
	}
	var wrong *lease.TimingError
	if _, err := locks.New(newDatabase(t), locks.WithTiming(lease.Timing{TTL: time.Millisecond})); !errors.As(err, &wrong) || wrong.Field != "TTL" {
		t.Errorf("a TTL of a millisecond: %v", err)
	}
	c, err := locks.New(newDatabase(t), locks.WithLabel("billing"))
	if err != nil || !strings.HasPrefix(c.Owner(), "billing/") {
		t.Errorf("owner %q, %v", c.Owner(), err)
	}
}

func TestTryLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		l, err := a.Mutex("stock").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held := w.enter(l, false, timing.Grace)
		begin := time.Now()
		for _, r := range []*rig{a, b} {
			for _, try := range []func(context.Context) (*locks.Lock, error){r.Mutex("stock").TryLock, r.RWMutex("stock").TryLock, r.RWMutex("stock").TryRLock} {
				l, err := try(t.Context())
				if l != nil {
					t.Fatal("has it too")
				}
				is(t, err, locks.ErrBusy)
			}
		}
		if time.Since(begin) > 0 {
			t.Errorf("waited for %v", time.Since(begin))
		}
		if n := len(w.look("stock").Places); n != 1 {
			t.Errorf("a TryLock has a place in the queue: %s", w.row("stock").Queue)
		}
		waiting := b.waits("stock")
		held.unlock(t)
		// The row that a saw last is outdated.
		_, err = a.Mutex("stock").TryLock(t.Context())
		is(t, err, locks.ErrBusy)
		waiting.has().unlock(t)
		l, err = a.Mutex("stock").TryLock(t.Context())
		if err != nil {
			t.Fatalf("after the last one left: %v", err)
		}
		w.enter(l, false, timing.Grace).unlock(t)
	})
}

// Where plain readings lag, no TryLock is refused for what was so a while ago.
func TestTryLockAsksForTheNewestRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, l := w.rig(), newLink(w.database)
		b := w.rigOn(l, newEnsemble(l, 1))
		for range 10 {
			s := a.lock("stock")
			if _, err := b.Mutex("stock").TryLock(t.Context()); !errors.Is(err, locks.ErrBusy) {
				t.Fatalf("TryLock beside a holder: %v", err)
			}
			s.unlock(t)
			got, err := b.Mutex("stock").TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A database that does not answer is no answer: neither "busy" nor waited for.
func TestTryLockWithoutDatabase(t *testing.T) {
	for name, f := range map[string]faulty.Fault{"errors": {Err: faulty.ErrLost}, "silence": {Silence: true}} {
		for _, op := range []string{"", "Read", "Acquire", "ReadLocks", "WriteLocks"} {
			t.Run(name+" "+op, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					a := w.rig()
					broken := func() {
						a.link.Always(func(o string) faulty.Fault {
							if op == "" || op == o {
								return f
							}
							return faulty.Fault{}
						})
					}
					try := func() {
						t.Helper()
						begin := time.Now()
						l, err := a.Mutex("stock").TryLock(t.Context())
						if err == nil || errors.Is(err, locks.ErrBusy) {
							t.Fatalf("%v, %v", l, err)
						}
						// One statement may be in flight, and one may follow.
						if took := time.Since(begin); took > 2*timing.AttemptTimeout+time.Second {
							t.Errorf("answered after %v: %v", took, err)
						}
					}
					broken()
					try()
					a.link.Heal()
					time.Sleep(2 * timing.AttemptTimeout)
					l, err := a.Mutex("stock").TryLock(t.Context())
					if err != nil {
						t.Fatalf("once the database is back: %v", err)
					}
					w.enter(l, false, timing.Grace).unlock(t)
					if op == "Read" || op == "Acquire" {
						return // it has its session
					}
					time.Sleep(time.Second)
					broken()
					b := w.rig()
					b.lock("stock").unlock(t) // what a knows is old
					try()
				})
			})
		}
	}
}

func TestUnlockTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		held.unlock(t)
		other := b.lock("stock")
		for range 2 {
			is(t, held.Unlock(t.Context()), locks.ErrUnlocked)
		}
		if !other.Trusted() || len(w.look("stock").Places) != 1 {
			t.Error("the second unlock has taken it from another holder")
		}
		other.unlock(t)

		// Two at once: one of them unlocks, and the lock is granted once.
		held = a.lock("stock")
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- held.Unlock(t.Context()) }()
		}
		one, two := <-errs, <-errs
		if (one == nil) == (two == nil) {
			t.Errorf("%v and %v", one, two)
		}
		is(t, errors.Join(one, two), locks.ErrUnlocked)
	})
}

func TestUnlockWithEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		cancel(why)
		held := a.lock("stock")
		next := b.waits("stock")
		a.link.Only("WriteLocks", faulty.Fault{Silence: true})
		err := held.Unlock(ctx)
		is(t, err, why)
		if err == nil || !strings.Contains(err.Error(), "not confirmed") {
			t.Errorf("%v", err)
		}
		is(t, context.Cause(held.Context()), locks.ErrUnlocked)
		next.hasNot()
		time.Sleep(timing.AttemptTimeout + time.Second)
		next.hasNot()
		a.link.Heal()
		next.within(timing.AttemptTimeout + time.Second).unlock(t)
		is(t, held.Unlock(t.Context()), locks.ErrUnlocked)
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		type key struct{}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		why := errors.New("why")
		got := a.Do(ctx, "stock", func(ctx context.Context) error {
			if ctx.Value(key{}) != "value" || ctx.Err() != nil {
				t.Errorf("value %v, %v", ctx.Value(key{}), ctx.Err())
			}
			if holds := lease.Holds(ctx); len(holds) != 1 || !w.has("stock", holds[0].Mark) {
				t.Errorf("holds %+v", holds)
			}
			if _, err := b.Mutex("stock").TryLock(t.Context()); !errors.Is(err, locks.ErrBusy) {
				t.Errorf("beside Do: %v", err)
			}
			return why
		})
		if !errors.Is(got, why) || errors.Is(got, locks.ErrLost) {
			t.Errorf("%v", got)
		}
		b.lock("stock").unlock(t)

		// The context ends with the caller's, and the lock is still released.
		enough := errors.New("enough")
		got = a.RWMutex("stock").Do(ctx, func(ctx context.Context) error {
			cancel(enough)
			<-ctx.Done()
			is(t, context.Cause(ctx), enough)
			return nil
		})
		if got != nil {
			t.Errorf("%v", got)
		}
		b.lock("stock").unlock(t)

		// It ends with the lock.
		got = a.RWMutex("stock").RDo(t.Context(), func(ctx context.Context) error {
			a.link.Cut()
			<-ctx.Done()
			is(t, context.Cause(ctx), locks.ErrLost)
			return why
		})
		is(t, got, why)
		is(t, got, locks.ErrLost)
		a.link.Heal()

		// What waits in vain does not run.
		held := b.lock("stock")
		short, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		is(t, a.Do(short, "stock", func(context.Context) error { t.Error("runs"); return nil }), context.DeadlineExceeded)
		held.unlock(t)

		// Nor is it kept by a panic.
		func() {
			defer func() {
				if recover() != "oh" {
					t.Error("the panic is gone")
				}
			}()
			_ = a.Do(t.Context(), "stock", func(context.Context) error { panic("oh") })
		}()
		if _, err := b.Mutex("stock").TryLock(t.Context()); err != nil {
			t.Errorf("after a panic: %v", err)
		}
		b.leaves = true // with the last lock
	})
}

func TestDoWithoutDatabase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		begin := time.Now()
		err := a.Do(t.Context(), "stock", func(context.Context) error {
			a.link.Hang()
			return nil
		})
		if err == nil || errors.Is(err, locks.ErrLost) || !strings.Contains(err.Error(), "not confirmed") {
			t.Errorf("%v", err)
		}
		if took := time.Since(begin); took > timing.AttemptTimeout {
			t.Errorf("took %v", took)
		}
	})
}
