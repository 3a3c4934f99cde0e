//go:build unix

package demo

import "syscall"

// ownGroup gives a process a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
