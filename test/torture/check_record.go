package torture

// record makes processes, terms, runs and transactions of the events, and notes what cannot be.
func (c *check) record() {
	for _, p := range c.Policies {
		if _, twice := c.policies[p.Job]; twice {
			c.wrong(0, nil, "two policies for job %q", p.Job)
		}
		c.policies[p.Job] = p
	}
	var forget *Event
	for i := range c.Events {
		e := &c.Events[i]
		switch e.Kind {
		case Forget:
			if forget != nil {
				c.wrong(0, []Event{*forget, *e}, "a failover within another")
				continue
			}
			forget = e
		case Forgot:
			if forget == nil {
				c.wrong(0, []Event{*e}, "the end of a failover that did not begin")
				continue
			}
			c.windows = append(c.windows, period{forget.At, e.At})
			forget = nil
		case Rewound:
			c.rewinds = append(c.rewinds, period{e.At, e.At + int64(c.TTL)})
		case Pausing, Held, Resuming, Freed:
			c.recordHold(*e)
		case Stepped:
			c.steppings = append(c.steppings, period{e.At - 2*int64(c.TTL), e.At + 2*int64(c.TTL)})
		case Apart, Together:
			c.recordApart(*e)
		case Inject:
			c.summary.Faults++
			c.faults++
			c.recordInjected(*e)
		case Heal:
			c.faults--
			c.recordInjected(*e)
		default:
			c.recordOf(e)
		}
	}
	if forget != nil {
		c.windows = append(c.windows, period{forget.At, endless})
	}
	for _, p := range c.order {
		c.close(p)
	}
	for _, r := range c.runs {
		if !c.Spread { // there a run has a token of its own, which can be that of a term only by chance
			r.term = r.process.termOf(r.Token)
		}
		if r.term != nil {
			r.term.gained.to = min(r.term.gained.to, r.At)
		}
	}
	for _, t := range c.terms {
		// Roles are recorded as they come, but not at once: the lease may have been taken before Follow was written.
		t.gained.from = min(max(t.process.up.At, t.process.since(t.follow.At)), t.gained.to)
		t.forgotten = c.forgets(t.gained)
	}
}

// close looks at a process when all of its events are known.
func (c *check) close(p *replica) {
	if p.paused != nil {
		p.absences = append(p.absences, period{p.paused.At, endless})
	}
	p.absences = join(p.absences)
	if p.up == nil {
		return // it was killed before it was up
	}
	c.summary.Workers++
	if p.ended == nil {
		c.wrong(0, []Event{*p.up}, "%s ended by itself: it was not killed, and did not report a shutdown", p.worker)
	}
}

// recordOf takes in an event of a process.
func (c *check) recordOf(e *Event) {
	if e.Worker == "" {
		c.wrong(0, []Event{*e}, "an event without a worker")
		return
	}
	p := c.processes[e.Worker]
	if p == nil {
		p = &replica{worker: e.Worker, open: map[runKey]*run{}, early: map[uint64]bool{}}
		c.processes[e.Worker] = p
		c.order = append(c.order, p)
	}
	switch e.Kind {
	case Killed, Paused, Resumed:
		c.recordFault(p, e)
	case Trouble, Starved, Mute: // also before it is up, and until it is gone
		if p.ended != nil && p.ended.Kind == Killed {
			c.wrong(0, []Event{*p.ended, *e}, "%s went on after it was killed", p.worker)
		}
		if e.Kind == Starved {
			c.summary.Starved++
			p.absences = append(p.absences, period{e.At - e.For, e.At + slack})
		}
	case Early:
		p.early[e.Token] = true
		if e.Token != 0 {
			c.summary.Early++
		}
	case Up, Follow, Lead, Drain, Down:
		c.recordRole(p, e)
	case Run, Stop, End, Begin, Commit:
		c.recordRun(p, e)
	default:
		c.wrong(0, []Event{*e}, "an event of no known kind")
	}
}

