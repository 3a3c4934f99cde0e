package keeper_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

func TestRenewalWithALostReply(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprint("applied=", applied), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, memdb.New())
				h := r.hold("g")
				r.link.Once("Renew", faulty.Fault{Err: faulty.ErrLost, Applied: applied})
				time.Sleep(5*time.Second + time.Nanosecond) // it is sent at 5 s
				if left := h.TrustLeft(); left > 7850*time.Millisecond {
					t.Errorf("trusted for %v by a renewal that was not answered", left)
				}
				time.Sleep(2 * time.Second)
				left := h.TrustLeft()
				if applied && left != 10850*time.Millisecond-time.Nanosecond {
					t.Errorf("trusted for %v, want to count from the statement that ran", left)
				}
				if !applied && left < 11*time.Second {
					t.Errorf("trusted for %v: not tried again", left)
				}
				time.Sleep(time.Minute)
				if !h.Trusted() {
					t.Errorf("lost: %v", context.Cause(h.Context()))
				}
			})
		})
	}
}

func TestGhostRenewalAfterItsSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		r.link.Once("Renew", faulty.Fault{Err: faulty.ErrLost, Late: 4 * time.Second})
		time.Sleep(8 * time.Second)
		before := r.row("g")
		time.Sleep(1500 * time.Millisecond) // the ghost ran at 9 s
		if r.row("g") != before {
			t.Errorf("the ghost changed %+v to %+v", before, r.row("g"))
		}
		time.Sleep(time.Minute)
		if !h.Trusted() {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
	})
}

func TestGhostRenewalBeforeItsSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		r.link.Always(func(op string) faulty.Fault {
			if op == "Renew" && r.link.Counts()[op] <= 3 {
				return faulty.Fault{Err: faulty.ErrLost, Late: time.Duration(r.link.Counts()[op]) * 100 * time.Millisecond}
			}
			return faulty.Fault{}
		})
		time.Sleep(9 * time.Second)
		if left := h.TrustLeft(); left != 8850*time.Millisecond {
			t.Errorf("trusted for %v, want to count from 5 s", left)
		}
		time.Sleep(time.Minute)
		if !h.Trusted() {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
	})
}

func TestTrustCountsFromSending(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		r.link.Always(func(string) faulty.Fault { return faulty.Fault{Reply: 2900 * time.Millisecond} })
		h := r.hold("g")
		if left := h.TrustLeft(); left != 12850*time.Millisecond-2900*time.Millisecond {
			t.Errorf("trusted for %v after an acquire of 2.9 s", left)
		}
		time.Sleep(5 * time.Second) // the renewal was sent 2.9 s ago
		synctest.Wait()
		if left := h.TrustLeft(); left != 12850*time.Millisecond-2900*time.Millisecond {
			t.Errorf("trusted for %v after a renewal of 2.9 s", left)
		}
	})
}

func TestOutageShorterThanTrust(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		h := r.hold("g")
		for range 20 {
			time.Sleep(3 * time.Second)
			r.link.Cut()
			time.Sleep(8 * time.Second)
			r.link.Heal()
			time.Sleep(10 * time.Second)
			if !h.Trusted() {
				t.Fatalf("lost: %v", context.Cause(h.Context()))
			}
		}
		if n := h.Pending(); n != 0 {
			t.Errorf("%d renewals are still remembered", n)
		}
	})
}

func TestAttemptEndsWithTrust(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New(), keeper.Config{Timing: lease.Timing{RenewEvery: 2 * time.Second, AttemptTimeout: 10 * time.Second}})
		h := r.hold("g")
		var ended []time.Duration
		began := time.Now()
		r.link.Always(func(string) faulty.Fault { return faulty.Fault{Silence: true} })
		for range 3 {
			n := r.link.Count("Renew")
			for r.link.Count("Renew") == n && h.Trusted() {
				time.Sleep(10 * time.Millisecond)
			}
			ended = append(ended, time.Since(began))
		}
		// Sent at 2 s, given up at 12 s; sent again, given up at 12.85 s.
		if r.link.Count("Renew") != 2 || ended[2] > 12900*time.Millisecond {
			t.Errorf("%d renewals, %v", r.link.Count("Renew"), ended)
		}
		r.link.Heal()
		h.End(nil)
		time.Sleep(time.Second)
		if n := r.link.Count("Renew"); n < 3 {
			t.Error("the keeper still waits for an answer, after the deadline")
		}
	})
}

func TestRowThatIsNotMineAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence)
		why    string
	}{
		"deleted": {func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f }, "deleted"},
		"rewound": {func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { l.Heartbeat--; return l, f }, "restored"},
		"taken": {func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			l.Owner, l.Token = "b", l.Token+1
			return l, f
		}, `"b"`},
		"old token": {func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { l.Token--; return l, f }, "token"},
		"old owner": {func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { l.Owner = "b"; return l, f }, `"b"`},
		"released":  {func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { l.Released = true; return l, f }, "released"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, memdb.New())
				h := r.hold("g")
				time.Sleep(6 * time.Second)
				r.store.Update("g", c.change)
				changed := time.Now()
				<-h.Context().Done()
				if after := time.Since(changed); after > 4*time.Second {
					t.Errorf("noticed after %v, not by the next heartbeat", after)
				}
				lost(t, h, c.why)
				renewals := r.link.Count("Renew")
				time.Sleep(time.Minute)
				if r.link.Count("Renew") != renewals {
					t.Error("renewed what is not held")
				}
			})
		})
	}
}

// What ends work at the trust deadline by itself hears of a heartbeat when it is
// answered, however late that is, and the term never outlives the deadline that it has
// heard of last.
func TestTrust(t *testing.T) {
	const trust = 12850 * time.Millisecond
	for _, x := range []struct {
		answered time.Duration // after the acquire
		kept     bool
	}{{trust - time.Millisecond, true}, {trust, false}, {trust + time.Millisecond, false}} {
		t.Run(x.answered.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var machine clocks
				r := stoppedRig(t, memdb.New())
				r.SetClocks(machine.read)
				go func() { _ = r.Run(t.Context()) }()
				h := r.hold("g")
				before := h.Trust()
				if before.Left != trust || before.Spare != 0 {
					t.Fatalf("a new term is trusted for %v, spare %v", before.Left, before.Spare)
				}
				r.link.Once("Renew", faulty.Fault{Reply: time.Millisecond})
				time.Sleep(5*time.Second + 500*time.Microsecond)  // it is sent at 5 s
				machine.sleep(x.answered - 5001*time.Millisecond) // so that no timer comes before the answer
				time.Sleep(500 * time.Microsecond)
				synctest.Wait()
				told := false
				select {
				case <-before.Renewed:
					told = true
				default:
				}
				after := h.Trust()
				if told && after.Left > 0 != x.kept || x.kept && after.Spare != trust-x.answered {
					t.Errorf("told %v, left %v, spare %v", told, after.Left, after.Spare)
				}
				if x.kept != (h.Context().Err() == nil) || x.kept && !told {
					t.Errorf("told %v, the term's context: %v", told, context.Cause(h.Context()))
				}
			})
		})
	}
}
