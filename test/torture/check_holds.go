package torture

import (
	"slices"
	"strings"
	"time"
)

// hold is a pause of a job, or of all when it has no name. Ticks in may can belong to it, those in must do: a pause is
// stamped by the database's clock, and ticks by that of the process that leads, to which it is translated when the two are
// more than a second apart.
type hold struct {
	job       string
	may, must period
}

// holdSlack is by how much the edges of a pause may be off.
const holdSlack = int64(1200 * time.Millisecond)

// recordHold records what was done to a job. A hold without an end lasts to the end of the round.
func (c *check) recordHold(e Event) {
	at := slices.IndexFunc(c.holds, func(h hold) bool { return h.job == e.Job && h.may.to == endless })
	if e.Kind == Pausing && at < 0 {
		c.summary.Holds++
		c.holds = append(c.holds, hold{e.Job, period{e.At - holdSlack, endless}, period{endless, endless}})
		return
	}
	if e.Kind == Pausing || at < 0 {
		c.wrong(0, []Event{e}, "%s of job %q out of turn", e.Kind, e.Job)
		return
	}
	switch h := &c.holds[at]; e.Kind {
	case Held:
		h.must.from = e.At + holdSlack
	case Resuming:
		h.must.to = e.At - holdSlack
	case Freed:
		h.may.to = e.At + holdSlack
	}
}

// mayBeHeld reports whether a tick can lie in a pause of its job.
func (c *check) mayBeHeld(k tickKey) bool {
	return slices.ContainsFunc(c.holds, func(h hold) bool { return h.has(k, h.may) })
}

// isHeld reports whether it does.
func (c *check) isHeld(k tickKey) bool {
	return slices.ContainsFunc(c.holds, func(h hold) bool { return h.has(k, h.must) })
}

func (h hold) has(k tickKey, in period) bool {
	at := k.tick * int64(time.Microsecond)
	return (h.job == "" || h.job == jobOf(k.job)) && in.from <= at && at <= in.to
}

// goneBack begins what a scheduler logs that pauses its group as restored, or would.
const goneBack = "the ledger has gone back"

// checkHolds: no tick of a pause is run, and none is called one that is not. No process
// takes the ledger for restored, unless a failover has forgotten writes before.
func (c *check) checkHolds() {
	for _, e := range c.Events {
		if e.Kind == Trouble && strings.HasPrefix(e.Text, goneBack) {
			c.unless(c.forgets(period{c.Events[0].At, e.At}), 6, []Event{e}, "%s took the ledger for restored", e.Worker)
		}
	}
	for _, k := range c.keys {
		t := c.ticks[k]
		if len(t.runs) > 0 && c.isHeld(k) {
			c.wrong(6, t.events(), "%v was run, and its job was paused", k)
		}
		for _, r := range t.rows {
			if isHeldBack(r) && !c.mayBeHeld(k) {
				c.wrong(6, nil, "%v was skipped as if its job had been paused", k)
			}
		}
	}
}

// isHeldBack reports whether the row says that its tick lay in a pause.
func isHeldBack(r Row) bool { return r.State == "skipped" && r.Text == "paused" }
