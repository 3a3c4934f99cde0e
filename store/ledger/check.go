package ledger

import (
	"fmt"
	"math"

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
