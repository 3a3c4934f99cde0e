package keeper_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// A machine sleeps: its monotonic clock stands still, its wall clock does not.
func TestSuspendedMachine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var machine clocks
		r := stoppedRig(t, memdb.New())
		r.SetClocks(machine.read)
		go func() { _ = r.Run(t.Context()) }()
		h := r.hold("g")
		time.Sleep(6 * time.Second)
		machine.sleep(11 * time.Second)
		if !h.Trusted() || h.TrustLeft() != 850*time.Millisecond {
			t.Errorf("trusted for %v after 1 s awake and 11 s asleep", h.TrustLeft())
		}
		machine.sleep(time.Second)
		if h.Trusted() {
			t.Error("trusted after a sleep past the deadline")
		}
		lost(t, h, "not renewed")

		h = r.takes(r.candidate("other"))
		machine.sleep(time.Hour)
		woke := time.Now()
		<-h.Context().Done()
		if after := time.Since(woke); after > r.Timing().Grace/4 {
			t.Errorf("the context ended %v after it woke", after)
		}
		lost(t, h, "not renewed")

		h = r.takes(r.candidate("third"))
		machine.sleep(-2 * time.Hour) // the clock is set back
		time.Sleep(time.Minute)
		if !h.Trusted() {
			t.Error("lost by a clock that was set back")
		}
		r.link.Cut()
		machine.sleep(-2 * time.Hour)
		time.Sleep(13 * time.Second)
		lost(t, h, "not renewed")
	})
}

func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var k *keeper.Keeper
		warned := 0
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.DebugLevel)
		logger := zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
			if strings.Contains(e.Message, "left to expire") {
				warned++
			}
			if k.Locked() { // a log that blocks must not block the deadlines
				t.Errorf("logs %q with the lock held", e.Message)
			}
			return nil
		}))
		r := newRig(t, memdb.New(), keeper.Config{Logger: logger})
		k = r.Keeper
		r.link.Ended = false // as it is with a real database
		other := r.hold("other")
		h := r.hold("g")
		time.Sleep(10 * time.Second)
		synctest.Wait() // for the heartbeat of that instant, as the last one may be due a TTL after it
		why := errors.New("enough")
		h.End(why)
		h.End(errors.New("again"))
		ended := time.Now()
		if cause := context.Cause(h.Context()); !errors.Is(cause, why) || h.Trusted() {
			t.Errorf("cause %v, trusted %v", cause, h.Trusted())
		}
		last := time.Duration(0)
		for beat := r.row("g").Heartbeat; time.Since(ended) < time.Minute; time.Sleep(100 * time.Millisecond) {
			if time.Since(ended) == 10*time.Second {
				h.End(errors.New("and again")) // which does not restart the drain
			}
			if now := r.row("g").Heartbeat; now != beat {
				beat, last = now, time.Since(ended)
			}
		}
		if last < 8*time.Second || last >= 15*time.Second {
			t.Errorf("last renewed %v after the end, want it kept up for less than a TTL", last)
		}
		if r.row("g").Released {
			t.Error("released by itself")
		}
		if warned != 1 {
			t.Errorf("%d warnings", warned)
		}
		if !other.Trusted() {
			t.Error("the other lease was lost")
		}
	})
}

// A renewal that succeeds late keeps others out, and brings no trust back.
func TestNoTrustAfterTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		r.link.Cut()
		time.Sleep(14 * time.Second)
		lost(t, h, "not renewed")
		r.link.Heal()
		beat := r.row("g").Heartbeat
		time.Sleep(5 * time.Second)
		if r.row("g").Heartbeat == beat {
			t.Error("not kept while work drains")
		}
		lost(t, h, "not renewed")
	})
}

func TestAbandon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		row := r.row("g")
		h.Abandon()
		time.Sleep(time.Minute)
		if r.row("g") != row {
			t.Errorf("%+v became %+v", row, r.row("g"))
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, lease.ErrReleased) {
			t.Errorf("cause %v", cause)
		}
	})
}

