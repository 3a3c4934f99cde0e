package memdb_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/storetest"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	storetest.Ledger(t, func(testing.TB) storetest.Harness {
		s := memdb.New()
		return storetest.Harness{
			Open:      func(testing.TB) store.Leases { return s },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
		}
	})
}

// The rules may be asked again, where others have changed what they had read: nothing is left of the first time.
func TestLedgerBesideOthers(t *testing.T) {
	t.Parallel()
	storetest.Ledger(t, func(testing.TB) storetest.Harness {
		s := memdb.New()
		memdb.Conflict(s)
		return storetest.Harness{
			Open:      func(testing.TB) store.Leases { return s },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
		}
	})
}
