package election_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
)

// stubborn is a replica whose leading function ignores its context until let go.
func stubborn(t *testing.T, store *memdb.Store) (r *replica, letGo func()) {
	t.Helper()
	r = prepare(t, store)
	free := make(chan struct{})
	r.lead = func(context.Context) error { <-free; return nil }
	r.start()
	letGo = sync.OnceFunc(func() { close(free) })
	t.Cleanup(letGo)
	<-r.terms
	return r, letGo
}

func TestLeadingFunctionThatIgnoresItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, letGo := stubborn(t, store)
		second := start(t, store)
		time.Sleep(time.Minute)
		if err := first.Check(); err != nil {
			t.Errorf("Check of a healthy leader: %v", err)
		}
		asked := time.Now()
		go func() { _ = first.Resign(t.Context()) }()
		time.Sleep(14 * time.Second)
		if len(second.terms) != 0 {
			t.Error("taken while it is kept")
		}
		if err := first.Check(); err != nil {
			t.Errorf("Check while work drains: %v", err)
		}
		time.Sleep(4 * time.Second)
		if err := first.Check(); err == nil || !strings.Contains(err.Error(), "has not stopped") {
			t.Errorf("Check: %v", err)
		}
		if s := first.State(); s.Role != election.Draining || !errors.Is(s.Cause, election.ErrResigned) {
			t.Errorf("state %+v", s)
		}
		<-second.terms
		if after := time.Since(asked); after < 20*time.Second || after > 2*ttl+time.Second {
			t.Errorf("the other took over after %v, want the TTL after the last heartbeat", after)
		}
		second.stop() // now there is no leader, and first must not lead
		reads := first.Count("Read")
		time.Sleep(time.Hour)
		if len(first.terms) != 0 || first.Count("Read") != reads {
			t.Error("campaigned while its work ran")
		}
		if err := first.Check(); err == nil {
			t.Error("Check says nothing")
		}
		letGo()
		<-first.ends
		<-first.terms
		if err := first.Check(); err != nil {
			t.Errorf("Check after its return: %v", err)
		}
	})
}

// A replica whose work does not stop does not keep the signal from the next leader.
func TestStubbornLeaderPassesTheSignal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, _ := stubborn(t, store)
		second := start(t, store)
		time.Sleep(time.Minute)
		go func() { _ = first.Resign(t.Context()) }()
		<-second.terms
		third := start(t, store)
		time.Sleep(time.Minute + 5*time.Second) // between two looks
		stopped := time.Now()
		second.stop()
		<-third.terms
		within(t, "the hand-over", stopped, soon)
	})
}

func TestStopOfAStubbornLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, letGo := stubborn(t, store)
		second := start(t, store)
		time.Sleep(time.Minute)
		stopped := time.Now()
		first.stop()
		if err := <-first.done; !errors.Is(err, election.ErrStillLeading) {
			t.Errorf("Run: %v", err)
		}
		within(t, "the stop", stopped, ttl+time.Second)
		if rowOf(t, store).Released {
			t.Error("released while its work runs")
		}
		if err := first.Resign(t.Context()); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("Resign after Run: %v", err)
		}
		<-second.terms
		within(t, "the takeover", stopped, 2*ttl+time.Second)

		// Not again before the work has stopped.
		if err := first.run(t.Context()); !errors.Is(err, election.ErrStillLeading) {
			t.Errorf("Run while the work of the last one runs: %v", err)
		}
		letGo()
		<-first.ends
		time.Sleep(time.Second)
		first.start()
		time.Sleep(time.Second)
		second.stop()
		<-first.terms
	})
}

// A lost term whose work stops late is not taken up again meanwhile.
func TestLostTermOfAStubbornLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, letGo := stubborn(t, store)
		first.Cut()
		time.Sleep(14 * time.Second)
		first.Heal()
		time.Sleep(10 * time.Minute)
		if len(first.terms) != 0 {
			t.Error("leads twice")
		}
		letGo()
		<-first.terms
	})
}

func TestLeadingFunctionThatReturns(t *testing.T) {
	for name, result := range map[string]error{"nil": nil, "error": errors.New("no work")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := memdb.New()
				r := prepare(t, store)
				var stay atomic.Int64
				r.lead = func(ctx context.Context) error {
					select {
					case <-ctx.Done():
					case <-time.After(time.Duration(stay.Load())):
					}
					return result
				}
				r.start()
				var pauses []time.Duration
				last := (<-r.terms).began
				for range 30 {
					began := (<-r.terms).began
					pauses = append(pauses, began.Sub(last))
					last = began
				}
				if pauses[0] > 2500*time.Millisecond || pauses[0] < 700*time.Millisecond {
					t.Errorf("first pause %v", pauses[0])
				}
				for i, p := range pauses[10:] {
					if p < ttl/2 || p > ttl*3/2+time.Second {
						t.Errorf("pause %d: %v", i+10, p)
					}
				}
				if err := r.Check(); err != nil {
					t.Errorf("Check: %v", err)
				}
				// A term of some length is a success, and begins anew.
				stay.Store(int64(time.Minute))
				<-r.terms
				e := <-r.ends
				for e.at.Sub(last) < time.Minute {
					e = <-r.ends
				}
				next := <-r.terms
				for next.began.Before(e.at) {
					next = <-r.terms
				}
				if p := next.began.Sub(e.at); p > 2500*time.Millisecond {
					t.Errorf("pause after a long term: %v", p)
				}
			})
		})
	}
}

// ... and others go first.
func TestReturnLetsOthersLead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first := prepare(t, store)
		first.lead = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return errors.New("broken")
		}
		first.start()
		<-first.terms
		second := start(t, store)
		e := <-first.ends
		b := <-second.terms
		if gap := b.began.Sub(e.at); gap > soon || gap < 0 {
			t.Errorf("the other began %v after it", gap)
		}
		time.Sleep(time.Hour)
		if len(first.terms) != 0 || len(second.ends) != 0 {
			t.Error("the other did not stay")
		}
	})
}

// However fast terms follow each other, a replica whose leading function returns at once is not stuck.
func TestReturnIsNotStuck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		done := make(chan struct{})
		defer close(done)
		var all []*replica
		for range 3 {
			r := prepare(t, store)
			r.lead = func(context.Context) error { return errors.New("broken") }
			r.start()
			go func() {
				for {
					select {
					case <-r.terms:
					case <-r.ends:
					case <-done:
						return
					}
				}
			}()
			all = append(all, r)
		}
		for range 3000 {
			time.Sleep(50 * time.Millisecond)
			for _, r := range all {
				if err := r.Health().Stuck; err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
