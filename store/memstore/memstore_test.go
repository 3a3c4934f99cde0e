package memstore_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/lease/leasetest"
	"github.com/cronlease/cronlease/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(testing.TB) leasetest.Harness {
		s := memstore.New()
		return leasetest.Harness{
			Open:      func(testing.TB) lease.Store { return s },
			Update:    func(_ testing.TB, group string, change leasetest.Change) { s.Update(group, change) },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
			Restart:   func(testing.TB) { s.Restart() },
		}
	})
}
