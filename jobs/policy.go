package jobs

import (
	"fmt"
	"time"
)

// Misfire says what becomes of ticks that were missed: nobody led, the database
// was away, or the leader was paused. What is not run is recorded as skipped.
type Misfire uint8

const (
	// MisfireOnce runs the latest missed tick, for the whole gap. The default.
	MisfireOnce Misfire = iota
	// MisfireSkip runs none of them.
	MisfireSkip
	// MisfireAll runs each of them, in order, up to [CatchUp.Limit]. A tick that
	// is due while some of them still wait for their first start waits in line
	// behind them, whatever [Overlap] says but [OverlapReplace].
	MisfireAll
)

var misfireNames = []string{"once", "skip", "all"}

// String returns "once", "skip" or "all".
func (m Misfire) String() string { return policyName(misfireNames, m) }

// ParseMisfire is the reverse of String.
func ParseMisfire(name string) (Misfire, error) { return parsePolicy[Misfire](misfireNames, name) }

// CatchUp bounds what is caught up after a gap.
type CatchUp struct {
	// Limit is how many missed ticks [MisfireAll] runs, the newest ones, and how
	// many ticks wait in line at a time: what is due beyond that is skipped.
	// Zero: 1000.
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
	// A tick that was interrupted [MaxInterrupted] times is left.
	RecoverRerun
)

// MaxInterrupted is how many attempts a tick gets under [RecoverRerun] before it
// is taken for what kills its workers, unless its [Retry] has more.
const MaxInterrupted = 5

var recoverNames = []string{"skip", "rerun"}

// String returns "skip" or "rerun".
func (r Recover) String() string { return policyName(recoverNames, r) }

// ParseRecover is the reverse of String.
func ParseRecover(name string) (Recover, error) { return parsePolicy[Recover](recoverNames, name) }

// Overlap says what becomes of a tick that is due while an earlier run of the
// job is not over, or waits for its next attempt.
type Overlap uint8

const (
	// OverlapForbid skips the tick. The default.
	OverlapForbid Overlap = iota
	// OverlapQueue lets one tick wait; further ones are skipped.
	OverlapQueue
	// OverlapAllow runs it beside the others, up to [Job.Limit].
	OverlapAllow
	// OverlapReplace cancels the running one, with the cause [ErrReplacedByTick],
	// and runs the new one once that has stopped.
	OverlapReplace
)

var overlapNames = []string{"forbid", "queue", "allow", "replace"}

// String returns "forbid", "queue", "allow" or "replace".
func (o Overlap) String() string { return policyName(overlapNames, o) }

// ParseOverlap is the reverse of String.
func ParseOverlap(name string) (Overlap, error) { return parsePolicy[Overlap](overlapNames, name) }

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
