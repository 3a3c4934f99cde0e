//go:build !unix

package cronlease_test

import (
	"errors"
	"syscall"
)

// No process can be stopped here, and there is no clock that all processes share:
// the tests that need that are only built.
const sigStop, sigCont = syscall.Signal(-1), syscall.Signal(-1)

func monotonic() int64 { panic(errors.ErrUnsupported) }
