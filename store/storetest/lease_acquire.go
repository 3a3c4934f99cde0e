package storetest

import (
	"time"

	"github.com/cronlease/cronlease/store"
)

// ttls are what a row must give back to the microsecond.
var ttls = []time.Duration{time.Second, 15 * time.Second, 24 * time.Hour, 1234567 * time.Microsecond, 59*time.Minute + 999999*time.Microsecond}

var prepareCases = []leaseCase{
	{"prepare/a new group is released", func(e *leaseEnv) {
		s := e.open()
		before := e.read(s, group)
		e.prepare(s, group)
		r := e.row(s, group)
		e.equal(r.Lease.Released, true, "Released")
		e.equal(r.Lease.ResignAsked, false, "ResignAsked")
		e.equal(r.Lease.Owner, "", "owner of the lease row")
		e.equal(r.Fence.Owner, "", "owner of the fence row")
		e.equal(r.Lease.TTL, ttl, "TTL")
		e.between(r.Lease.RenewedAt, before, r, "RenewedAt")
		e.equal(r.Fence.Token, r.Lease.Token, "token of the fence row, beside that of the lease row")
		if other := e.read(s, otherOne); other.Lease != nil || other.Fence != nil {
			e.Errorf("Prepare made rows of another group: %s %s", showLease(other.Lease), showLease(other.Fence))
		}
	}},

	{"prepare/TTL is exact", func(e *leaseEnv) {
		s := e.open()
		for _, d := range ttls {
			name := "ttl" + d.String()
			e.ok(s.Prepare(e.ctx(), name, d), "Prepare")
			e.equal(e.row(s, name).Lease.TTL, d, "TTL of a new group")
			e.deleteLease(name)
			e.ok(s.Prepare(e.ctx(), name, d+time.Microsecond), "Prepare")
			e.equal(e.row(s, name).Lease.TTL, d+time.Microsecond, "TTL of a deleted lease row")
		}
	}},

	{"prepare/existing rows are left alone", func(e *leaseEnv) {
		s, late := e.open(), e.open()
		e.prepare(s, group)
		r := e.row(s, group)
		e.ok(late.Prepare(e.ctx(), group, time.Hour), "Prepare of a new group, again")
		e.unchanged(r, "Prepare of a new group, again")

		r = e.take(s, group, alice)
		e.ok(late.Prepare(e.ctx(), group, time.Hour), "Prepare of a held lease")
		e.unchanged(r, "Prepare of a held lease")

		e.ok(s.AskResign(e.ctx(), group, r.Lease.Token), "AskResign")
		r = e.row(s, group)
		e.ok(late.Prepare(e.ctx(), group, time.Hour), "Prepare of a lease asked to resign")
		e.unchanged(r, "Prepare of a lease asked to resign")

		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		r = e.row(s, group)
		e.ok(late.Prepare(e.ctx(), group, time.Hour), "Prepare of a released lease")
		e.unchanged(r, "Prepare of a released lease")

		e.update(group, func(l *store.Lease, _ *store.Fence) { l.Released, l.RenewedAt = false, l.RenewedAt.Add(-48*time.Hour) })
		r = e.row(s, group)
		e.ok(late.Prepare(e.ctx(), group, time.Hour), "Prepare of an expired lease")
		e.unchanged(r, "Prepare of an expired lease")
	}},

	{"prepare/a deleted lease row comes back without an owner, not released", func(e *leaseEnv) {
		s := e.open()
		e.take(s, group, alice)
		e.update(group, func(l *store.Lease, f *store.Fence) { // of a term that began an hour ago
			l.Token -= uint64(time.Hour.Microseconds())
			f.Token = l.Token
		})
		held := e.row(s, group)
		e.deleteLease(group)
		before := e.read(s, group)
		e.ok(s.Prepare(e.ctx(), group, time.Minute), "Prepare")
		r := e.row(s, group)
		e.equal(r.Lease.Released, false, "Released")
		e.equal(r.Lease.ResignAsked, false, "ResignAsked")
		e.equal(r.Lease.Owner, "", "owner of the lease row")
		e.equal(r.Lease.TTL, time.Minute, "TTL")
		e.equal(showLease(r.Fence), showLease(held.Fence), "fence row")
		e.between(r.Lease.RenewedAt, before, r, "RenewedAt")
		e.between(time.UnixMicro(int64(r.Lease.Token)), before, r, "token, as an instant")
		e.refused(s.Release(e.ctx(), group, alice, held.Lease.Token), "Release of the term before")
		e.equal(e.renew(s, alice, 2, leaseRenewal(held)), 0, "leases of the term before renewed")
		e.ok(s.Prepare(e.ctx(), group, ttl), "Prepare, again")
		e.unchanged(r, "after late statements")
	}},

	{"prepare/a deleted lease row's token is above the fence's", func(e *leaseEnv) {
		s := e.open()
		held := e.take(s, group, alice)
		ahead := held.Lease.Token + uint64(time.Hour.Microseconds())
		e.set(group, nil, &store.Fence{Owner: alice, Token: ahead})
		e.prepare(s, group)
		e.equal(e.row(s, group).Lease.Token, ahead+1, "token beside a fence of "+showLease(e.row(s, group).Fence))
	}},

	{"prepare/a deleted fence row is copied from the lease", func(e *leaseEnv) {
		s := e.open()
		held := e.take(s, group, alice)
		e.take(s, otherOne, alice)
		e.deleteFence(otherOne)
		e.deleteFence(group)
		e.ok(s.Prepare(e.ctx(), group, time.Minute), "Prepare")
		e.unchanged(held, "Prepare with the fence row deleted")
		if other := e.read(s, otherOne); other.Fence != nil {
			e.Errorf("Prepare made the fence row of another group: %s", showLease(other.Fence))
		}
	}},

	{"prepare/a late one never makes a released row beside a fence", func(e *leaseEnv) {
		s := e.open()
		for range 20 {
			e.take(s, group, alice)
			e.deleteLease(group)
			errs := make(chan error, 4)
			for range 4 {
				late := e.open()
				go func() { errs <- late.Prepare(e.ctx(), group, ttl) }()
			}
			for range 4 {
				e.ok(<-errs, "Prepare")
			}
			if r := e.row(s, group); r.Lease.Released || r.Lease.Token <= r.Fence.Token {
				e.Fatalf("lease %s beside fence %s", showLease(r.Lease), showLease(r.Fence))
			}
		}
	}},
}

