//go:build unix

package main

import "syscall"

func makeFifo(path string) error { return syscall.Mkfifo(path, 0o600) }

// What stops and continues a process without its doing.
const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT
