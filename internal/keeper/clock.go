package keeper

import (
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
)

// instant is one moment on this machine's two clocks. The monotonic one stops
// while the machine sleeps; the wall clock may be set at any time.
type instant struct {
	mono time.Time // compared by its monotonic reading only
	wall time.Time // without a monotonic reading
}

// instants are what read shows.
func instants(read func() clocks.Instant) func() instant {
	return func() instant {
		at := read()
		return instant{mono: at.Mono, wall: at.Wall}
	}
}

// atMost is the most that can have passed since earlier: what a holder counts
// with, so that a machine which slept does not wake up trusting. A wall clock
// that is set forward costs a term that way, which is safe.
func (i instant) atMost(earlier instant) time.Duration {
	return max(i.mono.Sub(earlier.mono), i.wall.Sub(earlier.wall))
}

// atLeast is the least that has passed since earlier: what a follower counts
// with before it calls a lease expired.
func (i instant) atLeast(earlier instant) time.Duration { return i.mono.Sub(earlier.mono) }
