package keeper_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// An acquire took effect, but its answer was lost.
func TestLateAcquireIsAdopted(t *testing.T) {
	for name, f := range map[string]faulty.Fault{
		"lost answer": {Err: faulty.ErrLost, Applied: true},
		"ghost":       {Err: faulty.ErrLost, Late: 900 * time.Millisecond},
		"no answer":   {Reply: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, memdb.New())
				c := r.candidate("g")
				r.link.Once("Acquire", f)
				began := time.Now()
				if held, _, err := c.Look(t.Context()); held != nil || err == nil {
					t.Fatalf("held %v, error %v", held, err)
				}
				time.Sleep(4*time.Second - time.Since(began))
				acquires := r.link.Count("Acquire")
				h := r.takes(c)
				if r.link.Count("Acquire") != acquires {
					t.Error("acquired again")
				}
				if left := h.TrustLeft(); left != 8850*time.Millisecond {
					t.Errorf("trusted for %v, want to count from the sending", left)
				}
				if row := r.row("g"); row.Token != h.Token() || row.Released {
					t.Errorf("holds %d, row %+v", h.Token(), row)
				}
				time.Sleep(time.Minute)
				if !h.Trusted() {
					t.Errorf("lost: %v", context.Cause(h.Context()))
				}
			})
		})
	}
}

// Too late: the term's trust is over, so it is released, and the lease taken again.
func TestLateAcquireIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		other := r.hold("other")
		c := r.candidate("g")
		r.link.Once("Acquire", faulty.Fault{Err: faulty.ErrLost, Applied: true})
		_, _, _ = c.Look(t.Context())
		late := r.row("g")
		r.change("g", func(l *store.Lease) { l.Token = other.Token() }) // as two groups may happen to have
		time.Sleep(13 * time.Second)
		h := r.takes(c)
		if h.Token() <= late.Token || h.TrustLeft() != 12850*time.Millisecond || r.link.Count("Release") != 1 {
			t.Errorf("token %d after %d, trusted for %v, %d releases", h.Token(), late.Token, h.TrustLeft(), r.link.Count("Release"))
		}
	})
}

// An acquire whose client gave up runs after that client's next one: it finds
// another row.
func TestGhostAcquireAfterItsSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		c := r.candidate("g")
		r.link.Once("Acquire", faulty.Fault{Err: faulty.ErrLost, Late: 2 * time.Second})
		_, _, _ = c.Look(t.Context())
		h := r.takes(c)
		time.Sleep(time.Minute)
		if !h.Trusted() || r.row("g").Token != h.Token() {
			t.Errorf("holds %d, row %+v", h.Token(), r.row("g"))
		}
	})
}

// The machine slept while it waited for the answer.
func TestAcquireAnsweredAfterItsTrust(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var machine clocks
		r := stoppedRig(t, memdb.New())
		r.SetClocks(machine.read)
		c := r.candidate("g")
		r.link.Always(func(op string) faulty.Fault {
			if op == "Acquire" {
				machine.sleep(time.Minute)
			}
			return faulty.Fault{}
		})
		held, _, err := c.Look(t.Context())
		if held != nil || err != nil {
			t.Errorf("held %v, %v", held, err)
		}
		if row := r.row("g"); row.Owner != r.Owner() || !row.Released {
			t.Errorf("row %+v, want it given back", row)
		}
	})
}

func TestTenCandidatesOneWinner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		var wait sync.WaitGroup
		won := make(chan *keeper.Held, 10)
		for range 10 {
			r := newRig(t, store)
			c := r.candidate("g")
			r.link.Always(func(string) faulty.Fault { return faulty.Fault{Reply: time.Millisecond} })
			wait.Go(func() {
				for range 20 {
					if held, _, _ := c.Look(t.Context()); held != nil {
						won <- held
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		wait.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("%d winners", len(won))
		}
		if h := <-won; !h.Trusted() {
			t.Errorf("the winner lost it: %v", context.Cause(h.Context()))
		}
	})
}

// Restored to an old state on a machine whose clock is behind: what this
// process has seen is the floor.
func TestWaitsBesideALeaseThatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		a, b := newRig(t, store), newRig(t, store)
		a.hold("g")
		c := b.candidate("g")
		for range 50 {
			wait := b.waits(c)
			if wait < 9*time.Second || wait > 15250*time.Millisecond {
				t.Fatalf("waits for %v", wait)
			}
			time.Sleep(wait)
		}
		a.link.Cut()
		cut := time.Now()
		for held := (*keeper.Held)(nil); held == nil && time.Since(cut) < time.Hour; {
			h, wait, err := c.Look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = h
			time.Sleep(wait)
		}
		if after := time.Since(cut); after > 16*time.Second {
			t.Errorf("taken %v after the cut", after)
		}
		if n := b.link.Count("Prepare") + b.link.Count("Acquire"); n != 1 {
			t.Errorf("%d writes", n)
		}
	})
}

