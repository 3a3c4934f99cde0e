//go:build !unix

package torture

import "syscall"

// No process can be stopped here: the rounds that do it are only built.
const sigStop, sigCont = syscall.Signal(-1), syscall.Signal(-1)
