//go:build unix

package plainfile

import "syscall"

// nonblock has open return although a pipe has no writer. A terminal does not
// become the process's own.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