var acquireCases = []leaseCase{
	{"acquire/beside a group with equal rows", func(e *leaseEnv) {
		s := e.open()
		e.take(s, otherOne, alice)
		e.prepare(s, group)
		equal := func() store.Reading { // to those of the other group
			of := e.row(s, otherOne)
			e.set(group, of.Lease, of.Fence)
			return e.row(s, group)
		}
		r, other := equal(), e.row(s, otherOne)
		e.ok(s.AskResign(e.ctx(), group, r.Lease.Token), "AskResign")
		e.unchanged(other, "AskResign of a group with equal rows")
		r = equal()
		e.equal(e.renew(s, alice, 2, leaseRenewal(r)), 1, "leases renewed")
		e.unchanged(other, "Renew of a group with equal rows")
		r = equal()
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		e.unchanged(other, "Release of a group with equal rows")
		equal()
		a := e.request(s, group, bob)
		e.update(group, func(_ *store.Lease, f *store.Fence) { f.Token++ })
		_, err := s.Acquire(e.ctx(), a)
		e.refused(err, "Acquire where another group has the fence that was read")
		equal()
		_, err = s.Acquire(e.ctx(), a)
		e.ok(err, "Acquire")
		e.unchanged(other, "Acquire of a group with equal rows")
	}},

	{"acquire/writes both rows", func(e *leaseEnv) {
		s := e.open()
		e.prepare(s, group)
		e.prepare(s, otherOne)
		other := e.row(s, otherOne)
		for _, d := range ttls {
			a := e.request(s, group, alice)
			a.Heartbeat, a.TTL = 42, d
			before := e.row(s, group)
			token, err := s.Acquire(e.ctx(), a)
			e.ok(err, "Acquire")
			r := e.row(s, group)
			e.between(r.Lease.RenewedAt, before, r, "RenewedAt")
			e.same(r.Lease, &store.Lease{Owner: alice, Token: token, Heartbeat: 42, RenewedAt: r.Lease.RenewedAt, TTL: d}, "Acquire")
			e.equal(showLease(r.Fence), showLease(&store.Fence{Owner: alice, Token: token}), "fence row")
		}
		e.unchanged(other, "Acquire of another group")
	}},

	{"acquire/a new term is not released and not asked to resign", func(e *leaseEnv) {
		s := e.open()
		e.take(s, group, alice)
		e.update(group, func(l *store.Lease, _ *store.Fence) { l.Released, l.ResignAsked = true, true })
		r := e.take(s, group, bob)
		e.equal(r.Lease.Released, false, "Released")
		e.equal(r.Lease.ResignAsked, false, "ResignAsked")
		e.equal(r.Lease.Owner, bob, "owner")
	}},

	{"acquire/the token is from the clock", func(e *leaseEnv) {
		s := e.open()
		e.prepare(s, group)
		for range 5 {
			a := e.request(s, group, alice)
			token, err := s.Acquire(e.ctx(), a)
			e.ok(err, "Acquire")
			e.between(time.UnixMicro(int64(token)), a.Read, e.row(s, group), "token, as an instant")
		}
	}},

	{"acquire/the token is above what was compared and seen", func(e *leaseEnv) {
		s := e.open()
		const hour = uint64(3_600_000_000)
		for what, ahead := range map[string]struct{ lease, fence, floor uint64 }{
			"lease": {lease: 3 * hour, fence: 2 * hour, floor: hour},
			"fence": {lease: hour, fence: 3 * hour, floor: 2 * hour},
			"floor": {lease: hour, fence: 2 * hour, floor: 3 * hour},
		} {
			now := e.take(s, group, alice).Lease.Token
			e.update(group, func(l *store.Lease, f *store.Fence) { l.Token, f.Token = now+ahead.lease, now+ahead.fence })
			a := e.request(s, group, bob)
			a.Floor = now + ahead.floor
			token, err := s.Acquire(e.ctx(), a)
			e.ok(err, "Acquire")
			e.equal(token, now+3*hour+1, "token when the largest before is that of the "+what)
			r := e.row(s, group)
			e.equal(r.Lease.Token, token, "token in the lease row")
			e.equal(r.Fence.Token, token, "token in the fence row")
			e.set(group, nil, nil)
		}
	}},

	{"acquire/expiry is not compared", func(e *leaseEnv) {
		s := e.open()
		// The age is judged by the follower's clock. Live by the database's:
		e.take(s, group, alice)
		_, err := s.Acquire(e.ctx(), e.request(s, group, bob))
		e.ok(err, "Acquire of a row renewed just now")
		for _, age := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
			e.update(group, func(l *store.Lease, _ *store.Fence) { l.RenewedAt = l.RenewedAt.Add(-age) })
			_, err := s.Acquire(e.ctx(), e.request(s, group, alice))
			e.ok(err, "Acquire of a row renewed "+age.String()+" ago")
		}
	}},

	{"acquire/another lease token", func(e *leaseEnv) {
		e.refusesAcquire("an older token", func(a *store.Acquire) { a.Read.Lease.Token-- })
		e.refusesAcquire("a newer token", func(a *store.Acquire) { a.Read.Lease.Token++ })
		e.refusesChanged("a rewound token", func(l *store.Lease, _ *store.Fence) { l.Token -= 1_000_000 })
		e.refusesChanged("a token moved on", func(l *store.Lease, _ *store.Fence) { l.Token++ })
	}},

	{"acquire/another heartbeat", func(e *leaseEnv) {
		e.refusesAcquire("an older heartbeat", func(a *store.Acquire) { a.Read.Lease.Heartbeat-- })
		e.refusesAcquire("a newer heartbeat", func(a *store.Acquire) { a.Read.Lease.Heartbeat++ })
		e.refusesChanged("a rewound heartbeat", func(l *store.Lease, _ *store.Fence) { l.Heartbeat = 0 })
		s := e.open()
		held := e.take(s, "renewed", alice)
		a := e.request(s, "renewed", bob)
		e.equal(e.renew(s, alice, 2, leaseRenewal(held)), 1, "leases renewed")
		r := e.row(s, "renewed")
		_, err := s.Acquire(e.ctx(), a)
		e.refused(err, "Acquire after the holder's heartbeat")
		e.unchanged(r, "Acquire after the holder's heartbeat")
	}},

	{"acquire/another fence token", func(e *leaseEnv) {
		e.refusesAcquire("an older fence token", func(a *store.Acquire) { a.Read.Fence.Token-- })
		e.refusesAcquire("a newer fence token", func(a *store.Acquire) { a.Read.Fence.Token++ })
		e.refusesChanged("a rewound fence token", func(_ *store.Lease, f *store.Fence) { f.Token -= 1_000_000 })
	}},

	{"acquire/another session", func(e *leaseEnv) {
		e.refusesAcquire("another session", func(a *store.Acquire) { a.Read.Session = ^a.Read.Session >> 1 })
		s, other := e.open(), e.open()
		e.prepare(s, "elsewhere")
		a := e.request(s, "elsewhere", alice)
		if e.row(other, "elsewhere").Session == a.Read.Session {
			return // one connection for all, as of a database in memory
		}
		_, err := other.Acquire(e.ctx(), a)
		e.refused(err, "Acquire on another connection than the reading's")
		e.unchanged(a.Read, "Acquire on another connection than the reading's")
	}},

	{"acquire/a row is absent", func(e *leaseEnv) {
		s := e.open()
		for what, remove := range map[string]func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence){
			"lease": func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f },
			"fence": func(l *store.Lease, _ *store.Fence) (*store.Lease, *store.Fence) { return l, nil },
			"both":  func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil },
		} {
			e.prepare(s, group)
			first := e.request(s, group, alice)
			e.take(s, group, alice)
			a := e.request(s, group, bob)
			e.h.Update(e.TB, group, remove)
			r := e.read(s, group)
			for _, a := range []store.Acquire{first, a} {
				_, err := s.Acquire(e.ctx(), a)
				e.refused(err, "Acquire with rows deleted since the reading: "+what)
				e.unchanged(r, "Acquire with rows deleted since the reading: "+what)
			}
			a.Read = r
			_, err := s.Acquire(e.ctx(), a)
			e.refused(err, "Acquire by a reading without rows: "+what)
			e.unchanged(r, "Acquire by a reading without rows: "+what)
			e.prepare(s, group)
			r = e.row(s, group)
			_, err = s.Acquire(e.ctx(), a)
			e.refused(err, "Acquire by a reading from before the rows were made: "+what)
			e.unchanged(r, "Acquire by a reading from before the rows were made: "+what)
			e.set(group, nil, nil)
		}
	}},

	{"acquire/late duplicate", func(e *leaseEnv) {
		s := e.open()
		e.prepare(s, group)
		a := e.request(s, group, alice)
		_, err := s.Acquire(e.ctx(), a)
		e.ok(err, "Acquire")
		r := e.row(s, group)
		_, err = s.Acquire(e.ctx(), a)
		e.refused(err, "the same Acquire again")
		e.unchanged(r, "the same Acquire again")
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		r = e.row(s, group)
		_, err = s.Acquire(e.ctx(), a)
		e.refused(err, "the same Acquire after the release")
		e.unchanged(r, "the same Acquire after the release")
		r = e.take(s, group, bob)
		_, err = s.Acquire(e.ctx(), a)
		e.refused(err, "the same Acquire in the next term")
		e.unchanged(r, "the same Acquire in the next term")
	}},
}

// refusesAcquire says that Acquire is refused when it expects something else
// than the rows are.
func (e *leaseEnv) refusesAcquire(what string, change func(a *store.Acquire)) {
	e.Helper()
	s := e.open()
	e.take(s, group, alice)
	a := e.request(s, group, bob)
	before := e.row(s, group)
	change(&a)
	_, err := s.Acquire(e.ctx(), a)
	e.refused(err, "Acquire that expects "+what)
	e.unchanged(before, "Acquire that expects "+what)
}

// refusesChanged says that Acquire is refused when rows were changed since the
// reading.
func (e *leaseEnv) refusesChanged(what string, change func(l *store.Lease, f *store.Fence)) {
	e.Helper()
	s := e.open()
	e.take(s, group, alice)
	a := e.request(s, group, bob)
	e.update(group, change)
	before := e.row(s, group)
	_, err := s.Acquire(e.ctx(), a)
	e.refused(err, "Acquire, since its reading: "+what)
	e.unchanged(before, "Acquire, since its reading: "+what)
}
