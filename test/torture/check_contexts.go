package torture

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/internal/keeper"
)

// moment is something that the order of terms and runs is judged by.
type moment struct {
	at    int64
	order int // at one instant: ends come first, to give the benefit of the doubt
	term  *term
	run   *run
	over  bool
}

// checkContexts: when a process begins to lead, the runs of all older terms of others have ended, or their contexts
// have; and from then on no run of theirs is started. When it has taken the lease early, this holds for each job from when
// it starts a run of that. A process that was killed cannot say so; one that was paused or starved is given the time to
// notice.
func (c *check) checkContexts() {
	var moments []moment
	for _, t := range c.terms {
		moments = append(moments, moment{t.gained.to, 1, t, nil, false})
	}
	for _, r := range c.runs {
		moments = append(moments, moment{r.At, 2, nil, r, false})
		if at := r.over(); at != endless {
			moments = append(moments, moment{at, 0, nil, r, true})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var open []*run
	var newest *term              // that was not taken early
	started := map[string]*term{} // the newest that was, and has started a run of the job
	for _, m := range moments {
		switch {
		case m.term != nil:
			if m.term.early {
				continue
			}
			if newest == nil || m.term.Token > newest.Token {
				newest = m.term
			}
			open = slices.DeleteFunc(open, func(r *run) bool { return c.isOutlived(r, m.term, m.term.gained.to) })
		case m.over:
			open = slices.DeleteFunc(open, func(r *run) bool { return r == m.run })
		default:
			if m.run.term != nil && m.run.term.early {
				open = slices.DeleteFunc(open, func(r *run) bool { return r.Job == m.run.Job && c.isOutlived(r, m.run.term, m.at) })
			}
			open = append(open, m.run)
			if newest != nil && m.run.Token < newest.Token {
				c.checkLate(m.run, newest)
			} else if later := started[m.run.Job]; later != nil && m.run.Token < later.Token {
				c.checkLate(m.run, later)
			}
			if m.run.term != nil && m.run.term.early {
				if later := started[m.run.Job]; later == nil || m.run.Token > later.Token {
					started[m.run.Job] = m.run.term
				}
			}
		}
	}
	c.countTight()
}

// isOutlived judges a run whose context has not ended when a term begins, or a run of its job under an early one, and
// reports whether that was all there is to say of it.
func (c *check) isOutlived(r *run, t *term, at int64) bool {
	if r.process == t.process || r.Token >= t.Token {
		return false
	}
	if end := r.process.ended; end != nil && end.Kind == Killed && end.At <= at {
		return true
	}
	events := append(r.events(), t.Event)
	until, excused := c.excuse(r, t, at)
	switch {
	case !excused:
		c.wrong(4, events, "the context of %s, a run of %s under token %d, had not ended when %s led under %d",
			tickName(r.Job, r.Tick), r.process.worker, r.Token, t.process.worker, t.Token)
	case r.over() > until && until < c.Events[len(c.Events)-1].At:
		c.wrong(4, events, "the context of %s, a run of %s under token %d, had not ended at %s, when %s had had the time to notice that %s led under %d",
			tickName(r.Job, r.Tick), r.process.worker, r.Token, timeOfDay(until), r.process.worker, t.process.worker, t.Token)
	default:
		c.summary.Excused++
	}
	return true
}

// checkLate judges a run that was started when a later term had begun.
func (c *check) checkLate(r *run, newest *term) {
	if _, excused := c.excuse(r, newest, r.At); excused {
		c.summary.LateActs++
		return
	}
	c.wrong(4, []Event{newest.Event, r.Event}, "%s started %s under token %d when %s led under %d",
		r.process.worker, tickName(r.Job, r.Tick), r.Token, newest.process.worker, newest.Token)
}

// excuse reports whether the run's process could not know at that instant that another term has begun, and until when.
func (c *check) excuse(r *run, t *term, at int64) (until int64, is bool) {
	if until, is := r.process.absent(at); is {
		return until, true
	}
	// A follower that reads the lease once in a TTL, as it should, finds the heartbeat of its last reading again when the
	// row was put back to it in between. The holder finds out with its next heartbeat.
	if s, is := touching(c.rewinds, period{t.gained.to, t.gained.to}); is && at <= s.to {
		return s.to, true
	}
	// A failover that has lost the older term can bring back that the lease was given back before it, and a process that
	// was not there before cannot know better. The older one goes on for as long as it trusts its lease.
	if r.term == nil || !r.term.forgotten {
		return 0, false
	}
	window, _ := touching(c.windows, r.term.gained)
	if window.to == endless {
		return endless, true
	}
	until = window.to + int64(c.TTL)
	return until, t.process.up.At >= window.from && at <= until
}

// countTight counts the runs that were given less than the grace: it may be that their Stop was recorded late.
func (c *check) countTight() {
	terms := slices.Clone(c.terms)
	slices.SortStableFunc(terms, func(a, b *term) int { return cmp.Compare(a.gained.to, b.gained.to) })
	for _, r := range c.runs {
		if r.stop == nil {
			continue
		}
		at, _ := slices.BinarySearchFunc(terms, r.stop.At, func(t *term, at int64) int { return cmp.Compare(t.gained.to, at) })
		for _, t := range terms[at:] {
			if t.process != r.process && t.Token > r.Token {
				if t.gained.to-r.stop.At < int64(c.Grace) && (r.end == nil || r.end.At > t.gained.to) {
					c.summary.Tight++
				}
				break
			}
		}
	}
}

// checkCutShort: no guard ends a run of a term that goes on. A process that was paused or starved before that may have
// told it too late.
func (c *check) checkCutShort() {
	for _, r := range c.runs {
		if r.end == nil || !strings.Contains(r.end.Text, keeper.ErrCutShort.Error()) {
			continue
		}
		if _, is := touching(r.process.absences, period{r.end.At - int64(c.TTL), r.end.At}); is {
			c.summary.Excused++
			continue
		}
		c.wrong(7, r.events(), "%s, a run of %s under token %d, was ended by its guard in a term that went on",
			tickName(r.Job, r.Tick), r.process.worker, r.Token)
	}
}

// checkCauses: a context, and a term, ends for a reason that is said.
func (c *check) checkCauses() {
	for _, e := range c.Events {
		if e.Kind != Stop && e.Kind != Drain {
			continue
		}
		if !slices.ContainsFunc([]string{"lease:", "election:", "jobs:", "scheduler: the clocks disagree"}, func(by string) bool { return strings.Contains(e.Text, by) }) {
			c.wrong(4, []Event{e}, "%s does not say why", e.Kind)
		}
	}
}
