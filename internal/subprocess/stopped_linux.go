package subprocess

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopLimit is how long threads may take to stop; it takes long on a busy machine only.
const stopLimit = time.Minute

// waitStopped returns when all threads of a process that was sent SIGSTOP stand still, or when the process has ended.
func waitStopped(pid int) error {
	for end := time.Now().Add(stopLimit); ; <-time.After(time.Millisecond) {
		moving, err := moves(pid)
		if !moving || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("stop process %d: it goes on after %v", pid, stopLimit)
		}
	}
}

// moves reports whether a thread of the process may go on.
func moves(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, fmt.Errorf("list the threads of a process: %w", err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return false, fmt.Errorf("read the state of a thread: %w", err)
		}
		// The state follows the name, which is in parentheses and may contain anything.
		state := string(stat)
		state = strings.TrimSpace(state[strings.LastIndexByte(state, ')')+1:])
		if !strings.ContainsAny(state[:1], "TtXZ") {
			return true, nil
		}
	}
	return false, nil
}
