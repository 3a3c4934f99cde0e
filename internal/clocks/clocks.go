// Package clocks reads the two clocks of a machine.
package clocks

import "time"

// Instant is one moment as a machine shows it.
type Instant struct {
	// Mono is compared by its monotonic reading only. That clock stops while
	// the machine sleeps.
	Mono time.Time
	// Wall has no monotonic reading. That clock may be set by anybody.
	Wall time.Time
}

// Now reads the clocks of this machine.
func Now() Instant {
	t := time.Now()
	return Instant{Mono: t, Wall: t.Round(0)}
}
