package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
)

func inspect(t *testing.T, r *rig, name string) locks.Info {
	t.Helper()
	info, err := r.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != name || info.Now.IsZero() {
		t.Errorf("%q at %v", info.Name, info.Now)
	}
	return info
}

func TestInspect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, observer := w.rig(locks.WithLabel("billing")), w.rig(), w.rig()
		if info := inspect(t, observer, "stock"); len(info.Holders)+len(info.Waiting) > 0 || observer.link.Count("Read") > 0 {
			t.Errorf("a free lock: %+v, and %d readings of sessions", info, observer.link.Count("Read"))
		}
		a.lock("other").unlock(t) // now both know the database's clock
		b.lock("other").unlock(t)
		held := a.lock("stock", locks.Label("nightly"))
		from := time.Now()
		time.Sleep(time.Second)
		next := b.wait(true, func(ctx context.Context) (*locks.Lock, error) {
			return b.RWMutex("stock", locks.Label(`"`)).RLockFor(ctx, 10*time.Second)
		})
		since := time.Now()
		time.Sleep(time.Second)
		own := a.waits("stock")
		writes := observer.link.Count("WriteLocks")

		info := inspect(t, observer, "stock")
		if len(info.Holders) != 1 || len(info.Waiting) != 2 {
			t.Fatalf("%+v", info)
		}
		h := info.Holders[0]
		if h.Owner != a.Owner() || h.Label != "nightly" || h.Read || h.Token != held.Token() || !h.Held.Equal(from) || !h.Since.Equal(from) {
			t.Errorf("holder %+v", h)
		}
		if h.Until.Before(info.Now) || h.Until.After(info.Now.Add(timing.TTL)) {
			t.Errorf("until %v at %v", h.Until, info.Now)
		}
		x := info.Waiting[0]
		if x.Owner != b.Owner() || x.Label != `"` || !x.Read || x.Token != 0 || !x.Held.IsZero() || !x.Since.Equal(since) {
			t.Errorf("waiter %+v", x)
		}
		if x.Until.Before(info.Now) { // its limit counts from the grant
			t.Errorf("waiter until %v at %v", x.Until, info.Now)
		}
		if y := info.Waiting[1]; y.Owner != a.Owner() || y.Read {
			t.Errorf("waiter %+v", y)
		}
		if observer.link.Count("WriteLocks") != writes || observer.link.Count("Acquire") > 0 {
			t.Error("looking at a lock writes")
		}

		// A limit ends sooner than the session would be let expire.
		held.unlock(t)
		next.has()
		got := time.Now()
		info = inspect(t, observer, "stock")
		if len(info.Holders) != 1 || !info.Holders[0].Held.Equal(got) || !info.Holders[0].Until.Equal(got.Add(10*time.Second)) {
			t.Errorf("%+v, want until %v", info.Holders, got.Add(10*time.Second))
		}
		next.stay.unlock(t)
		own.has()

		// A process that vanished is not renewed any more.
		a.crash()
		time.Sleep(timing.TTL + timing.RenewEvery)
		if info = inspect(t, observer, "stock"); !info.Holders[0].Until.Before(info.Now) {
			t.Errorf("until %v at %v", info.Holders[0].Until, info.Now)
		}
		b.waits("stock").within(afterCrash + 2*aLook).unlock(t)
		if info = inspect(t, observer, "stock"); len(info.Holders)+len(info.Waiting) > 0 {
			t.Errorf("%+v", info)
		}
	})
}

// When the place was taken is known of the first lock of a process too.
func TestInspectTheFirstLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("stock")
		if h := inspect(t, a, "stock").Holders[0]; !h.Since.Equal(time.Now()) {
			t.Errorf("taken at %v", h.Since)
		}
		held.unlock(t)
	})
}

// List has the locks with holders or waiters, in the order of their names, and no others.
func TestList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		if found, err := locks.List(t.Context(), a.link, "", 10); err != nil || len(found) > 0 || a.link.Count("ReadLocks") > 0 {
			t.Fatalf("without locks: %+v, %v, %d readings", found, err, a.link.Count("ReadLocks"))
		}
		a.lock("free").unlock(t)
		a.lock("other").unlock(t)
		b.lock("other").unlock(t) // now both know the database's clock
		stock, order, third := a.lock("stock"), b.lock("order/1"), a.lock("third")
		waits := b.waits("stock")
		found, err := locks.List(t.Context(), w, "", 2)
		if err != nil || len(found) != 2 || found[0].Name != "order/1" || found[1].Name != "stock" {
			t.Fatalf("%+v, %v", found, err)
		}
		if x := found[0]; len(x.Holders) != 1 || x.Holders[0].Owner != b.Owner() || x.Holders[0].Token != order.Token() || x.Holders[0].Until.Before(x.Now) {
			t.Errorf("%+v", x)
		}
		if x := found[1]; len(x.Holders) != 1 || x.Holders[0].Owner != a.Owner() || len(x.Waiting) != 1 || x.Waiting[0].Owner != b.Owner() {
			t.Errorf("%+v", x)
		}
		if found, err = locks.List(t.Context(), w, "stock", 2); err != nil || len(found) != 1 || found[0].Name != "third" {
			t.Errorf("behind stock: %+v, %v", found, err)
		}
		stock.unlock(t)
		waits.has().unlock(t)
		order.unlock(t)
		third.unlock(t)
		if _, err := locks.List(t.Context(), nil, "", 1); err == nil {
			t.Error("a list of no store")
		}
	})
}

// A place whose session was released, or taken over, ends at no time.
func TestInspectAnEndedSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, observer := w.rig(), w.rig()
		held := a.lock("stock")
		of := w.look("stock").Processes[0]
		if err := w.Release(t.Context(), of.Group, of.Owner, of.Token); err != nil {
			t.Fatal(err)
		}
		if info := inspect(t, observer, "stock"); len(info.Holders) != 1 || !info.Holders[0].Until.IsZero() {
			t.Errorf("%+v", info)
		}
		<-held.ended
		is(t, held.Unlock(t.Context()), locks.ErrLost)
	})
}

func TestInspectWithoutDatabase(t *testing.T) {
	for _, op := range []string{"Read", "ReadLocks"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.rig(), w.rig()
				held := a.lock("stock")
				b.link.Only(op, faulty.Fault{Err: faulty.ErrLost})
				_, err := b.Inspect(t.Context(), "stock")
				is(t, err, faulty.ErrLost)
				b.link.Only(op, faulty.Fault{Silence: true})
				begin := time.Now()
				if _, err = b.Inspect(t.Context(), "stock"); err == nil || time.Since(begin) > timing.AttemptTimeout {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(errEnough)
				_, err = b.Inspect(ctx, "stock")
				is(t, err, errEnough)
				held.unlock(t)
			})
		})
	}
}
