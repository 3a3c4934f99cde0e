//go:build unix && !linux

package main

// endWithParent does nothing: only Linux can tie a process to its parent.
func endWithParent() {}
