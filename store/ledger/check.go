package ledger

import (
	"fmt"
	"math"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// checkTriggers reports keys whose numbers are too large for a table.
func (l Ledger) checkTriggers(k jobs.Key, then []store.Follower) error {
	for _, f := range then {
		if err := l.checkTriggers(f.Key, nil); err != nil {
			return err
		}
	}
	if k.Trigger > math.MaxInt64 {
		return fmt.Errorf("%s: job %q: trigger %d: at most %d", l.pkg, k.Job, k.Trigger, int64(math.MaxInt64))
	}
	return nil
}

// CanBe reports whether a ledger may have a run of that key.
func CanBe(k jobs.Key) bool { return ledgerrows.CheckKey("", k) == nil && k.Trigger <= math.MaxInt64 }

// NoRun is the error about a run that does not exist, or is over and was to be cancelled.
func NoRun(group string, k jobs.Key) error {
	return fmt.Errorf("%w: tick %s of job %q in group %q", jobs.ErrNoRun, k.Tick.UTC().Format(time.RFC3339Nano), k.Job, group)
}

// NoJob is the error about a job that does not exist.
func NoJob(group, job string) error {
	return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
}
