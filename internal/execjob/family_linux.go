package execjob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of every orphan among its descendants.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
}

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// over reports whether the job has ended: its first process, and when all of
// them are waited for, every other one too.
//
// The first process is not reaped yet, so that its number, which is also the
// group's, cannot become another's.
func (f *family) over(all bool) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, f.main, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, f.main, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	}
	if err == nil && info.Signo == 0 {
		f.reapOthers()
		return false
	}
	return !all || f.reapOthers() == 0
}

// reapOthers frees the adopted that have ended and returns how many have not.
func (f *family) reapOthers() (alive int) {
	pids, err := children()
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		if pid == f.main {
			continue
		}
		if n, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); n == 0 && err == nil {
			alive++
		}
	}
	return alive
}

// kill kills the group and all other descendants, and returns when none is left.
//
// Apart from the group, only children of this process are killed: their numbers
// cannot become another's before they are reaped here. Grandchildren become
// children when their parents die, so that each round kills a generation.
func (f *family) kill(ended <-chan os.Signal) syscall.WaitStatus {
	_ = syscall.Kill(-f.main, syscall.SIGKILL)
	// SIGCHLD tells of each death. The timer is for a list of children that
	// missed one, which the kernel allows while children come and go.
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		pids, err := children()
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if f.reap() || f.reaped && err != nil {
			return f.status
		}
		select {
		case <-ended:
		case <-again.C:
		}
	}
}

// reap frees every child that has ended, and reports whether none is left.
func (f *family) reap() (none bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == f.main:
			f.reaped, f.status = true, status
		}
	}
}

// children returns the children of this process.
func children() ([]int, error) {
	// A thread may end while this is read: only the start counts.
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		return childrenByParent()
	}
	var pids []int
	for _, file := range files {
		list, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return nil, err
		}
		for field := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// childrenByParent is for kernels that do not list children.
func childrenByParent() ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	own := os.Getpid()
	var pids []int
	for _, p := range all {
		if p.parent == own {
			pids = append(pids, p.pid)
		}
	}
	return pids, nil
}
