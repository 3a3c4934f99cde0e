package torture

import (
	"github.com/cronlease/cronlease/jobs"
)

// checkStarts: each attempt at a tick is started once, by a process that leads under its token, and by the ledger's
// leave.
func (c *check) checkStarts() {
	for _, k := range c.keys {
		t := c.ticks[k]
		last := map[int]*run{} // by attempt
		for _, r := range t.runs {
			if !c.Spread {
				c.checkLed(r)
			}
			if before := last[r.Attempt]; before != nil {
				// A claim that a failover has lost is made again, but by a later term only. A retry is found waiting
				// where its start was lost, also by the term that has run it.
				c.unless(before.forgotten && (before.Token < r.Token || r.Attempt > 1), 2, []Event{before.Event, r.Event}, "attempt %d of %v was started twice", r.Attempt, k)
			}
			last[r.Attempt] = r
			if len(t.rows) == 0 {
				c.unless(t.forgotten(), 2, []Event{r.Event}, "%v was started, and is not in the ledger", k)
			} else if started := t.rows[0].Attempt; r.Attempt > started {
				c.unless(t.forgotten(), 2, []Event{r.Event}, "attempt %d of %v was started, and the ledger knows of %d", r.Attempt, k, started)
			}
		}
	}
}

// checkLed: a run belongs to a term of its process, which began before it. Lead is written beside the work, so it may
// come a little later, or not at all when the process is killed meanwhile.
func (c *check) checkLed(r *run) {
	by := r.process.by(r.At)
	switch {
	case r.term == nil && by == endless, r.term != nil && r.term.At <= by:
	case r.term == nil:
		c.wrong(2, []Event{r.process.follow, r.Event}, "a run under token %d of %s, which never led under it", r.Token, r.process.worker)
	default:
		c.wrong(2, []Event{r.Event, r.term.Event}, "a run under token %d before %s led under it", r.Token, r.process.worker)
	}
}

// checkRows: one row for a tick, in a valid state. That its token was held by a process is checked by
// [check.checkOwners].
func (c *check) checkRows() {
	for _, k := range c.keys {
		t := c.ticks[k]
		if len(t.rows) > 1 {
			c.wrong(2, t.events(), "%v has %d rows in the ledger", k, len(t.rows))
		}
		for _, r := range t.rows {
			if _, known := c.policies[r.Job]; !known {
				c.wrong(0, nil, "the ledger has a row of job %q, which is not known", r.Job)
			}
			if _, err := jobs.ParseState(r.State); err != nil {
				c.wrong(0, nil, "the row of %v: %v", k, err)
			}
		}
	}
}
