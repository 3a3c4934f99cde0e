//go:build !linux

package cronlease_test

import "syscall"

func processAttributes() *syscall.SysProcAttr { return nil }

func lockThread() (unlock func()) { return func() {} }
