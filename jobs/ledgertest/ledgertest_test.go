package ledgertest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
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

func TestWithoutStepClock(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness {
		h := newDatabase("").harness()
		h.StepClock = nil
		return h
	})
}

// TestEachFlawFailsACase is the proof that each condition has a case.
func TestEachFlawFailsACase(t *testing.T) {
	t.Parallel()
	for _, flaw := range flaws {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			// On a busy machine a case may stop looking too soon: it gets three tries.
			for _, c := range slices.Repeat(nearest(cases(), testCase.about, flaw), 3) {
				if why := failure(t, c, newDatabase(flaw).quickHarness()); why != "" {
					t.Logf("found by %q: %.300s", c.name, why)
					return
				}
			}
			t.Errorf("no case fails on a store with the flaw %q", flaw)
		})
	}
}

// TestEachCaseFindsAFlaw is the proof that each case can fail.
func TestEachCaseFindsAFlaw(t *testing.T) {
	t.Parallel()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, flaw := range slices.Repeat(nearest(flaws, about, c.name), 3) {
				if why := failure(t, c, newDatabase(flaw).quickHarness()); why != "" {
					t.Logf("finds %q: %.300s", flaw, why)
					return
				}
			}
			t.Errorf("case %q finds none of the flaws", c.name)
		})
	}
}

// about is what a flaw or a case is about, by its name.
func about(name string) string {
	name = name[:strings.IndexAny(name, ":/")]
	switch name {
	case "resume":
		return "pause"
	case "names", "errors", "ticks", "clock", "context":
		return "values"
	case "store":
		return "concurrency"
	}
	return name
}

func (c testCase) about() string { return about(c.name) }

// nearest puts those first that are about the same as name.
func nearest[T any](all []T, of func(T) string, name string) []T {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b T) int {
		far := func(v T) int {
			if of(v) == about(name) {
				return 0
			}
			return 1
		}
		return far(a) - far(b)
	})
	return all
}
