package leasetest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder runs a case and notes its failure instead of failing the test.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	failure string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Error(args ...any)   { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)   { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Skip(...any)         { runtime.Goexit() }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failure runs a case on a database with the flaw and says how it failed.
func failure(t *testing.T, c testCase, h Harness) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		newEnv(r, h).run(c)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func TestSoundStorePasses(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness { return newDatabase("").harness() })
}

func TestRowsAreRewrittenWithoutStepClock(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness {
		h := newDatabase("").harness()
		h.StepClock, h.Restart, h.BellRingsAll = nil, nil, true
		return h
	})
}

// TestEachFlawFailsACase is the proof that each condition has a case, and that
// each case can fail.
func TestEachFlawFailsACase(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	failed := map[string][]string{} // by case, the flaws that it finds
	t.Run("flaws", func(t *testing.T) {
		for _, flaw := range flaws {
			t.Run(flaw, func(t *testing.T) {
				t.Parallel()
				var found sync.WaitGroup
				var by atomic.Int64
				turns := make(chan struct{}, 12) // so that each case gets its time
				// On a busy machine a case may look away too soon: it gets three tries.
				for try := 0; try < 3 && by.Load() == 0; try++ {
					for _, c := range cases() {
						found.Go(func() {
							turns <- struct{}{}
							defer func() { <-turns }()
							if why := failure(t, c, newDatabase(flaw).quickHarness()); why != "" {
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
	for _, c := range cases() {
		if len(failed[c.name]) == 0 {
			t.Errorf("case %q finds none of the flaws", c.name)
		}
	}
}
