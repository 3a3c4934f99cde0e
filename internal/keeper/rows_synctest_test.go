package keeper_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

func TestTokenGrowsOverARestore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memdb.New()
		a, b := newRig(t, s), newRig(t, s)
		h := a.hold("g")
		_ = h.Release(t.Context())
		c := b.candidate("g")
		seen := b.takes(c)
		_ = seen.Release(t.Context())
		s.StepClock(-10 * 365 * 24 * time.Hour)
		s.Update("g", func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			l.Token, f.Token = 5, 5
			return l, f
		})
		if wait := b.waits(c); wait < 15*time.Second {
			t.Errorf("waits for %v beside a row that was rewound", wait)
		}
		time.Sleep(16 * time.Second)
		again := b.takes(c)
		if again.Token() <= seen.Token() {
			t.Errorf("token %d after %d", again.Token(), seen.Token())
		}
	})
}

func TestRestartOfTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		a, b := newRig(t, store), newRig(t, store)
		h, released := a.hold("g"), a.hold("other")
		onG, onOther := b.candidate("g"), b.candidate("other")
		b.waits(onG)
		b.waits(onOther)
		_ = released.Release(t.Context())
		store.Restart()
		if wait := b.waits(onG); wait < 15*time.Second {
			t.Errorf("waits for %v", wait)
		}
		wait := b.waits(onOther)
		if wait < 15*time.Second {
			t.Errorf("waits for %v beside a released lease", wait)
		}
		time.Sleep(wait)
		b.takes(onOther)
		b.waits(onG)
		if !h.Trusted() {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
	})
}

func TestAcquireOnAnotherConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		_ = r.hold("g").Release(t.Context())
		c := r.candidate("g")
		r.link.Always(func(op string) faulty.Fault {
			if op == "Acquire" && r.link.Counts()[op] == 2 {
				r.store.Restart()
			}
			return faulty.Fault{}
		})
		if wait := r.waits(c); wait < 15*time.Second {
			t.Errorf("waits for %v", wait)
		}
		if !r.row("g").Released {
			t.Error("taken")
		}
	})
}

func TestRowRewoundToMyOldTerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memdb.New()
		a, b := newRig(t, s), newRig(t, s)
		onA := a.candidate("g")
		mine := a.takes(onA)
		old := a.row("g")
		a.link.Cut()
		onB := b.candidate("g")
		time.Sleep(b.waits(onB))
		next := b.takes(onB)
		a.link.Heal()
		_ = mine.Release(t.Context())
		a.waits(onA)
		s.Update("g", func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) {
			return &old, &store.Fence{Owner: old.Owner, Token: old.Token}
		})
		wait := a.waits(onA)
		if a.row("g").Released || !next.Trusted() {
			t.Fatalf("row %+v, next trusted %v", a.row("g"), next.Trusted())
		}
		time.Sleep(wait)
		if h := a.takes(onA); h.Token() <= next.Token() || next.Trusted() {
			t.Errorf("token %d after %d, which is trusted: %v", h.Token(), next.Token(), next.Trusted())
		}
	})
}

func TestRowRewoundWithinMyOwnTerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		c := r.candidate("g")
		h := r.takes(c)
		first := r.row("g")
		time.Sleep(12 * time.Second)
		r.change("g", func(l *store.Lease) { *l = first })
		<-h.Context().Done()
		if wait := r.waits(c); wait < 15*time.Second {
			t.Errorf("waits for %v", wait)
		}
	})
}

func TestDeletedRows(t *testing.T) {
	for name, keepFence := range map[string]bool{"lease": true, "both": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memdb.New()
				minute := lease.Timing{TTL: time.Minute}
				a, b, fresh := newRig(t, s, keeper.Config{Timing: minute}), newRig(t, s), newRig(t, s)
				h := a.hold("g")
				c := b.candidate("g")
				b.waits(c)
				a.link.Cut()
				s.Update("g", func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
					if keepFence {
						return nil, f
					}
					return nil, nil
				})
				began := time.Now()
				wait := b.waits(c)
				if wait < time.Minute || wait > 61*time.Second {
					t.Errorf("waits for %v", wait)
				}
				if keepFence { // a new replica learns it only from the prepared row
					if wait := fresh.waits(fresh.candidate("g")); wait < time.Minute {
						t.Errorf("a new replica waits for %v", wait)
					}
				}
				time.Sleep(wait)
				var next *keeper.Held
				for next == nil && time.Since(began) < time.Hour {
					var err error
					if next, wait, err = c.Look(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(wait)
				}
				if after := time.Since(began); after > 62*time.Second {
					t.Fatalf("taken after %v", after)
				}
				if h.Trusted() || next.Token() <= h.Token() {
					t.Errorf("token %d after %d, which is trusted: %v", next.Token(), h.Token(), h.Trusted())
				}
				synctest.Wait()
			})
		})
	}
}
