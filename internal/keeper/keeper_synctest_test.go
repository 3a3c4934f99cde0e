package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	machine "github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

func TestOneStatementForAThousandLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		var held []*keeper.Held
		for i := range 1000 {
			held = append(held, r.hold(fmt.Sprint("g", i)))
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait() // there is a heartbeat at that instant
		if n := r.link.Count("Renew"); n < 50 || n > 70 {
			t.Errorf("%d renewals in 5 minutes", n)
		}
		if !slices.Contains(r.sizes.all, 1000) {
			t.Errorf("no renewal of all: %v", r.sizes.all)
		}
		for _, h := range held {
			if !h.Trusted() {
				t.Fatalf("%s was lost: %v", h.Group(), context.Cause(h.Context()))
			}
		}
		if n := r.link.Count("Read"); n > 2000 {
			t.Errorf("%d reads, though all was clear", n)
		}
	})
}

// Losing one lease to another owner ends only that lease's term.
func TestLossOfOneAmongMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		a, b, c := r.hold("a"), r.hold("b"), r.hold("c")
		r.change("b", func(l *store.Lease) { l.Owner, l.Token = "other", l.Token+1 })
		time.Sleep(time.Minute)
		lost(t, b, "other")
		if !a.Trusted() || !c.Trusted() {
			t.Error("the others were lost too")
		}
	})
}

// The server still runs a renewal that its client gave up, after the next one.
// ... and before it: then it is the renewal, and counts from its own sending.
func TestTrustDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		time.Sleep(7 * time.Second) // renewed at 5 s
		r.link.Cut()
		began := time.Now()
		<-h.Context().Done()
		if after := time.Since(began); after != 10850*time.Millisecond {
			t.Errorf("the context ended %v after 7 s", after)
		}
		lost(t, h, "not renewed for 12.85s")
		if since, err := r.Trouble().Last(); err == nil || since.Before(began) {
			t.Errorf("trouble since %v: %v", since, err)
		}
		r.link.Heal()
		time.Sleep(time.Minute)
		if h.Trusted() || h.TrustLeft() != 0 {
			t.Error("trusted again")
		}
	})
}

// An outage that ends before the trust does costs nothing.
// No statement is waited for past the deadline.
func TestLastAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		check := func(what string) {
			t.Helper()
			for range 100 {
				time.Sleep(time.Second)
				if late := r.LastAttempt(); late > 15*time.Second {
					t.Fatalf("%s: %v", what, late)
				}
			}
		}
		check("idle")
		h := r.hold("g")
		check("holding")
		r.link.Cut()
		check("database away")
		r.link.Heal()
		_ = h.Release(t.Context())
		check("released")

		stuck := make(chan struct{})
		r.link.Once("Renew", faulty.Fault{Stuck: stuck})
		h = r.hold("g")
		time.Sleep(time.Minute)
		lost(t, h, "not renewed")
		_ = h.Release(t.Context())
		r.hold("g") // a new term does not hide it
		if late := r.LastAttempt(); late < 40*time.Second {
			t.Errorf("stuck for a minute, and it says %v", late)
		}
		close(stuck)
		check("unstuck")

		idle := stoppedRig(t, r.store)
		time.Sleep(time.Minute)
		if late := idle.LastAttempt(); late < time.Minute {
			t.Errorf("not run for a minute, and it says %v", late)
		}
	})
}

func TestKeeperRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := stoppedRig(t, memdb.New())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		h := r.hold("g")
		if err := r.Run(ctx); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("second Run: %v", err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		lost(t, h, "stopped")
		if r.row("g").Released {
			t.Error("released, while work may still run")
		}
		go func() { done <- r.Run(t.Context()) }()
		time.Sleep(20 * time.Second)
		h = r.hold("g")
		time.Sleep(time.Minute)
		if !h.Trusted() {
			t.Error("the keeper does not run again")
		}
	})
}

// A keeper that holds nothing is awake for its heartbeats alone: it watches no deadlines.
func TestIdleKeeperSleeps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var looks atomic.Int64
		r := newRig(t, memdb.New(), keeper.Config{Clock: func() machine.Instant {
			looks.Add(1)
			return machine.Now()
		}})
		if err := r.hold("g").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		looks.Store(0)
		time.Sleep(time.Hour)
		if n := looks.Load(); n > 1000 {
			t.Errorf("looked at the clock %d times in an hour", n)
		}
	})
}

func TestNewKeeper(t *testing.T) {
	t.Parallel()
	if _, err := keeper.New(nil, keeper.Config{}); err == nil {
		t.Error("no store is accepted")
	}
	core, logs := observer.New(zapcore.DebugLevel)
	k, err := keeper.New(memdb.New(), keeper.Config{Label: "billing", Logger: zap.New(core)})
	if err != nil || !strings.HasPrefix(k.Owner(), "billing/") {
		t.Errorf("owner %q, %v", k.Owner(), err)
	}
	for range 2 { // of which the second is logged at debug level
		k.Trouble().Failed("look", errors.New("no answer"))
	}
	for _, line := range logs.All() {
		if line.ContextMap()["owner"] != k.Owner() {
			t.Errorf("a line does not say whose it is: %v", line)
		}
	}
	if _, err := k.Candidate("no good"); err == nil {
		t.Error("a bad group is accepted")
	}
}
