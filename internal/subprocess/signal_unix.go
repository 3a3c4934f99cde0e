//go:build unix

package subprocess

import (
	"os"
	"syscall"
)

// Suspend stops the process with SIGSTOP: it does nothing until it is resumed, and is not asked.
func Suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a suspended process go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// Terminate asks the process to end.
func Terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
