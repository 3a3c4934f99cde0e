//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// The command may begin only when the guard knows its process group: else, if this process were killed in between, nothing
// would end the command. So it starts as a process of this program that waits at a gate, a pipe, and becomes the command
// when a byte arrives. Without that byte the pipe's end ends it.

// gateArgument makes a process of this program wait and become the command that follows.
const gateArgument = "-gate"

// gateFile is the pipe's number in that process.
const gateFile = 3

// gate is the side of the command: its program, then the arguments. It returns only if there is no command to become.
func gate(args []string) error {
	pipe := os.NewFile(gateFile, "gate")
	n, _ := pipe.Read(make([]byte, 1)) // an error is the end, too
	pipe.Close()
	if n == 0 {
		return errors.New("ended before the command began")
	}
	return fmt.Errorf("start %s: %w", args[0], syscall.Exec(args[0], args[1:], os.Environ()))
}

// startGated starts the command in a process group of its own, which the guard knows.
func startGated(args, env []string, watch *watcher) (*exec.Cmd, error) {
	program, err := exec.LookPath(args[0])
	if err != nil {
		return nil, fmt.Errorf("start the command: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the command: %w", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the command: %w", err)
	}
	defer writer.Close()
	cmd := exec.Command(self, append([]string{gateArgument, program}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{reader}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	reader.Close()
	if err != nil {
		return nil, fmt.Errorf("start the command: %w", err)
	}
	if err = watch.setGroup(cmd.Process.Pid); err == nil {
		_, err = writer.Write([]byte{1})
	}
	if err != nil {
		writer.Close()
		return nil, errors.Join(fmt.Errorf("start the command: %w", err), cmd.Wait())
	}
	return cmd, nil
}
