package lockstest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder runs a case and notes its failure instead of failing the test.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failure  string
	cleanups []func()
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Error(args ...any)   { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)   { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Skip(...any)         { runtime.Goexit() }
func (r *recorder) Failed() bool        { return r.why() != "" }

// Cleanup is for the end of the case. Cases call it from one goroutine.
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) why() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

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

// failure runs a case on a database with the flaw and returns how it failed.
func failure(t *testing.T, c testCase, h Harness) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		newEnv(r, h).run(c)
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.why()
}

func TestSoundStorePasses(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness { return newDatabase("").harness() })
}

func TestWithLeastMeans(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness {
		h := newDatabase("").harness()
		h.StepClock, h.Restart = nil, nil
		return h
	})
}

// A store whose doorbells only watch the rows passes too.
func TestDoorbellsWithoutAddressPass(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness { return newDatabase(watching).harness() })
}

// The database that the flaws are built into does not make cases fail by itself.
func TestSoundStorePassesQuickly(t *testing.T) {
	t.Parallel()
	each(t, cases(), func(c testCase) string { return c.name }, func(t *testing.T, c testCase) {
		h := newDatabase("").quickHarness()
		h.Patience = 6 * time.Second // for a busy machine
		if why := failure(t, c, h); why != "" {
			t.Error(why)
		}
	})
}

// TestEachFlawFailsACase proves that each condition has a case.
func TestEachFlawFailsACase(t *testing.T) {
	t.Parallel()
	each(t, flaws, func(flaw string) string { return flaw }, func(t *testing.T, flaw string) {
		// On a busy machine a case may look away too soon: it gets three tries.
		for _, c := range slices.Repeat(nearest(cases(), testCase.about, flaw), 3) {
			if why := failure(t, c, newDatabase(flaw).quickHarness()); why != "" {
				t.Logf("found by %q: %.300s", c.name, why)
				return
			}
		}
		t.Errorf("no case fails on a store with the flaw %q", flaw)
	})
}

// TestEachCaseFindsAFlaw proves that each case can fail.
func TestEachCaseFindsAFlaw(t *testing.T) {
	t.Parallel()
	each(t, cases(), func(c testCase) string { return c.name }, func(t *testing.T, c testCase) {
		for _, flaw := range slices.Repeat(nearest(flaws, about, c.name), 3) {
			if why := failure(t, c, newDatabase(flaw).quickHarness()); why != "" {
				t.Logf("finds %q: %.300s", flaw, why)
				return
			}
		}
		t.Errorf("case %q finds none of the flaws", c.name)
	})
}

// each runs a test for each element, several at once even on few processors: they
// mostly wait.
func each[T any](t *testing.T, all []T, name func(T) string, test func(t *testing.T, one T)) {
	t.Helper()
	turns := make(chan struct{}, 8)
	var tests sync.WaitGroup
	for _, one := range all {
		tests.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t.Run(name(one), func(t *testing.T) { test(t, one) })
		})
	}
	tests.Wait()
}

// about returns the topic of a flaw or a case, by its name.
func about(name string) string {
	name = name[:strings.IndexAny(name, ":/")]
	switch name {
	case "restart":
		return "read"
	case "store":
		return "concurrency"
	case "ring":
		return "doorbell"
	}
	return name
}

func (c testCase) about() string { return about(c.name) }

// nearest sorts the elements with the topic of name first.
func nearest[T any](all []T, of func(T) string, name string) []T {
	near, far := []T{}, []T{}
	for _, one := range all {
		if of(one) == about(name) {
			near = append(near, one)
		} else {
			far = append(far, one)
		}
	}
	return append(near, far...)
}
