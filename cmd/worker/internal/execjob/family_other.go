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
