//go:build !unix

package main

import (
	"errors"
	"syscall"
)

func makeFifo(string) error { return errors.ErrUnsupported }

// No process can be stopped here, and the tests that do it cannot run: they are
// only built.
const sigStop, sigCont = syscall.Signal(-1), syscall.Signal(-1)
