package election

import (
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
)

// Term is one replica's uninterrupted time as leader. It is a small value, safe
// to copy and for concurrent use.
type Term struct{ held *keeper.Held }

// Group is the group that is led.
func (t Term) Group() string { return t.held.Group() }

// Owner is the leader's name.
func (t Term) Owner() string { return t.held.Owner() }

// Token is the term's fencing token: greater than every earlier term's. Hand it
// to whatever the leader writes to, so that older ones can be refused.
func (t Term) Token() uint64 { return t.held.Token() }

// End ends the term: its context ends with the cause. Once the leading function
// has returned, the lease is released; if it has not a TTL later, the lease is
// left to expire. Only the first end of a term counts.
func (t Term) End(cause error) { t.held.End(cause) }

// Trusted reports whether the term still stands, by the clocks themselves. Ask
// it right before each action that must not happen after the term: in a process
// that was paused, the term's context can look alive for a moment longer.
func (t Term) Trusted() bool { return t.held.Trusted() }

// TrustLeft is how long the term will be trusted if no further heartbeat
// succeeds; zero when it is over.
func (t Term) TrustLeft() time.Duration { return t.held.TrustLeft() }
