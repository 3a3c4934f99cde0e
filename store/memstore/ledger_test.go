package memstore_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs/ledgertest"
	"github.com/cronlease/cronlease/store/memstore"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(testing.TB) ledgertest.Harness {
		s := memstore.New()
		return ledgertest.Harness{
			Open:      func(testing.TB) ledgertest.Store { return s },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
		}
	})
}
