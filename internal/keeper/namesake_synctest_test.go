package keeper_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
)

// Two processes have the same owner name, which random names normally rule out. They
// follow each other like any others: no two are trusted at a time, no token is used
// twice, and the one that waits logs the conflict.
func TestTwoProcessesWithOneOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		core, logs := observer.New(zap.ErrorLevel)
		a, b := newNamesake(t, store, nil), newNamesake(t, store, zap.New(core))
		h := a.hold("g")
		c := b.candidate("g")
		for range 5 {
			time.Sleep(b.waits(c))
			if !h.Trusted() || a.row("g").Token != h.Token() || a.row("g").Released {
				t.Fatalf("the other took it: %v, row %+v", context.Cause(h.Context()), a.row("g"))
			}
		}
		if n := logs.Len(); n != 1 {
			t.Errorf("%d errors logged, want one for the term: %v", n, logs.All())
		}

		// The holder is gone. Its row is not given back in its name, but watched.
		a.link.Cut()
		began := time.Now()
		for h.Trusted() {
			time.Sleep(b.waits(c))
		}
		next := lookUntilHeld(t, b, c)
		if next.Token() <= h.Token() || time.Since(began) > 16*time.Second {
			t.Errorf("token %d after %d, %v later", next.Token(), h.Token(), time.Since(began))
		}

		// What the old holder still sends touches nothing of the next.
		a.link.Heal()
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("release of the old term: %v", err)
		}
		if !next.Trusted() || a.row("g").Released || a.row("g").Token != next.Token() {
			t.Errorf("the row became %+v", a.row("g"))
		}
		again := a.candidate("g")
		a.waits(again)
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
		a.takes(again)
	})
}

// Neither does one adopt, for its own unanswered acquire, what the other took.
func TestAcquireOfANamesakeIsNotAdopted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		a, b := newNamesake(t, store, nil), newNamesake(t, store, nil)
		c := b.candidate("g")
		b.link.Once("Acquire", faulty.Fault{Err: faulty.ErrLost})
		if held, _, err := c.Look(t.Context()); held != nil || err == nil {
			t.Fatalf("held %v, error %v", held, err)
		}
		h := a.hold("g")
		for range 20 {
			time.Sleep(b.waits(c))
		}
		if !h.Trusted() || a.row("g").Token != h.Token() {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
	})
}

func newNamesake(t *testing.T, store *memdb.Store, log *zap.Logger) *rig {
	t.Helper()
	r := stoppedRig(t, store, keeper.Config{Logger: log})
	r.SetOwner("worker/host/1/namesake")
	go func() { _ = r.Run(t.Context()) }()
	synctest.Wait()
	return r
}

// lookUntilHeld looks as often as the candidate wants to, for a minute at most.
func lookUntilHeld(t *testing.T, r *rig, c *keeper.Candidate) *keeper.Held {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		held, wait, err := c.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if held != nil {
			return held
		}
		time.Sleep(wait)
	}
	t.Fatalf("not taken: %+v", r.row("g"))
	return nil
}
