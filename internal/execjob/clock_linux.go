package execjob

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock is the time since the machine started, with the time that it was
// suspended: the same for every process.
func clock() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // every kernel has this one
	}
	return time.Duration(now.Nano())
}
