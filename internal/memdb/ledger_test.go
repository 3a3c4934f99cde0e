package memdb_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/storetest"
)

// The rules may be asked again, where others have changed what they had read: nothing is left of the first time.
// Nor is a clock that can be stepped needed.
func TestLedgerBesideOthers(t *testing.T) {
	t.Parallel()
	storetest.Ledger(t, func(testing.TB) storetest.Harness {
		s := memdb.New()
		memdb.Conflict(s)
		return storetest.Harness{
			Open: func(testing.TB) store.Leases { return s },
		}
	})
}
