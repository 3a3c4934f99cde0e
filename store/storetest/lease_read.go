package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
)

var leaseReadCases = []leaseCase{
	{"harness", func(e *leaseEnv) {
		s := e.open()
		l := &store.Lease{
			Owner: alice, Token: 1_700_000_000_123_456, Heartbeat: 7, TTL: 1234567 * time.Microsecond,
			RenewedAt: time.Date(2031, 10, 26, 1, 30, 0, 123456000, time.UTC), Released: true, ResignAsked: true,
		}
		f := &store.Fence{Owner: bob, Token: 1_700_000_000_123_455}
		for _, rows := range []store.Reading{{Lease: l, Fence: f}, {Lease: l}, {Fence: f}, {}} {
			e.set(group, rows.Lease, rows.Fence)
			rows.Group = group
			e.unchanged(rows, "rows written by Harness.Update, read by the store")
			e.h.Update(e.TB, group, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
				e.same(l, rows.Lease, "rows handed to Harness.Update's change")
				e.equal(showLease(f), showLease(rows.Fence), "fence row handed to Harness.Update's change")
				return l, f
			})
			e.unchanged(rows, "rows that Harness.Update was to leave as they are")
		}
		e.take(s, group, alice)
	}},

	{"read/absent", func(e *leaseEnv) {
		r := e.read(e.open(), group)
		if r.Lease != nil || r.Fence != nil {
			e.Errorf("a group that was never prepared has lease %s, fence %s", showLease(r.Lease), showLease(r.Fence))
		}
		if r.Server == "" {
			e.Errorf("the reading names no server")
		}
		if r.Now.IsZero() {
			e.Errorf("the reading has no instant")
		}
	}},

	{"read/no groups", func(e *leaseEnv) {
		rs, err := e.open().Read(e.ctx())
		e.ok(err, "Read of no groups")
		e.equal(len(rs), 0, "readings of no groups")
	}},

	{"read/many groups in the order asked", func(e *leaseEnv) {
		s := e.open()
		var asked, held []string
		for i := range 200 {
			name := fmt.Sprint("group", (i*37)%200)
			asked = append(asked, name)
			if i%20 == 0 {
				e.take(s, name, "owner-of-"+name)
				held = append(held, name)
			}
		}
		asked = append(asked, held[1], held[0], held[0])
		rs, err := s.Read(e.ctx(), asked...)
		e.ok(err, "Read")
		if len(rs) != len(asked) {
			e.Fatalf("%d readings of %d groups", len(rs), len(asked))
		}
		found := 0
		for i, r := range rs {
			if r.Group != asked[i] {
				e.Fatalf("reading %d is of group %q, want %q", i, r.Group, asked[i])
			}
			if (r.Lease == nil) != (r.Fence == nil) {
				e.Errorf("group %q: lease %s beside fence %s", r.Group, showLease(r.Lease), showLease(r.Fence))
			}
			if r.Lease != nil && r.Fence != nil {
				found++
				e.equal(r.Lease.Owner, "owner-of-"+r.Group, "owner of "+r.Group)
				e.equal(r.Fence.Owner, "owner-of-"+r.Group, "fence owner of "+r.Group)
			}
		}
		e.equal(found, len(held)+3, "readings with rows")
	}},

	{"read/one row without the other", func(e *leaseEnv) {
		s := e.open()
		for _, name := range []string{"a", "b", "c"} {
			e.take(s, name, alice)
		}
		e.deleteLease("a")
		e.deleteFence("b")
		rs, err := s.Read(e.ctx(), "a", "b", "c")
		e.ok(err, "Read")
		e.equal(len(rs), 3, "readings")
		for i, want := range []struct{ lease, fence bool }{{false, true}, {true, false}, {true, true}}[:len(rs)] {
			e.equal(rs[i].Lease != nil, want.lease, "lease row of "+rs[i].Group+" is there")
			e.equal(rs[i].Fence != nil, want.fence, "fence row of "+rs[i].Group+" is there")
		}
	}},

	{"read/one instant and one server", func(e *leaseEnv) {
		s := e.open()
		for range 20 {
			rs, err := s.Read(e.ctx(), "a", "b", "c", "d", "e")
			e.ok(err, "Read")
			for _, r := range rs {
				if !r.Now.Equal(rs[0].Now) || r.Server != rs[0].Server || r.Session != rs[0].Session {
					e.Fatalf("readings of one call differ: %v %s %d and %v %s %d",
						rs[0].Now, rs[0].Server, rs[0].Session, r.Now, r.Server, r.Session)
				}
			}
		}
		e.equal(e.read(e.open(), "a").Server, e.read(s, "a").Server, "server, as another replica of the same database sees it")
	}},

	{"read/instants are UTC, with fractions of seconds", func(e *leaseEnv) {
		s := e.open()
		e.take(s, group, alice)
		fractions := func(of func(store.Reading) time.Time) bool {
			for begin := time.Now(); time.Since(begin) < 1100*time.Millisecond; {
				if of(e.row(s, group)).Nanosecond() != 0 {
					return true
				}
				r := e.row(s, group)
				e.renew(s, alice, r.Lease.Heartbeat+1, leaseRenewal(r))
			}
			return false
		}
		if !fractions(func(r store.Reading) time.Time { return r.Now }) {
			e.Errorf("Now has no fractions of seconds")
		}
		if !fractions(func(r store.Reading) time.Time { return r.Lease.RenewedAt }) {
			e.Errorf("RenewedAt has no fractions of seconds")
		}
		r := e.row(s, group)
		e.equal(r.Now.Location(), time.UTC, "location of Now")
		e.equal(r.Lease.RenewedAt.Location(), time.UTC, "location of RenewedAt")
		later := e.row(s, group)
		if later.Now.Before(r.Now) {
			e.Errorf("Now went from %v to %v", r.Now, later.Now)
		}
	}},

	{"read/another server behind the address", func(e *leaseEnv) {
		if e.h.Restart == nil {
			e.Skip("left out: Harness.Restart is nil")
		}
		s := e.open()
		e.prepare(s, group)
		before := e.row(s, group)
		e.h.Restart(e.TB)
		after := e.afterRestart(s)
		if after.Server == before.Server {
			e.Errorf("Server is %q before and after", after.Server)
		}
		if after.Session == before.Session {
			e.Errorf("Session is %d before and after", after.Session)
		}
		e.same(after.Lease, before.Lease, "rows after another server took over")
		_, err := s.Acquire(e.ctx(), store.Acquire{Read: before, Owner: alice, Heartbeat: 1, TTL: ttl})
		e.refused(err, "Acquire that leans on a reading of the server before")
		e.unchanged(after, "after that")
		_, err = s.Acquire(e.ctx(), store.Acquire{Read: after, Owner: alice, Heartbeat: 1, TTL: ttl})
		e.ok(err, "Acquire that leans on a reading of this server")
	}},

	{"read/an ended context", func(e *leaseEnv) {
		s := e.open()
		r := e.take(s, group, alice)
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		for what, call := range map[string]func() error{
			"Read":    func() error { _, err := s.Read(ctx, group); return err },
			"Prepare": func() error { return s.Prepare(ctx, otherOne, ttl) },
			"Acquire": func() error {
				_, err := s.Acquire(ctx, store.Acquire{Read: r, Owner: bob, Heartbeat: 1, TTL: ttl})
				return err
			},
			"Renew": func() error {
				_, err := s.Renew(ctx, store.Renew{Owner: alice, Heartbeat: 2, Leases: []store.Renewal{leaseRenewal(r)}})
				return err
			},
			"Release":   func() error { return s.Release(ctx, group, alice, r.Lease.Token) },
			"AskResign": func() error { return s.AskResign(ctx, group, r.Lease.Token) },
		} {
			if err := call(); err == nil || errors.Is(err, store.ErrChanged) {
				e.Errorf("%s with an ended context: error %v, want one that is not ErrChanged", what, err)
			}
		}
		e.row(s, group) // the store still works
	}},
}

