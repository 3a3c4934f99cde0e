package jobs

import (
	"fmt"
	"time"
)

// Misfire says what becomes of ticks that were missed: no replica led, the database
// was away, or the leader was paused. What is not run is recorded as skipped, or
// counted by [Record].Missed of the tick that stands for it.
//
// Of several ticks of a job that are due at once, all but the latest are missed.
// The latest one counts as missed only under [MisfireSkip], and only when it is
// claimed more than 5 seconds after its instant: up to then it is on time.
type Misfire uint8

const (
	// MisfireOnce runs the latest missed tick, for the whole gap. The default.
	MisfireOnce Misfire = iota
	// MisfireSkip runs none of them.
	MisfireSkip
	// MisfireAll runs every tick, in order. A tick that cannot start yet waits,
	// whether it was missed or an earlier run is not over: at most
	// [CatchUp.Limit] wait at a time. [Overlap] then only says how many run at
	// once. Under [OverlapReplace] a newer tick replaces those that wait.
	MisfireAll
)

var misfireNames = []string{"once", "skip", "all"}

// String returns "once", "skip" or "all".
func (m Misfire) String() string { return policyName(misfireNames, m) }

// Each reports whether each missed tick gets a run of its own, as far as [CatchUp] lets it.
func (m Misfire) Each() bool { return m == MisfireAll }

// Misfires are all that there are, in the order of their values.
func Misfires() []Misfire { return policies[Misfire](misfireNames) }

// ParseMisfire is the reverse of String.
func ParseMisfire(name string) (Misfire, error) { return parsePolicy[Misfire](misfireNames, name) }

// CatchUp bounds what is caught up after a gap.
type CatchUp struct {
	// Limit is how many ticks of a job wait at a time under [MisfireAll]. Of a
	// longer gap the newest ticks are run; what is due while so many wait is
	// skipped. Zero: 1000; at most 10,000.
	Limit int
	// Deadline is how late a tick may start. Zero: any time. A tick whose
	// deadline has passed is skipped.
	Deadline time.Duration
}

// Recover says what becomes of a run that its holder did not finish: it died,
// or its term ended in the middle of it.
type Recover uint8

const (
	// RecoverSkip leaves it interrupted: at most once. The default.
	RecoverSkip Recover = iota
	// RecoverRerun runs the tick again, with the next attempt: at least once.
	// A tick that was interrupted five times is assumed to kill its workers, and
	// left, unless its [Retry] has more attempts.
	RecoverRerun
)

var recoverNames = []string{"skip", "rerun"}

// String returns "skip" or "rerun".
func (r Recover) String() string { return policyName(recoverNames, r) }

// Recovers are all that there are, in the order of their values.
func Recovers() []Recover { return policies[Recover](recoverNames) }

// ParseRecover is the reverse of String.
func ParseRecover(name string) (Recover, error) { return parsePolicy[Recover](recoverNames, name) }

// Overlap says what becomes of a tick that is due while an earlier run of the
// job is not over, or waits for its next attempt. Under [MisfireAll] it waits
// wherever another policy would skip it.
type Overlap uint8

const (
	// OverlapForbid skips the tick: no two runs of the job at once. The default.
	OverlapForbid Overlap = iota
	// OverlapQueue lets one tick wait; further ones are skipped.
	OverlapQueue
	// OverlapAllow runs it beside the others, up to [Job.Limit]; further ones
	// are skipped.
	OverlapAllow
	// OverlapReplace cancels the running one, with the cause [ErrReplacedByTick],
	// and runs the new one once that has stopped. A new one that waits for its planned start ([Job].Jitter), or for the
	// end of a pause, cancels nothing before that. One that needs a slot of its replica (scheduler.WithMaxRuns) takes its
	// turn among the runs of all jobs. Ticks that make up for one gap follow each other.
	OverlapReplace
)

var overlapNames = []string{"forbid", "queue", "allow", "replace"}

// String returns "forbid", "queue", "allow" or "replace".
func (o Overlap) String() string { return policyName(overlapNames, o) }

// Beside reports whether runs of a job go on side by side, as far as [Job].Limit lets them. Else there is one
// at a time.
func (o Overlap) Beside() bool { return o == OverlapAllow }

// Replaces reports whether the newest tick ends the runs of earlier ones.
func (o Overlap) Replaces() bool { return o == OverlapReplace }

// Overlaps are all that there are, in the order of their values.
func Overlaps() []Overlap { return policies[Overlap](overlapNames) }

// ParseOverlap is the reverse of String.
func ParseOverlap(name string) (Overlap, error) { return parsePolicy[Overlap](overlapNames, name) }

// Priority says which run starts first, of those that wait for a slot (scheduler.WithMaxRuns): of any job with a higher priority before
// any with a lower one, and of the same priority first come first served. A run that goes on is not stopped for another. So while
// runs of a high priority take all slots, those of a low one wait.
type Priority uint8

const (
	// PriorityNormal is the default.
	PriorityNormal Priority = iota
	// PriorityHigh goes before all others.
	PriorityHigh
	// PriorityLow comes after all others.
	PriorityLow
)

var priorityNames = []string{"normal", "high", "low"}

// String returns "normal", "high" or "low".
func (p Priority) String() string { return policyName(priorityNames, p) }

// Before reports whether p goes before o.
func (p Priority) Before(o Priority) bool {
	return p == PriorityHigh && o != PriorityHigh || o == PriorityLow && p != PriorityLow
}

// Priorities are all that there are, in the order of their values.
func Priorities() []Priority { return policies[Priority](priorityNames) }

// ParsePriority is the reverse of String.
func ParsePriority(name string) (Priority, error) { return parsePolicy[Priority](priorityNames, name) }

func policies[P ~uint8](names []string) (all []P) {
	for p := range names {
		all = append(all, P(p)) //nolint:gosec // there are a few
	}
	return all
}

func policyName[P ~uint8](names []string, p P) string {
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprint(uint8(p))
}

func parsePolicy[P ~uint8](names []string, name string) (P, error) {
	for p, n := range names {
		if n == name {
			return P(p), nil
		}
	}
	return 0, fmt.Errorf("%q: must be one of %q", name, names)
}
