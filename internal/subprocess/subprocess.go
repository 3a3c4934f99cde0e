// Package subprocess starts processes that end with the one that started them, and stops and continues them: for tests, and
// for the servers that tests start.
package subprocess

import (
	"os/exec"
	"runtime"
)

// Go starts the command so that its process ends with this one, and returns when it has started. Then live runs in a
// goroutine of its own; it reads what the process prints, calls cmd.Wait and returns. Where the command cannot be
// started, live does not run.
//
// Only Linux can tie a process to its parent. Elsewhere it survives a parent that is killed.
func Go(cmd *exec.Cmd, live func()) error {
	endWithParent(cmd)
	started := make(chan error)
	go func() {
		// For Linux the parent is the thread that started the command: it has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			live()
		}
	}()
	return <-started
}
