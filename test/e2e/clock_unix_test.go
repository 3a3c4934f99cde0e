//go:build unix

package e2e

import "golang.org/x/sys/unix"

// monotonic is the machine's clock that is never set, in nanoseconds: that of
// all its processes.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every system has it
	}
	return now.Nano()
}
