//go:build unix && !linux

package execjob

import "time"

// clock is the wall clock, which is the same for every process. If it is set
// back while the worker is paused, the guard of a job acts so much later.
func clock() time.Duration { return time.Duration(time.Now().UnixNano()) }
