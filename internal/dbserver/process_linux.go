package dbserver

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes the kernel kill the command's process when the thread that starts it ends.
func EndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
