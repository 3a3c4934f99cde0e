package subprocess

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the command's process when the thread that starts it ends.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
