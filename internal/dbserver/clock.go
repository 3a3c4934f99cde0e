package dbserver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ErrNoClock says that a server's clock cannot be stepped: libfaketime is not on this machine, or the server was started
// without it (see [Server.FakeClock]).
var ErrNoClock = errors.New("dbserver: no clock that can be stepped")

// FakeClock makes the server run with a clock of its own, which [Server.StepClock] sets. It has effect from the next
// Start on. Only what the program learns of the time of day is changed: its monotonic clock is the machine's. What it waits
// for until a time of day waits shorter or longer after a step, as on any machine: of GET_LOCK both kinds do, and of SLEEP
// and locks of rows neither. The error is ErrNoClock if libfaketime is not on this machine; scripts/install-databases installs it.
func (s *Server) FakeClock() error {
	library, err := findFaketime()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faketime = library
	return nil
}

// StepClock sets the server's clock to the machine's plus the offset, which may be negative; an offset of 0 sets it right.
// The next statement sees it. It stays over Stop and Kill, and may be called before the first Start. The error is
// ErrNoClock without FakeClock.
func (s *Server) StepClock(offset time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.faketime == "":
		return ErrNoClock
	}
	s.offset = offset
	if s.folder == "" {
		return nil
	}
	return s.writeClock()
}

func (s *Server) clockFile() string { return filepath.Join(s.folder, "clock") }

// writeClock replaces the file by another: the library ends the server when it finds it empty or half written.
func (s *Server) writeClock() error {
	draft := s.clockFile() + ".new"
	text := strconv.FormatFloat(s.offset.Seconds(), 'f', 6, 64)
	if s.offset >= 0 {
		text = "+" + text
	}
	err := os.WriteFile(draft, []byte(text+"\n"), 0o600)
	if err = cmp.Or(err, os.Rename(draft, s.clockFile())); err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	return nil
}

// clockEnv is what makes a program's clock the one of the file.
func (s *Server) clockEnv() []string {
	return []string{
		"LD_PRELOAD=" + s.faketime,
		"FAKETIME_TIMESTAMP_FILE=" + s.clockFile(),
		"FAKETIME_NO_CACHE=1",
		// Two names, of different releases.
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
		// With the fix, for a C library that is older than those of today, some of MySQL's waits never wait.
		"FAKETIME_FORCE_MONOTONIC_FIX=0",
	}
}

// findFaketime returns the library for programs with several threads.
func findFaketime() (string, error) {
	for _, pattern := range []string{
		"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("find libfaketime: %w", err)
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%w: libfaketime is not installed: run scripts/install-databases", ErrNoClock)
}
