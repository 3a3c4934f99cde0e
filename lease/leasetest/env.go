package leasetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

const (
	// alice and bob are replicas; the others differ from alice in ways that a
	// database may ignore.
	alice       = "worker/alice/1/x"
	bob         = "worker/bob/2/y"
	aliceUpper  = "Worker/alice/1/x"
	aliceLonger = "worker/alice/1/x-"

	group    = "billing"
	otherOne = "indexing"
	ttl      = 15 * time.Second
)

// env is one case on one database.
type env struct {
	testing.TB
	h     Harness
	watch store.Leases // belongs to no replica: shows rows as they are
	limit context.Context
}

func newEnv(t testing.TB, h Harness) *env {
	t.Helper()
	if h.Open == nil || h.Update == nil {
		t.Fatal("leasetest: the Harness needs Open and Update")
	}
	if h.Patience == 0 {
		h.Patience = time.Minute
	}
	return &env{TB: t, h: h}
}

func (e *env) run(c testCase) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.h.Patience)
	defer cancel()
	e.limit = ctx
	e.watch = e.open()
	c.run(e)
}

func (e *env) open() store.Leases {
	e.Helper()
	return e.h.Open(e.TB)
}

// ctx ends with the harness's patience.
func (e *env) ctx() context.Context { return e.limit }

func (e *env) ok(err error, what string) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v, want no error", what, err)
	}
}

// refused says that err is the answer "not as expected any more".
func (e *env) refused(err error, what string) {
	e.Helper()
	if !errors.Is(err, store.ErrChanged) {
		e.Errorf("%s: error %v, want ErrChanged", what, err)
	}
}

func (e *env) equal(got, want any, what string) {
	e.Helper()
	if got != want {
		e.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (e *env) read(s store.Leases, group string) store.Reading {
	e.Helper()
	rs, err := s.Read(e.ctx(), group)
	e.ok(err, "Read")
	if len(rs) != 1 || rs[0].Group != group {
		e.Fatalf("Read of %q answered %d readings: %v", group, len(rs), rs)
	}
	return rs[0]
}

// row reads a group that must have both rows.
func (e *env) row(s store.Leases, group string) store.Reading {
	e.Helper()
	r := e.read(s, group)
	if r.Lease == nil || r.Fence == nil {
		e.Fatalf("group %q: lease %s, fence %s: want both rows", group, show(r.Lease), show(r.Fence))
	}
	return r
}

func (e *env) prepare(s store.Leases, group string) {
	e.Helper()
	e.ok(s.Prepare(e.ctx(), group, ttl), "Prepare")
}

// request is an acquire of what s reads now.
func (e *env) request(s store.Leases, group, owner string) store.Acquire {
	e.Helper()
	return store.Acquire{Read: e.row(s, group), Owner: owner, Heartbeat: 1, TTL: ttl}
}

// take prepares and acquires group, and returns its rows.
func (e *env) take(s store.Leases, group, owner string) store.Reading {
	e.Helper()
	e.prepare(s, group)
	token, err := s.Acquire(e.ctx(), e.request(s, group, owner))
	e.ok(err, "Acquire")
	r := e.row(s, group)
	if r.Lease.Owner != owner || r.Lease.Token != token {
		e.Fatalf("after Acquire by %s gave token %d, the row is %s", owner, token, show(r.Lease))
	}
	return r
}

// renewal expects the row as r shows it.
func renewal(r store.Reading) store.Renewal {
	return store.Renewal{Group: r.Group, Token: r.Lease.Token, Heartbeat: r.Lease.Heartbeat, ResignAsked: r.Lease.ResignAsked}
}

func (e *env) renew(s store.Leases, owner string, heartbeat uint64, leases ...store.Renewal) int {
	e.Helper()
	n, err := s.Renew(e.ctx(), store.Renew{Owner: owner, Heartbeat: heartbeat, Leases: leases})
	e.ok(err, "Renew")
	return n
}

// update changes the rows of a group, which must be there.
func (e *env) update(group string, change func(l *store.Lease, f *store.Fence)) {
	e.Helper()
	e.h.Update(e.TB, group, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
		if l == nil || f == nil {
			e.Fatalf("Harness.Update of %q got lease %s and fence %s: want both rows", group, show(l), show(f))
		}
		change(l, f)
		return l, f
	})
}

// set writes the rows of a group, nil for none.
func (e *env) set(group string, l *store.Lease, f *store.Fence) {
	e.Helper()
	e.h.Update(e.TB, group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return l, f })
}

func (e *env) deleteLease(group string) {
	e.Helper()
	e.h.Update(e.TB, group, func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f })
}

func (e *env) deleteFence(group string) {
	e.Helper()
	e.h.Update(e.TB, group, func(l *store.Lease, _ *store.Fence) (*store.Lease, *store.Fence) { return l, nil })
}

// unchanged says that the rows are still as r shows them.
func (e *env) unchanged(r store.Reading, what string) {
	e.Helper()
	now := e.read(e.watch, r.Group)
	e.same(now.Lease, r.Lease, what)
	if show(now.Fence) != show(r.Fence) {
		e.Errorf("%s: fence row %s, want %s", what, show(now.Fence), show(r.Fence))
	}
}

func (e *env) same(got, want *store.Lease, what string) {
	e.Helper()
	if show(got) != show(want) {
		e.Errorf("%s: lease row\n\t%s, want\n\t%s", what, show(got), show(want))
	}
}

// between says that at is an instant of the database's clock between two readings.
func (e *env) between(at time.Time, before, after store.Reading, what string) {
	e.Helper()
	if at.Before(before.Now) || at.After(after.Now) {
		e.Errorf("%s: %v, want an instant from %v to %v", what, at, before.Now, after.Now)
	}
}

// show prints a row, so that equal rows print alike.
func show(row any) string {
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
