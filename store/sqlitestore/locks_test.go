package sqlitestore_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/storetest"
)

func TestLocksConformance(t *testing.T) {
	t.Parallel()
	storetest.Locks(t, func(t testing.TB) storetest.Harness {
		path, stepClock := withSteppedClock(t)
		return storetest.Harness{
			Open:      func(t testing.TB) store.Leases { return openWithSteppedClock(t, path) },
			StepClock: stepClock,
			Restart:   func(t testing.TB) { replace(t, path) },
			Patience:  5 * time.Minute, // the driver is slow with -race
		}
	})
}
