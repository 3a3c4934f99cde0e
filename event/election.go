package event

import "time"

// Following says that another replica leads, or that none does. It comes when that has
// changed.
type Following struct {
	Header
	// Leader and LeaderToken name the leader's term; empty and zero while there is none.
	Leader      string
	LeaderToken uint64
}

// Leading says that this replica has begun a term.
type Leading struct {
	Header
	// Early says that the lease was taken before the TTL of the term before was over,
	// because the connection of its leader was gone.
	Early bool
	// Before is the token of the term that this one follows, zero if it is the group's
	// first one.
	Before uint64
}

// Draining says that this replica gives its term up, and has not finished yet.
type Draining struct {
	Header
	Cause error
}

// TermEnded says that this replica's term is over. What ran in it may still be about to
// stop.
type TermEnded struct {
	Header
	// Cause matches one of the causes of package election, such as ErrLost.
	Cause error
	// Lost says that this replica did not end it by its own wish.
	Lost bool
	// Led is how long the term was.
	Led time.Duration
}

// Heartbeat is an attempt to renew the leases that this process holds.
type Heartbeat struct {
	Header
	// Leases is how many were to be renewed.
	Leases int
	// Late is how long after its time it was sent, and Took how long the answer took.
	Late, Took time.Duration
	// Err is nil when the database has answered.
	Err error
}
