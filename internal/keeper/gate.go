package keeper

import (
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/lease"
)

// Gate has may asked after each reading of [Candidate.Look], and by
// [Candidate.Take]. While it returns an error, the candidate takes nothing. It is
// set before the first Look.
func (c *Candidate) Gate(may func(lease.Skew) error) { c.gate = may }

// OnRewind has f called after each reading that is the first to show an older row than there was before. It is set before the first Look.
func (c *Candidate) OnRewind(f func()) { c.onRewind = f }

// FollowOnly has the candidate take nothing. It is called before the first Look.
func (c *Candidate) FollowOnly() { c.follows = true }

// Barred is what the gate said of the last reading; nil is that the lease may be
// taken.
func (c *Candidate) Barred() error { return c.barred }

// ask asks the gate about what the database's clock showed.
func (c *Candidate) ask(database time.Time, sent, replied instant) {
	if c.gate != nil {
		c.barred = c.gate(SkewOf(database, clocks.Instant{Mono: sent.mono, Wall: sent.wall}, clocks.Instant{Mono: replied.mono, Wall: replied.wall}))
	}
}

// SkewOf returns the skew that a statement shows which told the database's clock
// and was sent and answered at these instants.
func SkewOf(database time.Time, sent, replied clocks.Instant) lease.Skew {
	half := max(0, replied.Mono.Sub(sent.Mono)) / 2
	return lease.Skew{Ahead: database.Add(half).Sub(replied.Wall), Bound: half + time.Microsecond}
}
