//go:build !linux

package dbserver

import "os/exec"

// EndWithParent does nothing: only Linux can tie a process to its parent. Here it survives a killed parent.
func EndWithParent(*exec.Cmd) {}
