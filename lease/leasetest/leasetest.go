// Package leasetest holds stores to the contract of [store.Leases]. Every store
// of this module passes it, and a store kept elsewhere runs it in its own tests:
//
//	func TestConformance(t *testing.T) {
//		leasetest.Run(t, func(t testing.TB) leasetest.Harness {
//			db := newEmptyDatabase(t)
//			return leasetest.Harness{
//				Open: func(t testing.TB) store.Leases {
//					store := mystore.New(db.address)
//					t.Cleanup(func() { store.Close() })
//					return store
//				},
//				Update: db.update,
//			}
//		})
//	}
//
// [Harness.Update] changes rows behind the store's back, as an operator or a
// restored backup may. In SQL it reads the two rows, calls change, and writes
// what change returned; it need not be atomic:
//
//	func (db *database) update(t testing.TB, group string, change leasetest.Change) {
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
// The case "harness" says when Update does not do its part. The suite is itself
// tested: for each condition of each statement there is a store without it, and
// a case that this store fails.
package leasetest

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

// Change gets the two rows of a group, nil where absent, and returns what they
// are to be, nil for a row that is to be deleted. It may change what it got.
type Change = func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence)

// Harness is one empty database and what the suite does to it. Open and Update
// are required. Functions end the test themselves when they fail.
type Harness struct {
	// Open returns the store of another replica on the database, with
	// connections of its own, and closes it when the test ends.
	Open func(t testing.TB) store.Leases
	// Update changes or deletes the rows of a group behind the stores' backs.
	// Times are exact to the microsecond.
	Update func(t testing.TB, group string, change Change)
	// StepClock steps the database's clock. Nil when that cannot be done:
	// then rows are rewritten to what they would be after the step.
	StepClock func(t testing.TB, by time.Duration)
	// Restart puts another start of the server, or another server with the
	// same rows, behind the same address. Nil when that cannot be done: then
	// the cases that need it are skipped, by name.
	Restart func(t testing.TB)
	// LockLease has another transaction lock the lease row of a group until free
	// is called. Nil where a store has no locks of rows: then the case that
	// needs it is skipped, by name.
	LockLease func(t testing.TB, group string) (free func())
	// LoseBell breaks the connection that has the bell of the group, as the
	// end of its process does. Nil when that cannot be done: then the case
	// that needs it is skipped, by name.
	LoseBell func(t testing.TB, group string)
	// BellRingsAll says that the store's bell rings for all waiters, so that
	// several can have it at once.
	BellRingsAll bool
	// Patience is how long one case may take, with what it waits for. Default
	// one minute, which only a broken store reaches.
	Patience time.Duration

	// quick makes cases that look for rare meetings look a tenth as long, for
	// this package's tests.
	quick bool
}

func (h Harness) times(n int) int {
	if h.quick {
		return n / 10
	}
	return n
}

// moment is how long a case looks for a ring that must not come. A store that
// rings wrongly, but later, passes.
const moment = 50 * time.Millisecond

// Run runs the suite. It calls open once for each case, and cases run in
// parallel. A case whose means the harness does not have is skipped, and named
// in the log of t.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			newEnv(t, open(t)).run(c)
		})
	}
}

// testCase is one clause of the contract. Cases take a testing.TB and no
// *testing.T, so that their failure can be observed by this package's tests.
type testCase struct {
	name string
	run  func(e *env)
}

func cases() []testCase {
	var all []testCase
	for _, some := range [][]testCase{
		readCases, nameCases, prepareCases, acquireCases, renewCases,
		releaseCases, resignCases, clockCases, concurrencyCases, bellCases,
	} {
		all = append(all, some...)
	}
	return all
}