// afterRestart reads until a connection to the server that answers now is there:
// one to the server before may have to be found dead first.
func (e *leaseEnv) afterRestart(s store.Leases) store.Reading {
	e.Helper()
	ctx := e.ctx()
	for {
		rs, err := s.Read(ctx, group)
		if err == nil && len(rs) == 1 && rs[0].Lease != nil {
			return rs[0]
		}
		if ctx.Err() != nil {
			e.Fatalf("Read after Harness.Restart: %v", err)
		}
	}
}

var leaseNameCases = []leaseCase{
	{"names/nearly equal groups are different", func(e *leaseEnv) {
		s := e.open()
		// The numbers are equal to databases that take text for numbers.
		names := []string{"a", "A", "a-", "a.", "a_", "a/", "aa", "b", "1", "01", "1.0", "1e0", "0x1", "1+0", "a_b", "axb"}
		for _, name := range names {
			e.take(s, name, "owner-of-"+name)
		}
		rs, err := s.Read(e.ctx(), names...)
		e.ok(err, "Read")
		for _, r := range rs {
			owner := "owner-of-" + r.Group
			if r.Lease == nil || r.Fence == nil || r.Lease.Owner != owner || r.Fence.Owner != owner {
				e.Fatalf("group %q: lease %s, fence %s: want those of %s", r.Group, showLease(r.Lease), showLease(r.Fence), owner)
			}
		}
		e.ok(s.Release(e.ctx(), "A", "owner-of-A", e.row(s, "A").Lease.Token), "Release of A")
		e.equal(e.row(s, "a").Lease.Released, false, "a is released with A")
	}},

	{"names/longest are kept whole", func(e *leaseEnv) {
		s := e.open()
		long := strings.Repeat("x", store.MaxName-1)
		for _, end := range []string{"1", "2"} {
			e.take(s, long+end, strings.Repeat("o", store.MaxName-1)+end)
		}
		for _, end := range []string{"1", "2"} {
			r := e.row(s, long+end)
			owner := strings.Repeat("o", store.MaxName-1) + end
			e.equal(r.Lease.Owner, owner, "owner in the lease row")
			e.equal(r.Fence.Owner, owner, "owner in the fence row")
			e.equal(e.renew(s, owner, 2, leaseRenewal(r)), 1, "leases renewed")
			e.ok(s.Release(e.ctx(), long+end, owner, r.Lease.Token), "Release")
		}
	}},

	{"names/that cannot be", func(e *leaseEnv) {
		s := e.open()
		long := strings.Repeat("x", store.MaxName)
		e.prepare(s, group)
		a := e.request(s, group, alice)
		for _, name := range []string{
			"", " ", "a b", "a ", " a", "-a", ".a", "é", "a\x00", "a\n", "a'", `a"`, "a%", `a\`, "a?", "\xff", long + "y",
		} {
			if err := s.Prepare(e.ctx(), name, ttl); err == nil {
				e.Errorf("Prepare of the group %.40q: no error", name)
			}
			a.Owner = name
			if _, err := s.Acquire(e.ctx(), a); err == nil || errors.Is(err, store.ErrChanged) {
				e.Errorf("Acquire by the owner %.40q: error %v, want one that is not ErrChanged", name, err)
			}
			e.unchanged(a.Read, "after a refused Acquire")
		}
		for _, name := range []string{long, "a"} {
			if r := e.read(s, name); r.Lease != nil || r.Fence != nil {
				e.Errorf("Prepare of a group that cannot be a name made one of %d bytes", len(name))
			}
		}
	}},

	{"names/the empty owner holds nothing", func(e *leaseEnv) {
		s := e.open()
		e.prepare(s, group)
		r := e.row(s, group)
		e.refused(s.Release(e.ctx(), group, "", r.Lease.Token), "Release by the empty owner, of a new group")
		e.unchanged(r, "Release by the empty owner, of a new group")
		e.take(s, group, alice)
		e.deleteLease(group)
		e.prepare(s, group) // without an owner, not released
		r = e.row(s, group)
		e.equal(e.renew(s, "", 2, leaseRenewal(r)), 0, "leases renewed by the empty owner")
		e.refused(s.Release(e.ctx(), group, "", r.Lease.Token), "Release by the empty owner")
		e.unchanged(r, "Renew and Release by the empty owner")
	}},
}
