//go:build !linux

package pgserver

import "os/exec"

// unprivileged has nothing to do where tests are not run by root.
func unprivileged(*exec.Cmd) {}
