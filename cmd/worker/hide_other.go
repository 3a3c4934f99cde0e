//go:build !linux

package main

// hideSecrets does nothing: only Linux shows a process's environment in files,
// and lets it be hidden.
func hideSecrets() {}
