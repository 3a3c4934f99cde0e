//go:build unix

package subprocess

import (
	"os"
	"syscall"
)

// Suspend stops the process with SIGSTOP: it does nothing until it is resumed, and is not asked. On Linux, where a signal
// stops a process only when one of its threads gets a processor, it returns once all of them stand still.
func Suspend(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(p.Pid)
}

// Resume lets a suspended process go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// Terminate asks the process to end.
func Terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
