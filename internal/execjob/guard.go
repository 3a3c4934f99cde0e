//go:build unix

package execjob

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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
	orders := json.NewDecoder(control)
	var what order
	if err := orders.Decode(&what); err != nil {
		return fmt.Errorf("read the worker's order: %w (this command is only for workers)", err)
	}
	// A worker that does not read is dead: its reports do not matter.
	tell := json.NewEncoder(status).Encode

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	if what.Until != 0 && clock() >= what.Until { // before anything of the job has begun
		_ = tell(report{Ended: true, Code: -1, Stopped: true, Untrusted: true})
		return nil
	}
	job, err := begin(what)
	if err != nil {
		_ = tell(report{Problem: err.Error()})
		return nil //nolint:nilerr // the worker is told
	}
	_ = tell(report{Group: job.main})

	news := make(chan order)
	go func() {
		defer close(news) // the worker has closed it, or is dead
		for {
			var o order
			if orders.Decode(&o) != nil {
				return
			}
			news <- o
		}
	}()
	end := watch(job, what, ended, news)
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

// lookEvery is how often the guard compares the clock with the end of the trust:
// timers stand still while a machine is suspended.
const lookEvery = 250 * time.Millisecond

// watch waits for the end of the job and kills what is left then: when it ended
// by itself, at once; when it was asked to stop, after grace; when the worker is
// gone, at once. The end of news is that of the worker.
//
// When the trust ends without news, it listens for a fiftieth of grace more before it
// stops the job, which then has that much less of it: a heartbeat that is answered in
// time takes a moment to be heard of.
func watch(job *family, what order, ended <-chan os.Signal, news <-chan order) report {
	var end report
	var over <-chan time.Time
	stop := func(within time.Duration) {
		if end.Stopped {
			return
		}
		end.Stopped = true
		over = time.After(within)
		// A member that is stopped gets SIGTERM when it goes on.
		_ = syscall.Kill(-job.main, syscall.SIGTERM)
		_ = syscall.Kill(-job.main, syscall.SIGCONT)
	}
	until, more := what.Until, what.Grace/50
	check := time.NewTimer(0)
	defer check.Stop()
	for done := job.over(end.Stopped); !done; done = done || job.over(end.Stopped) {
		switch left := until + more - clock(); {
		case until == 0 || end.Stopped:
		case left <= 0:
			end.Untrusted = true
			stop(what.Grace - more)
			continue
		default:
			check.Reset(min(left, lookEvery))
		}
		select {
		case <-ended:
		case <-check.C:
		case <-over:
			end.Killed, done = true, true
		case o, ok := <-news:
			switch {
			case !ok:
				done = true
			case o.Stop:
				stop(what.Grace)
			default:
				until = o.Until
				if end.Untrusted && end.Spare == 0 {
					end.Spare = o.Spare
				}
			}
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
func begin(what order) (*family, error) {
	fail := func(err error) (*family, error) { return nil, fmt.Errorf("start %s: %w", what.Args[0], err) }
	if err := adopt(); err != nil {
		return fail(err)
	}
	sys := attributes()
	if what.User != "" {
		if err := become(what.User, sys); err != nil {
			return fail(fmt.Errorf("user %s: %w", what.User, err))
		}
	}
	for _, variable := range what.Env {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return fail(fmt.Errorf("set variable %s: %w", name, err))
		}
	}
	program := what.Args[0]
	if what.Dir != "" {
		if info, err := os.Stat(what.Dir); err != nil {
			return fail(fmt.Errorf("dir: %w", err))
		} else if !info.IsDir() {
			return fail(fmt.Errorf("dir: %s is no folder", what.Dir))
		}
		if strings.Contains(program, "/") && !filepath.IsAbs(program) {
			program = filepath.Join(what.Dir, program)
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return fail(err)
	}
	args := what.Args
	if what.Limits != (Limits{}) {
		if path, args, err = limited(what.Limits, path, args); err != nil {
			return fail(err)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fail(err)
	}
	defer null.Close()
	if what.Umask != nil {
		syscall.Umask(*what.Umask) // this process makes no files
	}
	main, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Dir:   what.Dir,
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   sys,
	})
	switch {
	case err != nil && (what.Dir != "" || what.User != ""):
		// The kernel does not tell whether the folder or the program is meant.
		return fail(fmt.Errorf("as user %s in dir %s: %w", orOwn(what.User), orOwn(what.Dir), err))
	case err != nil:
		return fail(err)
	}
	return &family{main: main}, nil
}

func orOwn(setting string) string {
	if setting == "" {
		return "(the worker's)"
	}
	return setting
}

// family is a job's processes.
type family struct {
	main   int // the first one, and the name of their group
	reaped bool
	status syscall.WaitStatus // of main, once reaped
}
