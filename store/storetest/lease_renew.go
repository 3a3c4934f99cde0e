package storetest

import (
	"fmt"
	"time"

	"github.com/cronlease/cronlease/store"
)

var renewCases = []leaseCase{
	{"renew/writes the heartbeat and the instant, and nothing else", func(e *leaseEnv) {
		s := e.open()
		e.take(s, otherOne, alice)
		e.take(s, group, alice)
		e.update(group, func(l *store.Lease, _ *store.Fence) { l.TTL = 1234567 * time.Microsecond })
		r := e.row(s, group)
		other := e.row(s, otherOne)
		e.equal(e.renew(s, alice, 77, leaseRenewal(r)), 1, "leases renewed")
		now := e.row(s, group)
		e.between(now.Lease.RenewedAt, r, now, "RenewedAt")
		r.Lease.Heartbeat, r.Lease.RenewedAt = 77, now.Lease.RenewedAt
		e.unchanged(r, "Renew")
		e.unchanged(other, "Renew of another group of the same owner")
	}},

	{"renew/another owner", func(e *leaseEnv) {
		for _, owner := range []string{bob, aliceUpper, aliceLonger} {
			e.refusesRenew("owner "+owner, owner, nil, nil)
		}
	}},

	{"renew/another token", func(e *leaseEnv) {
		e.refusesRenew("an older token", alice, func(r *store.Renewal) { r.Token-- }, nil)
		e.refusesRenew("a newer token", alice, func(r *store.Renewal) { r.Token++ }, nil)
		e.refusesRenew("a row rewound to an older token", alice, nil, func(l *store.Lease) { l.Token -= 1_000_000 })
	}},

	{"renew/another heartbeat", func(e *leaseEnv) {
		e.refusesRenew("an older heartbeat", alice, func(r *store.Renewal) { r.Heartbeat-- }, nil)
		e.refusesRenew("a newer heartbeat", alice, func(r *store.Renewal) { r.Heartbeat++ }, nil)
		e.refusesRenew("a row rewound to an older heartbeat", alice, nil, func(l *store.Lease) { l.Heartbeat = 0 })
	}},

	{"renew/released", func(e *leaseEnv) {
		e.refusesRenew("a released row", alice, nil, func(l *store.Lease) { l.Released = true })
	}},

	{"renew/asked to resign", func(e *leaseEnv) {
		e.refusesRenew("a row asked to resign, unknown to the holder", alice, nil, func(l *store.Lease) { l.ResignAsked = true })
		s := e.open()
		e.take(s, group, alice)
		e.update(group, func(l *store.Lease, _ *store.Fence) { l.ResignAsked = true })
		r := e.row(s, group)
		e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 1, "leases renewed by a holder that knows that it was asked to resign")
		e.equal(e.row(s, group).Lease.ResignAsked, true, "ResignAsked")
	}},

	{"renew/a deleted row", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.deleteLease(group)
		e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 0, "leases renewed")
		if now := e.read(s, group); now.Lease != nil {
			e.Errorf("Renew of a deleted row made %s", showLease(now.Lease))
		}
	}},

	{"renew/does not need the fence row", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.deleteFence(group)
		e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 1, "leases renewed")
		if now := e.read(s, group); now.Fence != nil {
			e.Errorf("Renew wrote the fence row %s", showLease(now.Fence))
		}
	}},

	{"renew/expired but not taken", func(e *leaseEnv) {
		s := e.open()
		for _, age := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
			e.take(s, group, alice)
			e.update(group, func(l *store.Lease, _ *store.Fence) { l.RenewedAt = l.RenewedAt.Add(-age) })
			r := e.row(s, group)
			e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 1, fmt.Sprintf("leases renewed %v after the last time", age))
			now := e.row(s, group)
			e.between(now.Lease.RenewedAt, r, now, "RenewedAt")
		}
	}},

	{"renew/late duplicate", func(e *leaseEnv) {
		s := e.open()
		first := e.take(s, group, alice)
		e.equal(e.renew(s, alice, 2, leaseRenewal(first)), 1, "leases renewed")
		second := e.row(s, group)
		e.equal(e.renew(s, alice, 2, leaseRenewal(first)), 0, "leases renewed by the same renewal again")
		e.unchanged(second, "the same renewal again")
	}},

	{"renew/applies after its successor", func(e *leaseEnv) {
		s := e.open()
		first := e.take(s, group, alice)
		// Heartbeat 2 was sent, got no answer, and is still under way; the
		// attempt after it wrote 3.
		e.equal(e.renew(s, alice, 3, leaseRenewal(first)), 1, "leases renewed")
		r := e.row(s, group)
		e.equal(e.renew(s, alice, 2, leaseRenewal(first)), 0, "leases renewed by the attempt that was overtaken")
		e.unchanged(r, "the attempt that was overtaken")
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		r = e.row(s, group)
		e.equal(e.renew(s, alice, 4, leaseRenewal(r)), 0, "leases renewed after their release")
		e.unchanged(r, "a renewal after the release")
		e.take(s, group, alice)
		e.update(group, func(l *store.Lease, _ *store.Fence) { l.Heartbeat = first.Lease.Heartbeat })
		r = e.row(s, group)
		e.equal(e.renew(s, alice, 2, leaseRenewal(first)), 0, "leases renewed in a later term of the same owner")
		e.unchanged(r, "a renewal of an earlier term of the same owner")
	}},

	{"renew/none", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.equal(e.renew(s, alice, 2), 0, "leases renewed by a renewal of none")
		e.unchanged(r, "a renewal of none")
	}},

	{"renew/many, some of which do not match", func(e *leaseEnv) {
		s := e.open()
		const many = 60
		var leases []store.Renewal
		held := map[string]store.Reading{}
		matches := map[string]bool{}
		for i := range many {
			name := fmt.Sprint("group", i)
			owner := alice
			if i%6 == 1 {
				owner = bob
			}
			e.take(s, name, owner)
			e.update(name, func(l *store.Lease, _ *store.Fence) {
				l.Heartbeat = uint64(100 + i)
				l.Released = i%6 == 2
			})
			r := e.row(s, name)
			want := leaseRenewal(r)
			switch i % 6 {
			case 3:
				want.Token--
			case 4:
				want.Heartbeat--
			}
			held[name], matches[name] = r, i%6 == 0 || i%6 == 5
			leases = append(leases, want)
		}
		leases = append(leases, store.Renewal{Group: "absent", Token: leases[0].Token, Heartbeat: leases[0].Heartbeat})
		before := e.row(s, "group0")
		e.equal(e.renew(s, alice, 1000, leases...), many/3, "leases renewed")
		after := e.row(s, "group0")
		for name, r := range held {
			if matches[name] {
				now := e.row(s, name)
				e.between(now.Lease.RenewedAt, before, after, "RenewedAt of "+name)
				r.Lease.Heartbeat, r.Lease.RenewedAt = 1000, now.Lease.RenewedAt
			}
			e.unchanged(r, "Renew of many: "+name)
		}
	}},

	{"renew/a locked row holds up no others", func(e *leaseEnv) {
		if e.h.LockLease == nil {
			e.Skip("left out: Harness.LockLease is nil")
		}
		s := e.open()
		a, b, c := e.take(s, "a", alice), e.take(s, "b", alice), e.take(s, "c", alice)
		free := e.h.LockLease(e.TB, "b")
		defer free()
		e.equal(e.renew(s, alice, 2, leaseRenewal(a), leaseRenewal(b), leaseRenewal(c)), 2, "leases renewed beside one whose row is locked")
		e.unchanged(b, "Renew of a lease whose row is locked")
		for _, name := range []string{"a", "c"} {
			e.equal(e.row(s, name).Lease.Heartbeat, uint64(2), "heartbeat of "+name)
		}
		free()
		e.equal(e.renew(s, alice, 3, leaseRenewal(b)), 1, "leases renewed once the row is free")
	}},

	{"renew/many, each by its own token and heartbeat", func(e *leaseEnv) {
		s := e.open()
		a, b := e.take(s, "a", alice), e.take(s, "b", alice)
		ra, rb := leaseRenewal(a), leaseRenewal(b)
		ra.Token, rb.Token = rb.Token, ra.Token
		e.equal(e.renew(s, alice, 2, ra, rb), 0, "leases renewed by each other's tokens")
		e.update("a", func(l *store.Lease, _ *store.Fence) { l.Heartbeat = 10 })
		e.update("b", func(l *store.Lease, _ *store.Fence) { l.Heartbeat = 20 })
		a, b = e.row(s, "a"), e.row(s, "b")
		ra, rb = leaseRenewal(a), leaseRenewal(b)
		ra.Heartbeat, rb.Heartbeat = rb.Heartbeat, ra.Heartbeat
		e.equal(e.renew(s, alice, 30, ra, rb), 0, "leases renewed by each other's heartbeats")
		e.unchanged(a, "Renew by another lease's numbers")
		e.unchanged(b, "Renew by another lease's numbers")
		e.equal(e.renew(s, alice, 30, leaseRenewal(a), leaseRenewal(b)), 2, "leases renewed by their own numbers")
	}},

	{"renew/more than fit a small statement", func(e *leaseEnv) {
		s := e.open()
		const many = 500
		now := e.take(s, group, alice)
		leases := make([]store.Renewal, many)
		for i := range leases {
			l := *now.Lease
			l.Heartbeat = uint64(i + 1)
			leases[i] = store.Renewal{Group: fmt.Sprint("group", i), Token: l.Token, Heartbeat: l.Heartbeat}
			e.set(leases[i].Group, &l, now.Fence)
		}
		e.equal(e.renew(s, alice, 1000, leases...), many, "leases renewed")
	}},
}

// refusesRenew says that the lease of alice is not renewed when owner expects
// it, or its row was changed.
func (e *leaseEnv) refusesRenew(what, owner string, expect func(r *store.Renewal), change func(l *store.Lease)) {
	e.Helper()
	s := e.open()
	want := leaseRenewal(e.take(s, group, alice))
	if expect != nil {
		expect(&want)
	}
	if change != nil {
		e.update(group, func(l *store.Lease, _ *store.Fence) { change(l) })
	}
	before := e.row(s, group)
	e.equal(e.renew(s, owner, 99, want), 0, "leases renewed with "+what)
	e.unchanged(before, "Renew with "+what)
}
