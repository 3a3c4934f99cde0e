// Package ledgertest holds stores to the contract of [store.Ledger]. Every store
// of this module passes it, and a store kept elsewhere runs it in its own tests:
//
//	func TestLedger(t *testing.T) {
//		ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
//			db := newEmptyDatabase(t)
//			return ledgertest.Harness{
//				Open: func(t testing.TB) ledgertest.Store {
//					store := mystore.New(db.address)
//					t.Cleanup(func() { store.Close() })
//					return store
//				},
//			}
//		})
//	}
//
// A term begins by the store's own [store.Leases], so run the package leasetest
// first. The suite is itself tested: for each condition and each effect of each
// statement there is a store without it, and a case that this store fails.
package ledgertest

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

// Store is what the suite tests: the ledger, and beside it the leases by which
// terms begin.
type Store interface {
	store.Leases
	store.Ledger
}

// Harness is one empty database and what the suite does to it. Open is
// required. Functions end the test themselves when they fail.
type Harness struct {
	// Open returns the store of another replica on the database, with
	// connections of its own, and closes it when the test ends.
	Open func(t testing.TB) Store
	// StepClock steps the database's clock. Nil when that cannot be done:
	// then the case that needs it is skipped, by name.
	StepClock func(t testing.TB, by time.Duration)
	// Patience is how long one case may take. Default one minute, which only
	// a broken store reaches.
	Patience time.Duration

	// quick makes cases that look for rare meetings look a fifth as long, for
	// this package's tests.
	quick bool
}

func (h Harness) times(n int) int {
	if h.quick {
		return n / 5
	}
	return n
}

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
		declareCases, passOverCases, loadCases, claimCases, moveCases, pauseCases, triggerCases, cancelCases,
		changesCases, runsCases, pruneCases, valueCases, fenceCases, concurrencyCases,
	} {
		all = append(all, some...)
	}
	return all
}
