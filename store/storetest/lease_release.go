package storetest

import (
	"time"

	"github.com/cronlease/cronlease/store"
)

var releaseCases = []leaseCase{
	{"release/marks the row and nothing else", func(e *leaseEnv) {
		s := e.open()
		other := e.take(s, otherOne, alice)
		r := e.take(s, group, alice)
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		r.Lease.Released = true
		e.unchanged(r, "Release")
		e.unchanged(other, "Release of another group of the same owner")
	}},

	{"release/may be repeated", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		for _, which := range []string{"Release", "the same Release again", "the same Release a third time"} {
			e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), which)
		}
		r.Lease.Released = true
		e.unchanged(r, "three Releases")
	}},

	{"release/another owner", func(e *leaseEnv) {
		for _, owner := range []string{bob, aliceUpper, aliceLonger, ""} {
			e.refusesRelease("owner "+owner, owner, 0, nil)
		}
	}},

	{"release/another token", func(e *leaseEnv) {
		e.refusesRelease("an older token", alice, -1, nil)
		e.refusesRelease("a newer token", alice, 1, nil)
		e.refusesRelease("a rewound row", alice, 0, func(l *store.Lease, _ *store.Fence) { l.Token -= 1_000_000 })
	}},

	{"release/a deleted row", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.deleteLease(group)
		e.refused(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		if now := e.read(s, group); now.Lease != nil {
			e.Errorf("Release of a deleted row made %s", showLease(now.Lease))
		}
	}},

	{"release/expired, renewed since, or without its fence row", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 1, "leases renewed")
		e.update(group, func(l *store.Lease, _ *store.Fence) { l.RenewedAt = l.RenewedAt.Add(-48 * time.Hour) })
		released := e.row(s, group).Lease
		released.Released = true
		e.deleteFence(group)
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		e.same(e.read(s, group).Lease, released, "Release without the fence row")
	}},

	{"release/late duplicate", func(e *leaseEnv) {
		s := e.open()
		first := e.take(s, group, alice)
		e.ok(s.Release(e.ctx(), group, alice, first.Lease.Token), "Release")
		for _, owner := range []string{bob, alice} {
			r := e.take(s, group, owner)
			e.refused(s.Release(e.ctx(), group, alice, first.Lease.Token), "the same Release in the next term, of "+owner)
			e.unchanged(r, "the same Release in the next term, of "+owner)
		}
	}},
}

// refusesRelease says that the lease of alice is not released by owner, and a
// token that is off by some.
func (e *leaseEnv) refusesRelease(what, owner string, off int64, change func(l *store.Lease, f *store.Fence)) {
	e.Helper()
	s := e.open()
	token := e.take(s, group, alice).Lease.Token + uint64(off)
	if change != nil {
		e.update(group, change)
	}
	before := e.row(s, group)
	e.refused(s.Release(e.ctx(), group, owner, token), "Release by "+what)
	e.unchanged(before, "Release by "+what)
}

var resignCases = []leaseCase{
	{"resign/marks the row and nothing else", func(e *leaseEnv) {
		s, operator := e.open(), e.open()
		other := e.take(s, otherOne, alice)
		r := e.take(s, group, alice)
		e.ok(operator.AskResign(e.ctx(), group, r.Lease.Token), "AskResign")
		e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 0, "leases renewed by a holder that does not know yet")
		r.Lease.ResignAsked = true
		e.unchanged(r, "AskResign")
		e.unchanged(other, "AskResign of another group")
		e.ok(operator.AskResign(e.ctx(), group, r.Lease.Token), "AskResign, again")
		e.unchanged(r, "AskResign, again")
		e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 1, "leases renewed by a holder that knows")
	}},

	{"resign/another token", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.refused(s.AskResign(e.ctx(), group, r.Lease.Token-1), "AskResign of an older token")
		e.refused(s.AskResign(e.ctx(), group, r.Lease.Token+1), "AskResign of a newer token")
		e.unchanged(r, "AskResign of another term")
		next := e.take(s, group, bob)
		e.refused(s.AskResign(e.ctx(), group, r.Lease.Token), "AskResign in the next term")
		e.unchanged(next, "AskResign of the term before")
	}},

	{"resign/released", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		r = e.row(s, group)
		e.refused(s.AskResign(e.ctx(), group, r.Lease.Token), "AskResign of a released lease")
		e.unchanged(r, "AskResign of a released lease")
		r = e.take(s, group, bob)
		e.ok(s.AskResign(e.ctx(), group, r.Lease.Token), "AskResign")
		e.ok(s.Release(e.ctx(), group, bob, r.Lease.Token), "Release")
		e.refused(s.AskResign(e.ctx(), group, r.Lease.Token), "AskResign of a lease that was released as asked")
	}},

	{"resign/a deleted row", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		e.deleteLease(group)
		for _, token := range []uint64{r.Lease.Token, 0} {
			e.refused(s.AskResign(e.ctx(), group, token), "AskResign")
		}
		if now := e.read(s, group); now.Lease != nil {
			e.Errorf("AskResign of a deleted row made %s", showLease(now.Lease))
		}
	}},
}
