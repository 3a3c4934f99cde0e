// Package storetest tests stores against the contract of package store. Every store of this module passes it, and a
// store of another module runs it in its own tests. Like that contract the suites are internal: they may change with
// each release, without notice in the versioning, and a new case may fail on your store. Pin a release. There are three
// suites, for what a store implements: [Leases] first, since terms and sessions are leases, then [Ledger] (or [Rows])
// and [Locks].
//
//	func TestLeases(t *testing.T) { storetest.Leases(t, harness) }
//	func TestLedger(t *testing.T) { storetest.Ledger(t, harness) }
//	func TestLocks(t *testing.T)  { storetest.Locks(t, harness) }
//
//	func harness(t testing.TB) storetest.Harness {
//		db := newEmptyDatabase(t)
//		return storetest.Harness{
//			Open: func(t testing.TB) store.Leases {
//				store := mystore.New(db.address)
//				t.Cleanup(func() { store.Close() })
//				return store
//			},
//			Update: db.update,
//		}
//	}
//
// [Harness.Update] changes rows behind the store's back, as an operator or a
// restored backup may. In SQL it reads the two rows, calls change, and writes
// what change returned; it need not be atomic:
//
//	func (db *database) update(t testing.TB, group string, change storetest.Change) {
//		l, f := db.leaseRow(t, group), db.fenceRow(t, group) // nil where absent
//		l, f = change(l, f)
//		db.exec(t, `DELETE FROM lease WHERE name = ?`, group)
//		db.exec(t, `DELETE FROM fence WHERE name = ?`, group)
//		if l != nil {
//			db.exec(t, `INSERT INTO lease (name, owner, token, heartbeat, renewed_at, ttl, released, resign_asked)
//				VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, group, l.Owner, l.Token, l.Heartbeat,
//				l.RenewedAt.UTC().Format("2006-01-02 15:04:05.000000"), l.TTL.Microseconds(), l.Released, l.ResignAsked)
//		}
//		if f != nil {
//			db.exec(t, `INSERT INTO fence (name, owner, token) VALUES (?, ?, ?)`, group, f.Owner, f.Token)
//		}
//	}
//
// The case "harness" of [Leases] says when Update does not do its part.
//
// The suites are tested by mutation: docs/checks.md says how. A store without one of its conditions, or without one of its
// writes, fails a case.
package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Change gets the two rows of a group, nil where absent, and returns what they
// are to be, nil for a row that is to be deleted. It may change what it got.
type Change = func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence)

// Harness is one empty database and what the suites do to it. Open is required,
// and Update for [Leases]. Functions end the test themselves when they fail. A
// case that needs a function which is nil is skipped, by name.
type Harness struct {
	// Open returns the store of another replica on the database, with
	// connections of its own, and closes it when the test ends. For [Ledger] it
	// is a [store.Jobs], and for [Locks] a [store.Locks].
	Open func(t testing.TB) store.Leases
	// Update changes or deletes the rows of a group behind the stores' backs.
	// Times are exact to the microsecond.
	Update func(t testing.TB, group string, change Change)
	// StepClock steps the database's clock. When it is nil, some cases rewrite
	// rows to what they would be after the step, or wait for as long.
	StepClock func(t testing.TB, by time.Duration)
	// Restart puts another start of the server, or another server with the
	// same rows, behind the same address.
	Restart func(t testing.TB)
	// LockLease has another transaction lock the lease row of a group until free
	// is called.
	LockLease func(t testing.TB, group string) (free func())
	// LoseSignal breaks the connection that has the handover signal of the group,
	// as the end of its process does.
	LoseSignal func(t testing.TB, group string)
	// SignalsAll says that the store signals a handover to all waiters, so that
	// several can have the signal at once.
	SignalsAll bool
	// ManyServers says that the connections of one store lead to several servers,
	// so that its calls may be answered by different ones.
	ManyServers bool
	// AnyServer says that no server lacks what another one has confirmed, so that
	// [store.Holder.Server] is not compared.
	AnyServer bool
	// Fenced carries out a fenced transaction of the store under a hold, and reports whether it was let through. It writes nothing.
	Fenced func(ctx context.Context, s store.Leases, h lease.Hold) (bool, error)
	// Patience is how long one case may take, with what it waits for. Default
	// one minute, which only a broken store reaches.
	Patience time.Duration

	// quick, unless it is zero, makes cases that look for rare meetings look for
	// that part of the time, for [Finds].
	quick int
}

// FencedOn is [Harness.Fenced] of a [store.Fences], for transactions on a pool.
func FencedOn(db *sql.DB) func(context.Context, store.Leases, lease.Hold) (bool, error) {
	return func(ctx context.Context, s store.Leases, h lease.Hold) (held bool, err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return false, err
		}
		if held, err = s.(store.Fences).CheckHold(ctx, tx, h); err != nil {
			return false, errors.Join(err, tx.Rollback())
		}
		return held, tx.Commit()
	}
}

func (h Harness) times(n int) int { return n / max(1, h.quick) }

// moment is how long a case looks for a signal that must not come. A store that
// signals wrongly, but later, passes.
const moment = 50 * time.Millisecond

// spurious is how often in a row a wait may end for nothing before that counts as a fault: a
// connection that is lost ends one, as does a call of another wait on the same connection.
const spurious = 3

// suite is a list of cases, and what they get.
type suite[E any] struct {
	cases []testCase[E]
	on    func(*env) E
}

// testCase is one clause of the contract. Cases take a testing.TB and no
// *testing.T, so that their failure can be observed by [Finds].
type testCase[E any] struct {
	name string
	run  func(e E)
}

// run runs the suite. It calls open once for each case.
func (s suite[E]) run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	for _, c := range s.cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s.runCase(t, open(t), c)
		})
	}
}

func (s suite[E]) runCase(t testing.TB, h Harness, c testCase[E]) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("storetest: the Harness needs Open")
	}
	if h.Patience == 0 {
		h.Patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	c.run(s.on(&env{TB: t, h: h, limit: ctx}))
}
