//go:build unix

package plainfile

import (
	"os"
	"syscall"
)

// nonblock has open return although a pipe has no writer. A terminal does not
// become the process's own.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY

// Exposed reports whether every user of this machine may read the file. It is false for
// a file that cannot be looked at.
func Exposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