// A follower's wall clock does not matter: it may be set, or run on while the
// machine sleeps.
func TestFollowerWhoseWallClockIsSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var machine clocks
		store := memdb.New()
		a, b := newRig(t, store), stoppedRig(t, store)
		b.SetClocks(machine.read)
		h := a.hold("g")
		c := b.candidate("g")
		for _, by := range []time.Duration{time.Hour, -2 * time.Hour, time.Minute} {
			b.waits(c)
			machine.sleep(by)
			if wait := b.waits(c); wait < 9*time.Second || wait > 16*time.Second {
				t.Errorf("waits for %v after a step of %v", wait, by)
			}
			time.Sleep(6 * time.Second)
		}
		if !h.Trusted() {
			t.Error("deposed")
		}
	})
}

// The bound of a second holds for every TTL.
func TestJitterIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		long := keeper.Config{Timing: lease.Timing{TTL: 2 * time.Hour}}
		a, b := newRig(t, store, long), newRig(t, store, long)
		a.hold("g")
		a.link.Cut()
		c, began := b.candidate("g"), time.Now()
		for time.Since(began) < 3*time.Hour {
			held, wait, err := c.Look(t.Context())
			if held != nil || err != nil {
				break
			}
			if wait > time.Minute+250*time.Millisecond {
				t.Fatalf("waits for %v", wait)
			}
			time.Sleep(wait)
		}
		if late := time.Since(began) - 2*time.Hour; late < 0 || late > time.Second {
			t.Errorf("taken %v late", late)
		}
	})
}

// After a restart of the server, no replica takes a lease for a TTL, and the
// healthy holder does not notice.
// ... also when the restart comes between the reading and the acquire.
// A replica does not release at once a row that was rewound to one of its own
// terms: a replica that starts just then would take it while the later holder
// still trusts its lease.
// What a replica's own term wrote counts as seen, even if no reading showed it.
// A stop that comes while an acquire is under way waits for its answer.
// Otherwise the lease would have no live holder for a TTL.
func TestStopInTheMiddleOfAnAcquire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		c := r.candidate("g")
		r.link.Once("Acquire", faulty.Fault{Reply: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		held, _, err := c.Look(ctx)
		if held == nil || err != nil {
			t.Fatalf("held %v, %v", held, err)
		}
		r.link.Once("Acquire", faulty.Fault{Silence: true})
		_ = held.Release(t.Context())
		ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, _, err := c.Look(ctx); err == nil || time.Since(began) > 3*time.Second {
			t.Errorf("an acquire without an answer: %v after %v", err, time.Since(began))
		}
	})
}

// A database that can be read but not written, for an hour.
func TestUnansweredAcquiresAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		c := r.candidate("g")
		_, _, _ = c.Look(t.Context())
		c = r.candidate("g")
		_ = r.link.Release(t.Context(), "g", r.Owner(), r.row("g").Token)
		r.link.Always(func(op string) faulty.Fault {
			if op == "Acquire" {
				return faulty.Fault{Err: faulty.ErrLost}
			}
			return faulty.Fault{}
		})
		for range 3600 {
			_, _, _ = c.Look(t.Context())
			time.Sleep(time.Second)
		}
		if n := c.Unanswered(); n > 20 {
			t.Errorf("%d acquires are remembered", n)
		}
	})
}

// Two candidates of one keeper in one group are a mistake, which is refused and
// does the first one no harm.
func TestSecondCandidateOfOneKeeper(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		c := r.candidate("g")
		for range 10 {
			if second, _, err := c.Look(t.Context()); second != nil || !errors.Is(err, keeper.ErrContended) {
				t.Fatalf("the second candidate: %v, %v, want ErrContended", second, err)
			}
			time.Sleep(9 * time.Second)
		}
		if !h.Trusted() || r.row("g").Released {
			t.Errorf("trusted %v, row %+v", h.Trusted(), r.row("g"))
		}
	})
}

// Lease deleted: prepared anew, and watched for the TTL of the holder that was
// seen last. Group deleted: watched for a TTL, and then new.
