// Package lockstest tests stores against the contract of [store.Locks], and of
// [store.Notifier] if they have one. Every store of this module passes it, and a
// store of another module runs it in its own tests:
//
//	func TestLocks(t *testing.T) {
//		lockstest.Run(t, func(t testing.TB) lockstest.Harness {
//			db := newEmptyDatabase(t)
//			return lockstest.Harness{
//				Open: func(t testing.TB) store.Locks {
//					store := mystore.New(db.address)
//					t.Cleanup(func() { store.Close() })
//					return store
//				},
//			}
//		})
//	}
//
// Sessions are lease rows of the same store, so run the package leasetest
// first. The suite is itself tested: for each condition and each effect of each
// statement there is a store without it, and a case that this store fails.
package lockstest

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

// Harness is one empty database and what the suite does to it. Open is
// required. Functions end the test themselves when they fail.
type Harness struct {
	// Open returns the store of another process on the database, with
	// connections of its own, and closes it when the test ends.
	Open func(t testing.TB) store.Locks
	// StepClock steps the database's clock. If nil, cases wait in real time for
	// rows to become old, and the case that needs it is skipped, by name.
	StepClock func(t testing.TB, by time.Duration)
	// Restart restarts the server, or puts another server with the same rows
	// behind the same address. If nil, the case that needs it is skipped, by
	// name.
	Restart func(t testing.TB)
	// Patience is how long one case may take, including its waiting. Default
	// one minute, which only a broken store reaches.
	Patience time.Duration

	// quick makes cases that search for rare races run a fifth as long, for this
	// package's tests.
	quick bool
}

func (h Harness) times(n int) int {
	if h.quick {
		return n / 5
	}
	return n
}

// moment is how long a case waits for a ring that must not come. A store that
// rings wrongly, but later, passes.
const moment = 50 * time.Millisecond

// Run runs the suite. It calls open once for each case, and cases run in
// parallel. A case that needs a function the harness lacks is skipped, and named in
// the log of t.
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
		readCases, writeCases, severalCases, nameCases, pruneCases, sessionCases, doorbellCases, ringCases, concurrencyCases,
	} {
		all = append(all, some...)
	}
	return all
}
