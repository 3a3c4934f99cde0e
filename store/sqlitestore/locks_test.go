package sqlitestore_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/locks/lockstest"
	"github.com/cronlease/cronlease/store"
)

func TestLocksConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t testing.TB) lockstest.Harness {
		path, stepClock := withSteppedClock(t)
		return lockstest.Harness{
			Open:      func(t testing.TB) store.Locks { return openWithSteppedClock(t, path) },
			StepClock: stepClock,
			Restart:   func(t testing.TB) { replace(t, path) },
			Patience:  5 * time.Minute, // the driver is slow with -race
		}
	})
}
