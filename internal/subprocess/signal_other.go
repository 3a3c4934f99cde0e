//go:build !unix

package subprocess

import (
	"errors"
	"os"
)

// Suspend fails: no process can be suspended here.
func Suspend(*os.Process) error { return errors.ErrUnsupported }

// Resume has nothing to do, since no process is suspended.
func Resume(*os.Process) error { return nil }

// Terminate ends the process at once: it cannot be asked here.
func Terminate(p *os.Process) error { return p.Kill() }
