package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

func TestHandOverAfterACleanStop(t *testing.T) {
	for name, c := range map[string]struct {
		store func() store.Leases
		most  time.Duration
	}{
		"signal":    {func() store.Leases { return memdb.New() }, soon},
		"no signal": {func() store.Leases { return noSignal{memdb.New()} }, ttl + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				first, second, a := pair(t, c.store())
				stopped := time.Now()
				first.stop()
				b := <-second.terms
				within(t, "the hand-over", stopped, c.most)
				if b.Token() <= a.Token() {
					t.Errorf("token %d after %d", b.Token(), a.Token())
				}
				if err := <-first.done; err != nil {
					t.Errorf("Run: %v", err)
				}
				causedBy(t, <-first.ends, election.ErrStopped)
			})
		})
	}
}

// Each side of a hand-over is one statement. A waiter that is woken a moment before
// the release is to be seen looks, and soon again.
func TestHandOverInOneStatementEach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.wholeFor = func() time.Duration { return 0 }
		seen := map[bool]bool{} // by whether the signal came early
		for i := range 20 {
			first := start(t, w)
			a := <-first.terms
			second := start(t, w)
			time.Sleep(time.Minute + time.Duration(i)*time.Microsecond) // so that tokens differ modulo 4
			early := a.Token()%4 == 0
			seen[early] = true
			reads, releases, stopped := second.Count("Read"), first.Count("Release"), time.Now()
			first.stop()
			<-second.terms
			within(t, "the hand-over", stopped, soon)
			if n := second.Count("Take"); n != 1 && !early {
				t.Errorf("%d takes", n)
			}
			if n := second.Count("Read") - reads; n != 0 && !early {
				t.Errorf("%d readings", n)
			}
			<-first.done
			if n := first.Count("Release") - releases; n != 1 {
				t.Errorf("%d releases", n)
			}
			second.stop()
			<-second.done
		}
		if len(seen) != 2 {
			t.Errorf("signals came early: %v", seen)
		}
	})
}

// A replica waits for the signal from its start, while it looks for the first time:
// so that it does not miss a hand-over meanwhile.
func TestInLineFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		r := prepare(t, store)
		r.Hang()
		r.start()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := store.HandoverSignal("g").Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the replica does not have the signal: %v", err)
		}
	})
}

// Again and again, through every replica, also when the signal was lost on the way.
func TestHandOverInALine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		leader := start(t, store)
		<-leader.terms
		for range 20 {
			next := start(t, store)
			time.Sleep(5 * time.Second)
			stopped := time.Now()
			leader.stop()
			<-next.terms
			within(t, "the hand-over", stopped, soon)
			leader = next
		}
	})
}

// A replica is cut off in both directions and never comes back.
func TestCrash(t *testing.T) {
	for name, crash := range map[string]func(*link){
		"refused": (*link).Cut,
		"silent":  (*link).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				for after := time.Duration(0); after < 6*time.Second; after += 700 * time.Millisecond {
					first, second, a := pair(t, memdb.New())
					time.Sleep(after)
					crashed := time.Now()
					crash(first.link)
					b := <-second.terms
					within(t, "the takeover", crashed, ttl+time.Second)
					e := <-first.ends
					causedBy(t, e, election.ErrLost)
					if grace := b.began.Sub(e.at); grace < 2*time.Second {
						t.Errorf("the next term began %v after the context ended, less than the grace", grace)
					}
					if b.Token() <= a.Token() {
						t.Errorf("token %d after %d", b.Token(), a.Token())
					}
					first.stop()
					second.stop()
					<-first.done
					<-second.done
				}
			})
		})
	}
}

// The order: context, leading function, release.
func TestReleasedOnlyAfterTheLeadingFunction(t *testing.T) {
	for name, end := range map[string]func(*replica){
		"stopped":  func(r *replica) { r.stop() },
		"resigned": func(r *replica) { go func() { _ = r.Resign(r.t.Context()) }() },
		"asked":    func(r *replica) { _, _ = election.AskResign(r.t.Context(), r.link, "g") },
	} {
		for _, needs := range []time.Duration{0, time.Second, 14 * time.Second} {
			t.Run(fmt.Sprint(name, needs), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					store := memdb.New()
					first := prepare(t, store)
					first.lead = func(ctx context.Context) error {
						<-ctx.Done()
						time.Sleep(needs)
						if rowOf(t, store).Released {
							t.Error("released while the leading function ran")
						}
						return nil
					}
					first.start()
					<-first.terms
					second := start(t, store)
					time.Sleep(time.Minute)
					end(first)
					e, b := <-first.ends, <-second.terms
					if b.began.Before(e.at) {
						t.Errorf("the next term began %v before the last one's end", e.at.Sub(b.began))
					}
					if gap := b.began.Sub(e.at); gap > soon {
						t.Errorf("the next term began %v after the last one's end", gap)
					}
				})
			})
		}
	}
}

// Stopped in the middle of an acquire: the lease is not left behind.
func TestStopWhileAcquiring(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first := prepare(t, store)
		first.Once("Acquire", faulty.Fault{Reply: time.Second})
		first.start()
		time.Sleep(500 * time.Millisecond)
		second := start(t, store)
		time.Sleep(100 * time.Millisecond)
		first.stop()
		if err := <-first.done; err != nil {
			t.Error(err)
		}
		stopped := time.Now()
		<-second.terms
		within(t, "the hand-over", stopped, ttl/3)
		if len(first.terms) != 0 {
			t.Error("led after its stop")
		}
	})
}

// A release that does not get through leaves the lease to expire.
func TestStopWithoutADatabase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second, _ := pair(t, memdb.New())
		first.Hang()
		stopped := time.Now()
		first.stop()
		if err := <-first.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		within(t, "the stop", stopped, 10*time.Second)
		<-second.terms
		within(t, "the takeover", stopped, ttl+time.Second)
	})
}

func TestStopBeforeAnything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := prepare(t, memdb.New())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("never mind"))
		if err := r.run(ctx); err != nil || len(r.terms) != 0 {
			t.Errorf("Run: %v, %d terms", err, len(r.terms))
		}
	})
}
