//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// A guard is a second process of this program that cleans up after the first, however that one ends. It creates the
// folder and tells its name. Then it reads a pipe until its end, which comes with the end of the first process; each line
// is the process group to kill at the end, or 0 for none. At last it removes the folder.

// guardArgument makes a process of this program the guard.
const guardArgument = "-guard"

// removeLimit is how long the guard tries: a process that is just being killed may still write into the folder.
const removeLimit = 10 * time.Second

// guard is the guard's side.
func guard(pipe io.Reader, out io.Writer) (err error) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	folder, err := os.MkdirTemp("", "cronlease-")
	if err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	defer func() { err = errors.Join(err, remove(folder)) }()
	if _, err := fmt.Fprintf(out, "%q\n", folder); err != nil {
		return fmt.Errorf("tell the folder: %w", err)
	}
	group := 0
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		if group, err = strconv.Atoi(lines.Text()); err != nil {
			return fmt.Errorf("read the process group: %w", err)
		}
	}
	if group > 0 {
		_ = syscall.Kill(-group, syscall.SIGKILL) // fails only if the group has just ended
	}
	return nil
}

func remove(folder string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(removeLimit); ; <-tick.C {
		err := os.RemoveAll(folder)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// watcher is the other side.
type watcher struct {
	folder string
	cmd    *exec.Cmd
	pipe   io.WriteCloser
}

// startGuard starts a guard, which creates the folder.
func startGuard() (*watcher, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	cmd := exec.Command(self, guardArgument)
	cmd.Stderr = os.Stderr
	// A group of its own, so that signals of the terminal do not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	w := &watcher{cmd: cmd, pipe: pipe}
	if _, err := fmt.Fscanf(out, "%q\n", &w.folder); err != nil {
		return nil, errors.Join(fmt.Errorf("hear of the guard: %w", err), w.close())
	}
	return w, nil
}

// setGroup names the process group to kill; 0 is none.
func (w *watcher) setGroup(group int) error {
	if _, err := fmt.Fprintln(w.pipe, group); err != nil {
		return fmt.Errorf("tell the guard: %w", err)
	}
	return nil
}

// close lets the guard do its work, and returns when it has.
func (w *watcher) close() error {
	if err := errors.Join(w.pipe.Close(), w.cmd.Wait()); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
