//go:build unix

package torture

import "syscall"

// What stops and continues a process without its doing.
const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT
