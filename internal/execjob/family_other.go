//go:build unix && !linux

package execjob

import (
	"errors"
	"os"
	"syscall"
)

// adopt does nothing: only Linux lets a process adopt its descendants' orphans.
func adopt() error { return nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killedWithGuard is what a worker kills of a job when its guard was killed.
const killedWithGuard = "process group"

func guardAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killOrphans kills the group of a job whose guard was killed, if the guard lived
// long enough to tell which one it is.
func killOrphans(_, group int) {
	if group > 0 {
		_ = syscall.Kill(-group, syscall.SIGKILL) // ESRCH: already gone
	}
}

// over reports whether the job's first process has ended.
func (f *family) over(bool) bool {
	if !f.reaped {
		pid, err := syscall.Wait4(f.main, &f.status, syscall.WNOHANG, nil)
		f.reaped = pid == f.main || err != nil && !errors.Is(err, syscall.EINTR)
	}
	return f.reaped
}

// kill kills the group and waits for its first process.
func (f *family) kill(ended <-chan os.Signal) syscall.WaitStatus {
	_ = syscall.Kill(-f.main, syscall.SIGKILL)
	for !f.over(true) {
		<-ended
	}
	return f.status
}

func become(string, *syscall.SysProcAttr) error { return errLinux }

func limited(Limits, string, []string) (string, []string, error) { return "", nil, errLinux }
