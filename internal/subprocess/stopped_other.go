//go:build unix && !linux

package subprocess

func waitStopped(int) error { return nil }
