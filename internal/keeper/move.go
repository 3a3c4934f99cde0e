package keeper

import "time"

// move is what a candidate does after a reading of its group's rows.
type move int

const (
	stay    move = iota // look again once the rows may be taken
	refrain             // look again after a while: nothing may be taken
	settle              // adopt or release a term of this process that it does not keep
	prepare             // write the rows that are missing
	hasten              // acquire, if the lease may be taken early, or else stay
	acquire
)

// finding is what a reading means to a candidate: the move follows from it alone.
type finding struct {
	lease, fence bool          // the row is there
	takeable     time.Duration // for how long it may not be taken yet, zero or less is now
	leftOver     bool          // see [Candidate.isLeftOver]
	barred       bool          // by the gate
	suspected    bool          // the hand-over signal came, see [Candidate.Suspect]
	follows      bool          // it never takes a lease, see [Candidate.FollowOnly]
}

func (f finding) move() move {
	switch {
	case f.leftOver:
		return settle
	case f.follows && f.takeable > 0:
		return stay
	case f.barred, f.follows:
		return refrain
	case !f.lease && !f.fence && f.takeable > 0:
		// This replica knows the group, but the row is gone. Watch the group
		// as after a rewound row, before it starts afresh.
		return stay
	case !f.lease || !f.fence:
		return prepare
	case f.takeable <= 0:
		return acquire
	case f.suspected:
		return hasten
	default:
		return stay
	}
}

// releasableIn is for how long a term that was left over is not released yet, zero or less
// is now. If the row was rewound to it, a newer holder may still trust the lost row. And if
// it took the lease early, the holder that it replaced may: see [Held.Release].
func releasableIn(quarantined, standing time.Duration) time.Duration {
	if quarantined > 0 {
		return quarantined
	}
	return standing
}