func TestRelease(t *testing.T) {
	down := faulty.Fault{Err: faulty.ErrLost}
	for name, c := range map[string]struct {
		faults   []faulty.Fault
		err      bool
		released bool
	}{
		"at once":            {nil, false, true},
		"second try":         {[]faulty.Fault{down}, false, true},
		"third try":          {[]faulty.Fault{down, down}, false, true},
		"never":              {[]faulty.Fault{down, down, down}, true, false},
		"lost answer":        {[]faulty.Fault{{Err: faulty.ErrLost, Applied: true}}, false, true},
		"no answer":          {[]faulty.Fault{{Silence: true}}, false, true},
		"lost answers":       {[]faulty.Fault{{Err: faulty.ErrLost, Applied: true}, {Err: faulty.ErrLost, Applied: true}, {Err: faulty.ErrLost, Applied: true}}, true, true},
		"ghost of the first": {[]faulty.Fault{{Err: faulty.ErrLost, Late: time.Hour}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, memdb.New())
				h := r.hold("g")
				r.link.Once("Release", c.faults...)
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // it works on all the same
				if err := h.Release(ctx); (err != nil) != c.err {
					t.Errorf("error %v", err)
				}
				if got := r.row("g").Released; got != c.released {
					t.Errorf("released: %v", got)
				}
				if cause := context.Cause(h.Context()); !errors.Is(cause, lease.ErrReleased) || h.Trusted() {
					t.Errorf("cause %v, trusted %v", cause, h.Trusted())
				}
				renewals := r.link.Count("Renew")
				time.Sleep(2 * time.Hour)
				if r.link.Count("Renew") != renewals {
					t.Error("still renewed")
				}
			})
		})
	}
}

// The release of an old term does not affect the next one, whichever owner has it.
func TestReleaseOfAnOldTerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		a, b := newRig(t, store), newRig(t, store)
		old := a.hold("g")
		a.link.Cut()
		candidate := b.candidate("g")
		time.Sleep(b.waits(candidate))
		next := b.takes(candidate)
		a.link.Heal()
		if err := old.Release(t.Context()); err != nil {
			t.Errorf("error %v, though another owner holds the lease", err)
		}
		if b.row("g").Released || !next.Trusted() {
			t.Error("the new holder's lease was released")
		}
		_ = next.Release(t.Context())
		again := a.hold("g")
		_ = old.Release(t.Context())
		if a.row("g").Released || !again.Trusted() {
			t.Error("a later term of its own was released")
		}
	})
}

// Noticing a request to resign costs no statement until there is one.
func TestResignAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		reads := r.link.Count("Read")
		time.Sleep(time.Minute)
		if n := r.link.Count("Read") - reads; n != 0 {
			t.Errorf("%d reads without a request", n)
		}
		if err := r.link.AskResign(t.Context(), "g", h.Token()+1); !errors.Is(err, store.ErrChanged) {
			t.Errorf("another term was asked: %v", err)
		}
		if err := r.link.AskResign(t.Context(), "g", h.Token()); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		<-h.ResignAsked()
		if after := time.Since(asked); after > 5*time.Second {
			t.Errorf("noticed after %v", after)
		}
		if n := r.link.Count("Read") - reads; n != 1 {
			t.Errorf("%d reads to notice it", n)
		}
		time.Sleep(time.Minute)
		if !h.Trusted() {
			t.Error("a request ended the term by itself")
		}
		// A request that is taken back does not end it either.
		r.change("g", func(l *store.Lease) { l.ResignAsked = false })
		time.Sleep(time.Minute)
		if !h.Trusted() {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
		_ = r.link.AskResign(t.Context(), "g", h.Token())
		time.Sleep(time.Minute)
		if !h.Trusted() {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
	})
}

// Work asks the clocks how long its term may be trusted, also where it only has a context.
func TestTrustOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newRig(t, memdb.New()).hold("g")
		time.Sleep(7 * time.Second) // renewed at 5 s
		if trust := keeper.TrustOf(keeper.WithHeld(t.Context(), h)); trust.Left != h.TrustLeft() || trust.Left != 10850*time.Millisecond {
			t.Errorf("trusted for %v", trust.Left)
		}
		if trust := keeper.TrustOf(t.Context()); trust != (keeper.Trust{}) {
			t.Errorf("outside of a term: %+v", trust)
		}
	})
}

func TestHeldSaysWhatItHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		row := r.row("g")
		if h.Group() != "g" || h.Token() != row.Token || h.Owner() != row.Owner || row.Owner != r.Owner() {
			t.Errorf("%q %d %q, row %+v", h.Group(), h.Token(), h.Owner(), row)
		}
		synctest.Wait()
	})
}
