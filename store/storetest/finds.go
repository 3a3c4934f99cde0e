package storetest

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Finds runs the cases of all suites on a store with a flaw, until one fails, and returns its name and what it says.
// Empty: none has failed. Cases whose name begins with one of about come first. A store calls it without each of its
// conditions in turn, to show that the suites miss none.
func Finds(t testing.TB, open func(t testing.TB) Harness, about ...string) string {
	t.Helper()
	type named struct {
		name string
		run  func(t testing.TB, h Harness) string
	}
	var all []named
	for _, c := range slices.Concat(rowSuite.cases, ruleSuite.cases) {
		all = append(all, named{c.name, func(t testing.TB, h Harness) string { return failure(t, rowSuite, c, h) }})
	}
	for _, c := range leaseSuite.cases {
		all = append(all, named{c.name, func(t testing.TB, h Harness) string { return failure(t, leaseSuite, c, h) }})
	}
	for _, c := range lockSuite.cases {
		all = append(all, named{c.name, func(t testing.TB, h Harness) string { return failure(t, lockSuite, c, h) }})
	}
	far := func(n named) int {
		i := slices.IndexFunc(about, func(prefix string) bool { return strings.HasPrefix(n.name, prefix) })
		if i < 0 {
			return len(about)
		}
		return i
	}
	slices.SortStableFunc(all, func(a, b named) int { return cmp.Compare(far(a), far(b)) })
	// Several at once: they mostly wait.
	var running sync.WaitGroup
	var found atomic.Pointer[string]
	turns := make(chan struct{}, 6)
	for _, one := range all {
		turns <- struct{}{}
		if found.Load() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-turns }()
			h := open(t)
			h.quick = 5
			if why := one.run(t, h); why != "" {
				why = one.name + ": " + why
				found.CompareAndSwap(nil, &why)
			}
		})
	}
	running.Wait()
	if why := found.Load(); why != nil {
		return *why
	}
	return ""
}

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
func (r *recorder) Fail()               { r.Errorf("it fails") }
func (r *recorder) FailNow()            { r.Fatalf("it fails") }
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

// failure runs a case on a database with a flaw and returns how it failed.
func failure[E any](t testing.TB, s suite[E], c testCase[E], h Harness) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.runCase(r, h, c)
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.why()
}
