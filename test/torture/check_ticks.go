package torture

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// checkTicks: no tick is lost, and each has the effects that its job's policies say.
func (c *check) checkTicks() {
	quiet := c.isQuiet()
	if quiet {
		c.summary.Quiet = 1
	}
	for _, p := range c.Policies {
		if p.All {
			c.checkAll(p)
		}
	}
	for _, k := range c.keys {
		t := c.ticks[k]
		if len(t.rows) == 0 {
			if len(t.effects) > 0 {
				c.unless(t.forgotten(), 2, t.events(), "%v has an effect, and is not in the ledger", k)
			}
			c.checkMost(k, t)
			continue
		}
		row := t.rows[0]
		if quiet && isOpen(row) && (row.State == jobs.Running.String() || row.Tick <= c.To) {
			c.wrong(6, t.events(), "%v was left %s, attempt %d under token %d", k, row.State, row.Attempt, row.Token)
		}
		c.checkMost(k, t)
		c.checkLeast(k, t, row, quiet)
	}
}

// isQuiet reports whether nothing kept the last leader from closing all that it had begun, and all that it had found
// open: no fault was going on, its process went down as it was asked to, and could write to the ledger from the end of
// its term on. A lease that was taken early leaves the runs of the term before alone until that one would have been up.
func (c *check) isQuiet() bool {
	if c.faults != 0 || len(c.terms) == 0 {
		return false
	}
	last := slices.MaxFunc(c.terms, func(a, b *term) int { return cmp.Compare(a.Token, b.Token) })
	if ended := last.process.ended; ended == nil || ended.Kind != Down {
		return false
	}
	over := c.Spread // where all of them write
	for _, e := range c.Events {
		if e.Worker != last.process.worker && !c.Spread || e.At < last.At {
			continue
		}
		ends := e.Kind == Drain && e.Worker == last.process.worker
		if ends && last.early && e.At-last.At < int64(c.TTL+c.Grace) {
			return false
		}
		over = over || e.Kind == Drain
		if over && e.Kind == Trouble && (strings.Contains(e.Text, "outcomes could not be written") || strings.HasPrefix(e.Text, databaseTrouble)) {
			return false
		}
	}
	return true
}

// isOpen reports whether something is still to be done about the row.
func isOpen(r Row) bool {
	state, err := jobs.ParseState(r.State)
	return err == nil && !state.Over()
}

// checkAll: each tick is in the ledger, and none was skipped, but for those of a pause.
func (c *check) checkAll(p Policy) {
	every := p.Every.Microseconds()
	if every <= 0 {
		c.wrong(0, nil, "job %s has no ticks: every %v", p.Job, p.Every)
		return
	}
	first := (c.From + every - 1) / every * every
	for at := first; at <= c.To; at += every {
		k := tickKey{p.Job, at}
		if c.mayBeHeld(k) {
			continue // it has a row, or is counted by a later one
		}
		c.summary.Ticks++
		if t := c.ticks[k]; t == nil || len(t.rows) == 0 {
			var events []Event
			if t != nil {
				events = t.events()
			}
			// Also where a failover has forgotten its claim: then it is claimed again.
			c.wrong(6, events, "%v is not in the ledger", k)
		}
	}
	for _, k := range c.keys {
		if k.job != p.Job {
			continue
		}
		for _, r := range c.ticks[k].rows {
			if r.State == jobs.Skipped.String() && !isHeldBack(r) {
				c.wrong(6, nil, "%v was skipped: %s", k, r.Text)
			}
			if r.Tick%every != 0 {
				c.wrong(2, nil, "the ledger has %v, which is no tick of a job of each %v", k, time.Duration(every)*time.Microsecond)
			}
		}
	}
}

// checkMost: no tick has two effects.
func (c *check) checkMost(k tickKey, t *tick) {
	if len(t.effects) > 1 {
		c.unless(t.forgotten(), 2, t.events(), "%v has %d effects", k, len(t.effects))
	}
}

// checkLeast: a run that succeeded has its effect, and so has each tick that is run until it has.
func (c *check) checkLeast(k tickKey, t *tick, row Row, quiet bool) {
	p := c.policies[k.job]
	if !p.Effects || len(t.effects) > 0 || c.forgetsEffect(t) {
		return
	}
	switch {
	case row.State == jobs.Succeeded.String():
		c.wrong(3, t.events(), "%v succeeded, and has no effect", k)
	case !p.Rerun || k.tick < c.From || k.tick > c.To || isGivenUp(row) || isHeldBack(row):
	case quiet || !isOpen(row):
		c.wrong(6, t.events(), "%v is %s after attempt %d (%s), and has no effect", k, row.State, row.Attempt, row.Text)
	}
}

// maxInterrupted is what [jobs.RecoverRerun] says.
const maxInterrupted = 5

// isGivenUp reports whether the row says that the tick was interrupted as often as one is run again.
func isGivenUp(r Row) bool {
	if r.Attempt < maxInterrupted {
		return false
	}
	return r.State == jobs.Interrupted.String() && strings.Contains(r.Text, "interrupted too often") || r.State == jobs.Cancelled.String()
}
