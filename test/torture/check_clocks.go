package torture

import (
	"slices"
	"time"
)

// apart is a time in which the clocks of a process and of the database disagreed; without a process, those of all.
type apart struct {
	worker string
	period
}

func (c *check) recordApart(e Event) {
	at := slices.IndexFunc(c.aparts, func(a apart) bool { return a.worker == e.Worker && a.to == endless })
	switch {
	case e.Kind == Apart && at < 0:
		c.aparts = append(c.aparts, apart{e.Worker, period{e.At, endless}})
	case e.Kind == Together && at >= 0:
		c.aparts[at].to = e.At
	default:
		c.wrong(0, []Event{e}, "clocks are %s out of turn", e.Kind)
	}
}

// checkClocks: no tick is run before its time, as far as the clock that judges it may be wrong; and a process whose clock
// disagrees with the database's runs none, once it has had the time to read that: a second, or as long as it trusts its
// lease.
func (c *check) checkClocks() {
	early := int64(c.MaxSkew + 10*time.Millisecond)
	for _, r := range c.runs {
		if before := r.Tick*int64(time.Microsecond) - r.At; before > early {
			c.wrong(6, []Event{r.Event}, "%s was run %v before its time", tickName(r.Job, r.Tick), time.Duration(before))
		}
		for _, a := range c.aparts {
			if c.Spread || a.worker != "" && a.worker != r.process.worker || r.At > a.to { // there the leader's clock judges
				continue
			}
			if r.At > r.process.by(a.from+int64(c.TTL+time.Second)) {
				c.wrong(6, []Event{r.Event}, "%s was run at a time when the clocks had disagreed since %s", tickName(r.Job, r.Tick), timeOfDay(a.from))
			}
		}
	}
	if len(c.Events) == 0 {
		return
	}
	for _, k := range c.keys {
		end := c.Events[len(c.Events)-1].At
		if before := k.tick*int64(time.Microsecond) - end; len(c.ticks[k].rows) > 0 && before > early {
			c.wrong(6, nil, "the ledger has %v, which is %v ahead of the end", k, time.Duration(before))
		}
	}
}
