package main

import (
	"os"
	"runtime"
	"syscall"
)

// The kernel watches the thread that asks for it. Since init runs on the main thread, locking it here keeps main there,
// and the main thread never ends before the process.
func init() { runtime.LockOSThread() }

// endWithParent asks for SIGTERM when the parent process ends.
func endWithParent() {
	const setParentDeathSignal = 1 // PR_SET_PDEATHSIG
	parent := os.Getppid()
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setParentDeathSignal, uintptr(syscall.SIGTERM), 0)
	if errno == 0 && os.Getppid() != parent {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // it ended before the request
	}
}
