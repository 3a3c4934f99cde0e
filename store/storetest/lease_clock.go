package storetest

import (
	"fmt"
	"time"

	"github.com/cronlease/cronlease/store"
)

// step steps the database's clock. Where that cannot be done, it makes the rows
// what they are beside a stepped clock: only the differences count.
func (e *leaseEnv) step(by time.Duration, groups ...string) {
	e.Helper()
	if e.h.StepClock != nil {
		e.h.StepClock(e.TB, by)
		return
	}
	e.Logf("Harness.StepClock is nil: rows are rewritten as if the clock had been stepped by %v", by)
	for _, name := range groups {
		e.update(name, func(l *store.Lease, f *store.Fence) {
			l.RenewedAt = l.RenewedAt.Add(-by)
			l.Token -= uint64(by.Microseconds())
			f.Token -= uint64(by.Microseconds())
		})
	}
}

var steps = []time.Duration{time.Hour, -time.Hour}

var clockCases = []leaseCase{
	{"clock/readings follow its steps", func(e *leaseEnv) {
		if e.h.StepClock == nil {
			e.Skip("left out: Harness.StepClock is nil")
		}
		s := e.open()
		for _, by := range steps {
			before, begin := e.read(s, group), time.Now()
			e.step(by)
			if off := e.read(s, group).Now.Sub(before.Now) - by; off < 0 || off > time.Since(begin)+time.Second {
				e.Errorf("Now is %v off after a step of %v", off, by)
			}
		}
	}},

	{"clock/steps neither depose a holder nor block a takeover", func(e *leaseEnv) {
		for _, by := range steps {
			s := e.open()
			e.take(s, group, alice)
			e.step(by, group)
			r := e.row(s, group)
			e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 1, fmt.Sprintf("leases renewed after a step of %v", by))
			now := e.row(s, group)
			e.between(now.Lease.RenewedAt, r, now, fmt.Sprintf("RenewedAt after a step of %v", by))
			next := e.take(s, group, bob)
			e.between(next.Lease.RenewedAt, r, e.row(s, group), fmt.Sprintf("RenewedAt of a term begun after a step of %v", by))
			e.ok(s.Release(e.ctx(), group, bob, next.Lease.Token), "Release")
		}
	}},

	{"clock/tokens grow over its steps", func(e *leaseEnv) {
		s := e.open()
		for _, by := range append(steps, steps...) {
			e.take(s, group, alice)
			e.step(by, group)
			before := e.row(s, group)
			r := e.take(s, group, bob)
			if last := before.Lease.Token; r.Lease.Token <= last || r.Fence.Token != r.Lease.Token {
				e.Errorf("token %d after %d, beside fence %s, after a step of %v", r.Lease.Token, last, showLease(r.Fence), by)
			}
			if at := time.UnixMicro(int64(r.Lease.Token)); at.Before(before.Now) {
				e.Errorf("token %d is of %v, before the clock's %v, after a step of %v", r.Lease.Token, at, before.Now, by)
			}
			e.step(by, group)
			e.deleteLease(group)
			e.prepare(s, group)
			if r := e.row(s, group); r.Lease.Token <= r.Fence.Token {
				e.Errorf("a deleted row came back with token %d beside a fence of %d, after a step of %v", r.Lease.Token, r.Fence.Token, by)
			}
		}
	}},

	{"clock/a rewound row leaves its terms behind", func(e *leaseEnv) {
		s := e.open()
		first := e.take(s, group, alice)
		second := e.take(s, group, alice)
		// A backup comes back, or a failover forgets the second term.
		e.set(group, first.Lease, first.Fence)
		e.equal(e.renew(s, alice, 2, leaseRenewal(second)), 0, "leases renewed in a term that was forgotten")
		e.refused(s.Release(e.ctx(), group, alice, second.Lease.Token), "Release of a term that was forgotten")
		e.refused(s.AskResign(e.ctx(), group, second.Lease.Token), "AskResign of a term that was forgotten")
		e.unchanged(first, "statements of a term that was forgotten")
		a := e.request(s, group, bob)
		a.Floor = second.Lease.Token + uint64(time.Hour.Microseconds())
		token, err := s.Acquire(e.ctx(), a)
		e.ok(err, "Acquire")
		e.equal(token, a.Floor+1, "token of a replica that has seen a later one")
	}},

	{"clock/replicas with different TTLs", func(e *leaseEnv) {
		s, other := e.open(), e.open()
		e.take(s, group, alice)
		e.ok(other.Prepare(e.ctx(), group, time.Hour), "Prepare")
		e.equal(e.row(s, group).Lease.TTL, ttl, "TTL of the holder, after a follower's Prepare with another")
		a := e.request(other, group, bob)
		a.TTL = 90 * time.Minute
		_, err := other.Acquire(e.ctx(), a)
		e.ok(err, "Acquire")
		r := e.row(other, group)
		e.equal(e.renew(other, bob, 2, leaseRenewal(r)), 1, "leases renewed")
		e.equal(e.row(s, group).Lease.TTL, 90*time.Minute, "TTL of the next holder")
	}},
}
