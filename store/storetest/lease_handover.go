package storetest

import (
	"errors"
	"time"

	"github.com/cronlease/cronlease/store"
)

var handoverCases = []leaseCase{
	{"handover/one statement on each side", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, waiter := e.direct(s), e.direct(next)
		defer e.close(holder, waiter)
		held := e.takeWithSignal(s, holder)
		for range 3 {
			a := e.request(next, group, bob)
			a.Heartbeat, a.TTL = 42, time.Hour
			e.renew(s, alice, held.Lease.Heartbeat+1, leaseRenewal(held)) // not seen by the waiter
			found := e.waitFor(waiter)
			e.stillWaits(found)
			e.ok(holder.Release(e.ctx(), alice, held.Lease.Token), "Release with the signal")
			e.given(found, "Wait until the lease is released")
			before := e.row(next, group)
			e.equal(before.Lease.Released, true, "Released")
			token, err := waiter.Take(e.ctx(), a)
			e.ok(err, "Take")
			r := e.row(next, group)
			e.same(r.Lease, &store.Lease{Owner: bob, Token: token, Heartbeat: 42, RenewedAt: r.Lease.RenewedAt, TTL: time.Hour}, "Take")
			e.between(r.Lease.RenewedAt, before, r, "RenewedAt")
			e.equal(r.Fence.Token, token, "token of the fence row")
			e.equal(r.Fence.Owner, bob, "owner of the fence row")
			if token <= held.Lease.Token {
				e.Errorf("Take gave token %d after %d", token, held.Lease.Token)
			}
			e.silent(holder, "Wait by the holder that passed the signal")
			e.ok(waiter.Release(e.ctx(), bob, token), "Release with the signal")
			held = e.takeWithSignal(s, holder)
		}
	}},

	{"handover/Release of what another holds", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, waiter := e.direct(s), e.direct(next)
		defer e.close(holder, waiter)
		r := e.takeWithSignal(s, holder)
		e.refused(holder.Release(e.ctx(), bob, r.Lease.Token), "Release of another owner's lease")
		e.refused(holder.Release(e.ctx(), alice, r.Lease.Token-1), "Release of another term")
		e.refused(holder.Release(e.ctx(), "", r.Lease.Token), "Release without an owner")
		e.unchanged(r, "Release of what another holds")
		e.silent(waiter, "Wait after a Release that was refused")
	}},

	{"handover/Release of what is released already", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, waiter := e.direct(s), e.direct(next)
		defer e.close(holder, waiter)
		r := e.takeWithSignal(s, holder)
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		e.ok(holder.Release(e.ctx(), alice, r.Lease.Token), "Release with the signal, again")
		e.given(e.waitFor(waiter), "Wait after a lease was released twice")
	}},

	{"handover/Release needs the signal", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, other := e.direct(s), e.direct(next)
		defer e.close(holder, other)
		r := e.takeWithSignal(s, holder)
		if err := other.Release(e.ctx(), alice, r.Lease.Token); err == nil {
			e.Errorf("Release by one that does not have the signal has no error")
		}
		e.silent(other, "Wait while another has the signal")
	}},

	{"handover/Take compares all that it needs", func(e *leaseEnv) {
		s, next := e.signals()
		d := e.direct(next)
		defer e.close(d)
		held := e.take(s, group, alice)
		a := e.request(next, group, bob)
		e.refuses(d, a, "a lease that is not released")
		e.renew(s, alice, held.Lease.Heartbeat+5, leaseRenewal(held))
		e.ok(s.Release(e.ctx(), group, alice, held.Lease.Token), "Release")
		for what, change := range map[string]func(a *store.Acquire, l *store.Lease, f *store.Fence){
			"a newer term than the one that was read": func(_ *store.Acquire, l *store.Lease, _ *store.Fence) { l.Token-- },
			"an older term":  func(_ *store.Acquire, l *store.Lease, _ *store.Fence) { l.Token++ },
			"a newer fence":  func(_ *store.Acquire, _ *store.Lease, f *store.Fence) { f.Token-- },
			"an older fence": func(_ *store.Acquire, _ *store.Lease, f *store.Fence) { f.Token++ },
			"a heartbeat behind the one that was read": func(_ *store.Acquire, l *store.Lease, _ *store.Fence) { l.Heartbeat += 6 },
			"a reading on another connection":          func(a *store.Acquire, _ *store.Lease, _ *store.Fence) { a.Read.Session++ },
		} {
			l, f, changed := *a.Read.Lease, *a.Read.Fence, a
			changed.Read.Lease, changed.Read.Fence = &l, &f
			change(&changed, &l, &f)
			e.refuses(d, changed, what)
		}
		absent := a
		absent.Read.Lease = nil
		e.refuses(d, absent, "a reading without a lease")

		floor := e.row(next, group).Lease.Token + uint64(time.Hour.Microseconds())
		a.Floor = floor
		token, err := d.Take(e.ctx(), a)
		e.ok(err, "Take of a lease that was renewed and released since the reading")
		e.equal(token, floor+1, "token above a floor that is ahead of the clock")
		r := e.row(next, group)
		e.equal(r.Lease.Token, token, "token of the lease row")
		e.equal(r.Fence.Token, token, "token of the fence row")
		e.refuses(d, a, "a lease that was taken")
	}},
}

// direct is a signal of the group that hands leases over.
func (e *leaseEnv) direct(s signaller) store.DirectHandover {
	e.Helper()
	d, ok := s.HandoverSignal(group).(store.DirectHandover)
	if !ok {
		e.Skip("left out: the store's signals have no Release and Take")
	}
	e.prepare(s, group)
	a := e.request(s, group, bob)
	l := *a.Read.Lease
	l.Token++
	a.Read.Lease = &l
	if _, err := d.Take(e.ctx(), a); errors.Is(err, errors.ErrUnsupported) {
		e.Skip("left out: the store cannot hand over directly here")
	}
	return d
}

// refuses says that a Take is refused, and changes nothing.
func (e *leaseEnv) refuses(d store.DirectHandover, a store.Acquire, what string) {
	e.Helper()
	before := e.read(e.watch, group)
	if token, err := d.Take(e.ctx(), a); !errors.Is(err, store.ErrChanged) {
		e.Errorf("Take of %s: token %d, error %v, want ErrChanged", what, token, err)
	}
	e.unchanged(before, "Take of "+what)
}
