package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestSoundLeasesPass(t *testing.T) {
	t.Parallel()
	Leases(t, func(testing.TB) Harness { return newLeaseDatabase("").harness() })
}

func TestLeaseRowsAreRewrittenWithoutStepClock(t *testing.T) {
	t.Parallel()
	Leases(t, func(testing.TB) Harness {
		h := newLeaseDatabase("").harness()
		h.StepClock, h.Restart, h.SignalsAll = nil, nil, true
		return h
	})
}

// TestEachFlawFailsACase is the proof that each condition has a case, and that
// each case can fail.
func TestEachLeaseFlawFailsACase(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	failed := map[string][]string{} // by case, the flaws that it finds
	t.Run("flaws", func(t *testing.T) {
		for _, flaw := range leaseFlaws {
			t.Run(flaw, func(t *testing.T) {
				t.Parallel()
				var found sync.WaitGroup
				var by atomic.Int64
				turns := make(chan struct{}, 12) // so that each case gets its time
				// On a busy machine a case may look away too soon: it gets three tries.
				for try := 0; try < 3 && by.Load() == 0; try++ {
					for _, c := range leaseSuite.cases {
						found.Go(func() {
							turns <- struct{}{}
							defer func() { <-turns }()
							if why := failure(t, leaseSuite, c, newLeaseDatabase(flaw).quickHarness()); why != "" {
								t.Logf("found by %q: %s", c.name, why)
								by.Add(1)
								mu.Lock()
								defer mu.Unlock()
								failed[c.name] = append(failed[c.name], flaw)
							}
						})
					}
					found.Wait()
				}
				if by.Load() == 0 {
					t.Errorf("no case fails on a store with the flaw %q", flaw)
				}
			})
		}
	})
	for _, c := range leaseSuite.cases {
		if len(failed[c.name]) == 0 {
			t.Errorf("case %q finds none of the flaws", c.name)
		}
	}
}
