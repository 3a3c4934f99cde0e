package jobs

import "strings"

// Previous is how an attempt ended.
type Previous struct {
	// State is Failed, TimedOut or Panicked for an attempt that is tried again, and
	// Cancelled or Interrupted for one that its term did not finish: zero when there
	// was none.
	State State
	// Error is why, at most 2000 bytes. It may be empty for an attempt that was
	// interrupted.
	Error string
}

// String is what the ledger keeps of it while the run waits for its next attempt.
func (p Previous) String() string {
	if p.State == 0 {
		return ""
	}
	return p.State.String() + ": " + p.Error
}

// ParsePrevious is the reverse of String. A text without a state is that of a failure,
// and none is that of an attempt which did not begin.
func ParsePrevious(text string) Previous {
	if text == "" {
		return Previous{State: Interrupted}
	}
	for s := Succeeded; int(s) < len(stateNames); s++ {
		if why, ok := strings.CutPrefix(text, s.String()+": "); ok {
			return Previous{s, why}
		}
	}
	return Previous{Failed, text}
}
