//go:build unix

package execjob

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// GuardCommand is the program's hidden command that calls [Guard].
const GuardCommand = "guard"

// The guard's files, as the worker hands them over.
const (
	controlFile = 3
	statusFile  = 4
)

// Guard runs one job, as the worker orders it over the pipes that it started
// this process with, and returns when all of the job is dead.
func Guard() error {
	// The kernel kills the job when the thread that started it ends.
	runtime.LockOSThread()
	// Only the worker says when to stop. A service manager that sends SIGTERM to
	// every process must not make the guard leave its job alone. (They are caught
	// and not ignored, because the job would inherit that.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)

	keepFiles()
	control, status := os.NewFile(controlFile, "control"), os.NewFile(statusFile, "status")
	reader := bufio.NewReader(control)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the worker's order: %w (this command is only for workers)", err)
	}
	var what order
	if err := json.Unmarshal(line, &what); err != nil {
		return fmt.Errorf("read the worker's order: %w", err)
	}
	// A worker that does not read is dead: what it should hear does not matter.
	tell := json.NewEncoder(status).Encode

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	job, err := begin(what.Args)
	if err != nil {
		_ = tell(report{Problem: err.Error()})
		return nil
	}
	_ = tell(report{Group: job.main})

	stop, alone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(alone)
		if _, err := reader.ReadBytes('\n'); err == nil {
			close(stop)
			_, _ = reader.ReadBytes('\n') // until the worker closes it, or dies
		}
	}()
	end := watch(job, what.Grace, ended, stop, alone)
	_ = tell(end)
	return nil
}

// keepFiles keeps all files but standard input and outputs from the job: the
// pipes of the guard, and what the worker itself has inherited.
func keepFiles() {
	syscall.CloseOnExec(controlFile)
	syscall.CloseOnExec(statusFile)
	entries, _ := os.ReadDir("/dev/fd") // where there is none, the two remain
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// watch waits for the end of the job and kills what is left then: when it ended
// by itself, at once; when it was asked to stop, after grace; when the worker is
// gone, at once.
func watch(job *family, grace time.Duration, ended <-chan os.Signal, stop, alone <-chan struct{}) report {
	var end report
	var over <-chan time.Time
	for done := job.over(end.Stopped); !done; done = done || job.over(end.Stopped) {
		select {
		case <-ended:
		case <-stop:
			stop, end.Stopped = nil, true
			timer := time.NewTimer(grace)
			defer timer.Stop()
			over = timer.C
			// A member that is stopped gets SIGTERM when it goes on.
			_ = syscall.Kill(-job.main, syscall.SIGTERM)
			_ = syscall.Kill(-job.main, syscall.SIGCONT)
		case <-over:
			end.Killed, done = true, true
		case <-alone:
			done = true
		}
	}
	status := job.kill(ended)
	end.Ended, end.Code = true, status.ExitStatus()
	if status.Signaled() {
		end.Signal = status.Signal().String()
	}
	return end
}

// begin starts the program in a process group of its own.
func begin(args []string) (*family, error) {
	fail := func(err error) (*family, error) { return nil, fmt.Errorf("start %s: %w", args[0], err) }
	if err := adopt(); err != nil {
		return fail(err)
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fail(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fail(err)
	}
	defer null.Close()
	main, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   attributes(),
	})
	if err != nil {
		return fail(err)
	}
	return &family{main: main}, nil
}

// family is a job's processes.
type family struct {
	main   int // the first one, and the name of their group
	reaped bool
	status syscall.WaitStatus // of main, once reaped
}
