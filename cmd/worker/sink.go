package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// sinkSize is how much of the log waits for a reader, in bytes: some thousand
	// lines.
	sinkSize = 1 << 20
	// flushFor is how long a worker that ends waits for a reader of its log.
	flushFor = time.Second
)

// sink writes lines to a writer that may block, such as a pipe that nothing
// reads. It never makes its callers wait: a goroutine writes, what it has not
// written yet is kept up to a limit, and lines beyond that are dropped and
// counted. As soon as the writer takes lines again, one line says how many were
// dropped. Lines that the writer refuses count as dropped too.
//
// A sink is safe for concurrent use. Each Write is of whole lines.
type sink struct {
	to    io.Writer
	limit int
	// lost is the line that says how many lines were dropped.
	lost func(lines int) []byte

	more chan struct{} // of capacity 1: there is something to do
	done chan struct{} // closed when all is written after Close

	mu      sync.Mutex
	lines   []byte // that wait
	spare   []byte // the other buffer, while the goroutine does not use it
	dropped int    // lines after those that wait
	closed  bool
}

// newSink returns a sink and starts its goroutine, which [sink.Close] ends.
func newSink(to io.Writer, limit int, lost func(lines int) []byte) *sink {
	s := &sink{to: to, limit: limit, lost: lost, more: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// Write takes the lines or drops them. It never fails and never waits for the
// writer. The sink keeps nothing of p.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	// Once a line was dropped, later ones are dropped as well until there is room
	// for many: so a gap in the log is one gap, with one line that tells of it.
	if s.dropped > 0 || len(s.lines)+len(p) > s.limit || s.closed {
		s.dropped += bytes.Count(p, []byte("\n"))
	} else {
		s.lines = append(s.lines, p...)
	}
	s.mu.Unlock()
	s.wake()
	return len(p), nil
}

func (s *sink) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Close writes what waits, for at most the given time, and reports whether all
// of it was written. What is written to the sink later is dropped. When the
// writer still blocks, the goroutine stays behind: nothing ends a write to a
// blocked pipe but its reader, or the end of the process.
func (s *sink) Close(within time.Duration) bool {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wake()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-s.done:
		return true
	case <-late.C:
		return false
	}
}

// take returns what waits, how many lines were dropped after it, and whether
// the sink is closed.
func (s *sink) take() (lines []byte, dropped int, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines, dropped, closed = s.lines, s.dropped, s.closed
	s.lines, s.spare, s.dropped = s.spare[:0], nil, 0
	return lines, dropped, closed
}

// giveBack hands in the buffer that take has returned, for lines to come.
func (s *sink) giveBack(buffer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = buffer
}

func (s *sink) run() {
	defer close(s.done)
	missing, torn := 0, false
	// tell says what is missing, as soon as the writer takes it.
	tell := func() bool {
		if missing == 0 {
			return true
		}
		line := s.lost(missing)
		if torn {
			line = append([]byte("\n"), line...)
		}
		n, err := s.to.Write(line)
		if err == nil {
			missing, torn = 0, false
		} else if n > 0 {
			torn = true
		}
		return err == nil
	}
	for range s.more {
		lines, dropped, closed := s.take()
		switch {
		case !tell():
			missing += bytes.Count(lines, []byte("\n"))
		case len(lines) > 0:
			if n, err := s.to.Write(lines); err != nil {
				missing += bytes.Count(lines[n:], []byte("\n"))
				torn = n > 0 && lines[n-1] != '\n'
			}
		}
		s.giveBack(lines)
		if missing += dropped; dropped > 0 {
			tell()
		}
		if closed {
			return
		}
	}
}
