package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endWithParent makes the kernel kill the process when the thread that starts
// it ends, also when it is stopped.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// lockThread keeps the thread that the death of a process hangs on.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
