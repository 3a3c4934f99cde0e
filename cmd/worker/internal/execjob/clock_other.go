//go:build unix && !linux

package execjob

import "time"

// clock is the wall clock, the one that every process has alike. If it is set
// back while the worker is paused, the guard of a job acts so much later.
func clock() time.Duration { return time.Duration(time.Now().UnixNano()) }
