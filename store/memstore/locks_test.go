package memstore_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/locks/lockstest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(testing.TB) lockstest.Harness {
		s := memstore.New()
		return lockstest.Harness{
			Open:      func(testing.TB) store.Locks { return s },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
			Restart:   func(testing.TB) { s.Restart() },
		}
	})
}

// Where the clock cannot be stepped, rows are waited for until they are old.
func TestLocksWithoutStepClock(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(testing.TB) lockstest.Harness {
		s := memstore.New()
		return lockstest.Harness{Open: func(testing.TB) store.Locks { return s }}
	})
}
