package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a writer that takes one write for each send to pass, and fails while
// its error is set.
type gate struct {
	pass chan error

	mu   sync.Mutex
	text bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	if err := <-g.pass; err != nil {
		return len(p) / 2, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func lost(n int) []byte { return fmt.Appendf(nil, "lost %d\n", n) }

func TestSinkDropsAndCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &gate{pass: make(chan error)}
		s := newSink(to, 10, lost)
		for _, line := range []string{"a\n", "bcdefgh\n", "too long\n", "i\nj\n", "k\n"} {
			if n, err := s.Write([]byte(line)); n != len(line) || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			synctest.Wait()
		}
		for range 4 {
			select {
			case to.pass <- nil:
			case <-time.After(time.Second):
			}
		}
		if _, err := s.Write([]byte("l\n")); err != nil {
			t.Error(err)
		}
		to.pass <- nil
		if !s.Close(time.Second) {
			t.Error("not closed")
		}
		if got, want := to.String(), "a\nbcdefgh\nlost 4\nl\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Lines that the writer refuses are counted, and told of once it takes lines.
func TestSinkRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &gate{pass: make(chan error)}
		s := newSink(to, 100, lost)
		bad := errors.New("closed")
		for i, line := range []string{"abc\n", "def\n"} {
			_, _ = s.Write([]byte(line))
			to.pass <- bad
			synctest.Wait()
			if i == 0 && to.String() != "" {
				t.Errorf("got %q", to.String())
			}
		}
		_, _ = s.Write([]byte("ghi\n"))
		to.pass <- nil
		to.pass <- nil
		if !s.Close(time.Second) {
			t.Error("not closed")
		}
		// Half a line was written: what comes next begins a new one.
		if got, want := to.String(), "\nlost 2\nghi\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Close waits for a blocked writer no longer than it is told.
func TestSinkCloseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &gate{pass: make(chan error)}
		s := newSink(to, 100, lost)
		_, _ = s.Write([]byte("abc\n"))
		began := time.Now()
		if s.Close(time.Second) || time.Since(began) != time.Second {
			t.Errorf("after %v", time.Since(began))
		}
		_, _ = s.Write([]byte("late\n"))
		to.pass <- nil
		<-s.done
		if got := to.String(); strings.Contains(got, "late") {
			t.Errorf("got %q", got)
		}
	})
}
