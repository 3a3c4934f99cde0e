package cronlease_test

import (
	"runtime"
	"syscall"
)

// processAttributes make a worker die with the test that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// lockThread keeps the thread that the death of a worker hangs on.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
