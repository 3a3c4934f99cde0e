// Package clocks reads the two clocks of the machine that a replica lives on. A
// simulation has machines of its own, which disagree about the time: its stores
// are Hosts. This is where the rest of the module finds out.
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

// Host is implemented by a store whose replica lives on another machine than
// this one. Clocks is safe for concurrent use.
type Host interface{ Clocks() Instant }

// Of returns what reads the clocks of the machine that the user of the store
// lives on: this one's, unless the store is a [Host].
func Of(store any) func() Instant {
	if host, ok := store.(Host); ok {
		return host.Clocks
	}
	return now
}

func now() Instant {
	t := time.Now()
	return Instant{Mono: t, Wall: t.Round(0)}
}
