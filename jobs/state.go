package jobs

import "fmt"

// State is the state of a run in the ledger.
type State uint8

// A run is claimed as Running, Waiting or Skipped. Waiting becomes Running;
// Running becomes Waiting again when it is to be retried, and otherwise one of
// the outcomes, which are final.
const (
	// Running: its holder is running it, or died doing so.
	Running State = iota + 1
	// Waiting: the leader may start it once its time has come.
	Waiting
	// Succeeded: it returned no error.
	Succeeded
	// Failed: it returned an error, and there is no attempt left.
	Failed
	// TimedOut: it reached its job's Timeout.
	TimedOut
	// Cancelled: its context ended for another reason, which the error names.
	Cancelled
	// Panicked: it panicked.
	Panicked
	// Skipped: it was not run, for the reason that the error names.
	Skipped
	// Interrupted: its holder did not finish it, and it is not run again.
	Interrupted
)

var stateNames = [...]string{
	Running: "running", Waiting: "waiting", Succeeded: "succeeded", Failed: "failed", TimedOut: "timed out",
	Cancelled: "cancelled", Panicked: "panicked", Skipped: "skipped", Interrupted: "interrupted",
}

// String returns the state's name, such as "timed out".
func (s State) String() string {
	if int(s) < len(stateNames) && s > 0 {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// ParseState returns the state of that name.
func ParseState(name string) (State, error) {
	for s, n := range stateNames {
		if n == name && n != "" {
			return State(s), nil
		}
	}
	return 0, fmt.Errorf("jobs: state %q: must be one of %q", name, stateNames[1:])
}

// Over reports whether the state is final.
func (s State) Over() bool { return s > Waiting }
