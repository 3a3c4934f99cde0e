package pgserver

import (
	"os"
	"os/exec"
	"syscall"
)

// user1000 is the user that root seems to be to a server.
const user1000 = 1000

// unprivileged has the command of root seem to be another user's, whose files are those of root: PostgreSQL refuses to be
// root. It is a user namespace, so that the server finds its program and its data wherever root has them.
func unprivileged(cmd *exec.Cmd) {
	if os.Getuid() != 0 {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user1000, HostID: 0, Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: user1000, HostID: 0, Size: 1}}
}
