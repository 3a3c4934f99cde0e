package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The second process leads once the first has stopped, under a higher token.
func TestOneLeads(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leader.db")
	first := begin(t, file)
	var a, b uint64
	scan(t, first.next(t), "leading under token %d", &a)
	second := begin(t, file)
	first.stop()
	if line := first.next(t); !strings.HasPrefix(line, "stopped: ") {
		t.Errorf("got %q", line)
	}
	scan(t, second.next(t), "leading under token %d", &b)
	if b <= a {
		t.Errorf("token %d after %d", b, a)
	}
	second.stop()
	if line := second.next(t); !strings.HasPrefix(line, "stopped: ") {
		t.Errorf("got %q", line)
	}
	for _, p := range []process{first, second} {
		if err := <-p.done; err != nil {
			t.Error(err)
		}
	}
}

type process struct {
	lines *bufio.Scanner
	stop  context.CancelFunc
	done  chan error
}

func begin(t *testing.T, file string) process {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	p := process{bufio.NewScanner(r), cancel, make(chan error, 1)}
	go func() {
		err := run(ctx, file, w)
		_ = w.Close()
		p.done <- err
	}()
	t.Cleanup(func() { cancel(); _ = r.Close() })
	return p
}

func (p process) next(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatal("it ended:", p.lines.Err())
	}
	return p.lines.Text()
}

func scan(t *testing.T, line, format string, a any) {
	t.Helper()
	if _, err := fmt.Sscanf(line, format, a); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
}
