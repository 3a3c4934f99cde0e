package keeper_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
)

// Two candidates for one group on one keeper would be one owner to the database. The
// second is refused, both while the first looks and while it holds the lease.
func TestTwoCandidatesOfOneKeeper(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		a, b := newRig(t, store), newRig(t, store)
		a.link.Once("Acquire", faulty.Fault{Reply: 50 * time.Millisecond})
		one, two := a.candidate("g"), a.candidate("g")
		refused := func(when string) {
			t.Helper()
			if h, _, err := two.Look(t.Context()); h != nil || !errors.Is(err, keeper.ErrContended) {
				t.Errorf("%s: the second candidate got %v, %v", when, h, err)
			}
			if err := two.Watch(t.Context()); !errors.Is(err, keeper.ErrContended) || two.Reading() != nil {
				t.Errorf("%s: the second candidate watches: %v, %v", when, two.Reading(), err)
			}
		}
		got := make(chan *keeper.Held)
		go func() {
			h, _, err := one.Look(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		time.Sleep(10 * time.Millisecond)
		refused("in the middle of an acquire")
		h := <-got
		if h == nil || !h.Trusted() {
			t.Fatal("the first candidate does not hold the lease")
		}
		refused("while the lease is held")
		if again, _, err := one.Look(t.Context()); again != nil || err != nil || !h.Trusted() || a.row("g").Released {
			t.Errorf("the holder's look: %v, %v; trusted %t, row %+v", again, err, h.Trusted(), a.row("g"))
		}
		if other, _, err := b.candidate("g").Look(t.Context()); other != nil || err != nil {
			t.Errorf("another replica got %v, %v", other, err)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := two.Watch(t.Context()); err != nil || two.Reading() == nil || !two.Reading().Lease.Released {
			t.Errorf("after the release, the second candidate sees %v, %v", two.Reading(), err)
		}
		if h, _, err := two.Look(t.Context()); h == nil || err != nil {
			t.Errorf("after the release, the second candidate got %v, %v", h, err)
		}
		synctest.Wait()
	})
}

// A reading of one group that fails names it, and one of several says how many.
func TestReadSeveral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newRig(t, memdb.New())
		one, two := a.candidate("g"), a.candidate("other")
		if err := a.Read(t.Context(), one, two); err != nil || one.Reading() == nil || two.Reading() == nil {
			t.Errorf("read %v and %v, %v", one.Reading(), two.Reading(), err)
		}
		a.link.Cut()
		for want, all := range map[string][]*keeper.Candidate{`group "g": `: {one}, "2 groups: ": {one, two}} {
			if err := a.Read(t.Context(), all...); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	})
}

// A group that a candidate has begun with is its own between its looks, too.
func TestCandidateThatHasBegun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newRig(t, memdb.New())
		one, two := a.candidate("g"), a.candidate("g")
		if err := errors.Join(one.Begin(), one.Begin()); err != nil {
			t.Fatal(err)
		}
		if err := two.Begin(); !errors.Is(err, keeper.ErrContended) {
			t.Errorf("Begin: %v", err)
		}
		if _, _, err := two.Look(t.Context()); !errors.Is(err, keeper.ErrContended) {
			t.Errorf("Look: %v", err)
		}
		if err := a.candidate("other").Begin(); err != nil {
			t.Errorf("Begin with another group: %v", err)
		}
		one.End()
		if err := two.Begin(); err != nil {
			t.Errorf("Begin after End: %v", err)
		}
	})
}