// recordFault takes in what was done to a process.
func (c *check) recordFault(p *replica, e *Event) {
	switch {
	case e.Kind == Killed:
		c.summary.Killed++
		if p.ended != nil && p.ended.Kind == Killed {
			c.wrong(0, []Event{*p.ended, *e}, "%s was killed twice", p.worker)
			return
		}
		if p.ended == nil {
			p.ended = e
		}
		p.absences = append(p.absences, period{e.At, endless})
	case e.Kind == Paused && p.paused == nil:
		c.summary.Paused++
		p.paused = e
	case e.Kind == Resumed && p.paused != nil:
		p.absences = append(p.absences, period{p.paused.At, e.At + waking})
		p.paused = nil
	default:
		c.wrong(0, []Event{*e}, "%s was %s out of turn", p.worker, e.Kind)
	}
}

// isThere reports whether the process can have written the event, as far as it is up.
func (c *check) isThere(p *replica, e *Event) bool {
	switch {
	case p.ended != nil:
		c.wrong(0, []Event{*p.ended, *e}, "%s went on after its end", p.worker)
	case (p.up == nil) != (e.Kind == Up):
		c.wrong(0, []Event{*e}, "%s does not begin with its only Up", p.worker)
	default:
		return true
	}
	return false
}

// recordRole takes in what a process says of itself.
func (c *check) recordRole(p *replica, e *Event) {
	if !c.isThere(p, e) {
		return
	}
	before := p.role
	if e.Kind != Down {
		p.role = e.Kind
	}
	fits := true
	switch e.Kind {
	case Up:
		p.up, p.follow = e, *e
		fits = e.Owner != ""
	case Follow:
		p.follow = *e
		fits = before != Lead // Drain comes between
	case Lead:
		t := &term{Event: *e, process: p, follow: p.follow, gained: period{p.follow.At, e.At}, early: p.early[e.Token] || p.early[0]}
		delete(p.early, 0)
		p.terms = append(p.terms, t)
		c.terms = append(c.terms, t)
		if c.led[e.Token] == nil {
			c.led[e.Token] = t
		}
		fits = e.Token != 0 && (before == Up || before == Follow)
	case Drain:
		fits = before == Lead && e.Token == p.terms[len(p.terms)-1].Token
	case Down:
		p.ended = e
		fits = before != Lead && before != Drain
		for _, r := range p.runs {
			if r.end == nil {
				c.wrong(0, []Event{r.Event, *e}, "%s went down with a run that had not returned", p.worker)
			}
		}
	}
	if !fits {
		c.wrong(0, []Event{*e}, "%s says %s out of turn, after %q", p.worker, e.Kind, before)
	}
}

// recordRun takes in an event of a run.
func (c *check) recordRun(p *replica, e *Event) {
	if !c.isThere(p, e) {
		return
	}
	if _, known := c.policies[e.Job]; !known || e.Tick <= 0 || e.Attempt < 1 || e.Token == 0 {
		c.wrong(0, []Event{*e}, "no run of a job that there is")
		return
	}
	if e.Kind == Run {
		r := &run{Event: *e, process: p}
		p.runs, p.open[keyOf(*e)] = append(p.runs, r), r
		c.runs = append(c.runs, r)
		return
	}
	r := p.open[keyOf(*e)]
	if r == nil {
		c.wrong(0, []Event{*e}, "%s without a run", e.Kind)
		return
	}
	var x *transaction // the one under way
	if n := len(r.transactions); n > 0 && r.transactions[n-1].commit == nil {
		x = r.transactions[n-1]
	}
	fits := r.end == nil
	switch e.Kind {
	case Stop:
		c.summary.Stops++
		// It is written beside the function, and so perhaps after its End.
		fits = r.stop == nil
		r.stop = e
	case End:
		fits = fits && x == nil
		r.end = e
	case Begin:
		fits = fits && x == nil
		r.transactions = append(r.transactions, &transaction{run: r, begin: *e})
	case Commit:
		fits = fits && x != nil && c.countOutcome(e)
		if x != nil {
			x.commit = e
		}
	}
	if !fits {
		c.wrong(0, append(r.events(), *e), "%s of a run out of turn", e.Kind)
	}
}

// countOutcome reports whether the outcome of a transaction is one.
func (c *check) countOutcome(e *Event) bool {
	counts := map[string]*int{
		Stored: &c.summary.Stored, Refused: &c.summary.Refused, Broken: &c.summary.Broken,
		Unknown: &c.summary.Unknown, None: &c.summary.None,
	}
	n := counts[e.Outcome]
	if n == nil || (e.Outcome == Stored) != (e.Seq != 0) {
		return false
	}
	*n++
	return true
}
