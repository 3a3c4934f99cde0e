package torture

import "time"

// crash is the name of the fault that kills the leader after a time without others.
const crash = "leader: SIGKILL when all is well"

// checkTakeovers: when the leader's process is killed while all is well, another one leads once its next heartbeat is
// overdue, or at the latest a second after that.
func (c *check) checkTakeovers() {
	const interval, attempt = 3, 5 // of the TTL, by default
	limit := int64(c.TTL/interval + c.TTL/attempt + time.Second)
	for _, p := range c.order {
		if p.ended == nil || p.ended.Kind != Killed || p.role != Lead {
			continue
		}
		last, killed := p.terms[len(p.terms)-1], p.ended.At
		next := c.after(last)
		if next == nil || !c.isCrash(last, period{killed, next.gained.to}) {
			continue
		}
		c.summary.Crashes++
		late := next.gained.to - killed - limit
		for _, e := range c.Events {
			if e.Kind == Starved && killed <= e.At && e.At-e.For <= next.gained.to {
				late -= e.For
			}
		}
		if late > 0 {
			c.wrong(5, []Event{last.Event, *p.ended, next.Event}, "%s led %v after %s was killed, and could have within %v",
				next.process.worker, time.Duration(next.gained.to-killed), p.worker, time.Duration(limit))
		}
	}
}

// after is the term that followed another.
func (c *check) after(last *term) (next *term) {
	for _, t := range c.terms {
		if t.Token > last.Token && (next == nil || t.Token < next.Token) {
			next = t
		}
	}
	return next
}

// isCrash reports whether the end of a term, and the time until the next, lie in that fault and in no other; and whether
// the term began before.
func (c *check) isCrash(last *term, end period) bool {
	var within *injected
	for i, f := range c.injected {
		if f.name == crash && f.from <= end.from && end.from <= f.to {
			within = &c.injected[i]
		}
	}
	if within == nil || last.gained.to > within.from {
		return false
	}
	for _, f := range c.injected {
		if f.name != crash && f.from <= end.to && within.from <= f.to {
			return false
		}
	}
	return true
}

// injected is a fault, with the time that it lasted.
type injected struct {
	name string
	period
}

// recordInjected takes in when a fault begins and ends.
func (c *check) recordInjected(e Event) {
	if e.Kind == Inject {
		c.injected = append(c.injected, injected{e.Text, period{e.At, endless}})
		return
	}
	for i := range c.injected {
		if f := &c.injected[i]; f.name == e.Text && f.to == endless {
			f.to = e.At
			return
		}
	}
}
