package lease

import (
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
)

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

// SkewOf returns the skew that a statement shows which told the database's clock
// and was sent and answered at these instants.
func SkewOf(database time.Time, sent, replied clocks.Instant) Skew {
	half := max(0, replied.Mono.Sub(sent.Mono)) / 2
	return Skew{Ahead: database.Add(half).Sub(replied.Wall), Bound: half + time.Microsecond}
}

// Gate has may asked after each reading of [Candidate.Look]. While it returns an
// error, the candidate takes nothing. It is set before the first Look.
func (c *Candidate) Gate(may func(Skew) error) { c.gate = may }

// Barred is what the gate said of the last reading; nil is that the lease may be
// taken.
func (c *Candidate) Barred() error { return c.barred }

// ask asks the gate.
func (c *Candidate) ask(sent, replied instant) {
	if c.gate != nil {
		c.barred = c.gate(SkewOf(c.watch.last.Now, clocks.Instant{Mono: sent.mono, Wall: sent.wall}, clocks.Instant{Mono: replied.mono, Wall: replied.wall}))
	}
}
