package lease

import "time"

// Skew is the database's clock beside this machine's, as one statement showed
// them.
type Skew struct {
	// Ahead is how far the database's clock was ahead of this machine's wall
	// clock; below zero, it was behind.
	Ahead time.Duration
	// Bound is by how much Ahead may be wrong at most: half of the statement's
	// round trip, and a microsecond, which the database's clock does not divide.
	Bound time.Duration
}
