package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

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

// failure runs a case on a database with a flaw and returns how it failed.
func failure[E any](t *testing.T, s suite[E], c testCase[E], h Harness) string {
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
