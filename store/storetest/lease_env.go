package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

// Leases tests a store against the contract of [store.Leases], and of
// [store.HandoverSignals], [store.DirectHandover] and [store.PresenceSignal] if it has them. It calls open once for
// each case, and cases run in parallel.
func Leases(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	leaseSuite.run(t, open)
}

type leaseCase = testCase[*leaseEnv]

var leaseSuite = suite[*leaseEnv]{
	cases: slices.Concat(leaseReadCases, leaseNameCases, prepareCases, acquireCases, renewCases, releaseCases, resignCases, clockCases, leaseConcurrencyCases, signalCases, handoverCases, presenceCases),
	on:    newLeaseEnv,
}

func newLeaseEnv(e *env) *leaseEnv {
	e.Helper()
	if e.h.Update == nil {
		e.Fatal("storetest: the Harness needs Update")
	}
	l := &leaseEnv{env: e}
	l.watch = l.open()
	return l
}

// leaseEnv is one case on one database.
type leaseEnv struct {
	*env
	watch store.Leases // belongs to no replica: shows rows as they are
}

func (e *leaseEnv) open() store.Leases {
	e.Helper()
	return open[store.Leases](e.env)
}

// refused says that err is the answer "not as expected any more".
func (e *leaseEnv) refused(err error, what string) {
	e.Helper()
	if !errors.Is(err, store.ErrChanged) {
		e.Errorf("%s: error %v, want ErrChanged", what, err)
	}
}

func (e *leaseEnv) read(s store.Leases, group string) store.Reading {
	e.Helper()
	rs, err := s.Read(e.ctx(), group)
	e.ok(err, "Read")
	if len(rs) != 1 || rs[0].Group != group {
		e.Fatalf("Read of %q answered %d readings: %v", group, len(rs), rs)
	}
	return rs[0]
}

// row reads a group that must have both rows.
func (e *leaseEnv) row(s store.Leases, group string) store.Reading {
	e.Helper()
	r := e.read(s, group)
	if r.Lease == nil || r.Fence == nil {
		e.Fatalf("group %q: lease %s, fence %s: want both rows", group, showLease(r.Lease), showLease(r.Fence))
	}
	return r
}

func (e *leaseEnv) prepare(s store.Leases, group string) {
	e.Helper()
	e.ok(s.Prepare(e.ctx(), group, ttl), "Prepare")
}

// request is an acquire of what s reads now.
func (e *leaseEnv) request(s store.Leases, group, owner string) store.Acquire {
	e.Helper()
	return store.Acquire{Read: e.row(s, group), Owner: owner, Heartbeat: 1, TTL: ttl}
}

// take prepares and acquires group, and returns its rows.
func (e *leaseEnv) take(s store.Leases, group, owner string) store.Reading {
	e.Helper()
	e.prepare(s, group)
	token, err := s.Acquire(e.ctx(), e.request(s, group, owner))
	e.ok(err, "Acquire")
	r := e.row(s, group)
	if r.Lease.Owner != owner || r.Lease.Token != token {
		e.Fatalf("after Acquire by %s gave token %d, the row is %s", owner, token, showLease(r.Lease))
	}
	return r
}

// renewal expects the row as r shows it.
func leaseRenewal(r store.Reading) store.Renewal {
	return store.Renewal{Group: r.Group, Token: r.Lease.Token, Heartbeat: r.Lease.Heartbeat, ResignAsked: r.Lease.ResignAsked}
}

func (e *leaseEnv) renew(s store.Leases, owner string, heartbeat uint64, leases ...store.Renewal) int {
	e.Helper()
	n, err := s.Renew(e.ctx(), store.Renew{Owner: owner, Heartbeat: heartbeat, Leases: leases})
	e.ok(err, "Renew")
	return n
}

// update changes the rows of a group, which must be there.
func (e *leaseEnv) update(group string, change func(l *store.Lease, f *store.Fence)) {
	e.Helper()
	e.h.Update(e.TB, group, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
		if l == nil || f == nil {
			e.Fatalf("Harness.Update of %q got lease %s and fence %s: want both rows", group, showLease(l), showLease(f))
		}
		change(l, f)
		return l, f
	})
}

// set writes the rows of a group, nil for none.
func (e *leaseEnv) set(group string, l *store.Lease, f *store.Fence) {
	e.Helper()
	e.h.Update(e.TB, group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return l, f })
}

func (e *leaseEnv) deleteLease(group string) {
	e.Helper()
	e.h.Update(e.TB, group, func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f })
}

func (e *leaseEnv) deleteFence(group string) {
	e.Helper()
	e.h.Update(e.TB, group, func(l *store.Lease, _ *store.Fence) (*store.Lease, *store.Fence) { return l, nil })
}

// unchanged says that the rows are still as r shows them.
func (e *leaseEnv) unchanged(r store.Reading, what string) {
	e.Helper()
	now := e.read(e.watch, r.Group)
	e.same(now.Lease, r.Lease, what)
	if showLease(now.Fence) != showLease(r.Fence) {
		e.Errorf("%s: fence row %s, want %s", what, showLease(now.Fence), showLease(r.Fence))
	}
}

func (e *leaseEnv) same(got, want *store.Lease, what string) {
	e.Helper()
	if showLease(got) != showLease(want) {
		e.Errorf("%s: lease row\n\t%s, want\n\t%s", what, showLease(got), showLease(want))
	}
}

// between says that at is an instant of the database's clock between two readings.
func (e *leaseEnv) between(at time.Time, before, after store.Reading, what string) {
	e.Helper()
	if at.Before(before.Now) || at.After(after.Now) {
		e.Errorf("%s: %v, want an instant from %v to %v", what, at, before.Now, after.Now)
	}
}

// show prints a row, so that equal rows print alike.
func showLease(row any) string {
	switch row := row.(type) {
	case *store.Lease:
		if row != nil {
			return fmt.Sprintf("{owner %q token %d heartbeat %d renewed %s ttl %v released %t resign %t}", row.Owner, row.Token,
				row.Heartbeat, row.RenewedAt.UTC().Format(time.RFC3339Nano), row.TTL, row.Released, row.ResignAsked)
		}
	case *store.Fence:
		if row != nil {
			return fmt.Sprintf("{owner %q token %d}", row.Owner, row.Token)
		}
	}
	return "absent"
}
