package memdb_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/storetest"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	storetest.Locks(t, func(testing.TB) storetest.Harness {
		s := memdb.New()
		return storetest.Harness{
			Open:      func(testing.TB) store.Leases { return s },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
			Restart:   func(testing.TB) { s.Restart() },
		}
	})
}

// Where the clock cannot be stepped, rows are waited for until they are old.
func TestLocksWithoutStepClock(t *testing.T) {
	t.Parallel()
	storetest.Locks(t, func(testing.TB) storetest.Harness {
		s := memdb.New()
		return storetest.Harness{Open: func(testing.TB) store.Leases { return s }}
	})
}
