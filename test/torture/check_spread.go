package torture

import (
	"cmp"
	"slices"
)

// checkAlone is, where runs are spread, what checkContexts is where the leader runs all: an attempt at a tick begins only when the context
// of the one before has ended, and a run of a job whose runs never overlap only when that of any other has. A process that was
// killed cannot say so; one that was paused or starved is given the time to notice.
func (c *check) checkAlone() {
	byJob := map[string][]*run{} // those whose contexts have not ended
	runs := slices.Clone(c.runs)
	slices.SortStableFunc(runs, func(a, b *run) int { return cmp.Compare(a.At, b.At) })
	for _, r := range runs {
		open := slices.DeleteFunc(byJob[r.Job], func(o *run) bool { return o.over() <= r.At })
		open = slices.DeleteFunc(open, func(o *run) bool {
			mustBeOver := c.policies[r.Job].Serial || o.Tick == r.Tick
			if mustBeOver {
				c.checkOver(o, r)
			}
			return mustBeOver
		})
		byJob[r.Job] = append(open, r)
	}
}

// checkOver judges a run whose context has not ended when one begins that it must not meet.
func (c *check) checkOver(o, r *run) {
	if end := o.process.ended; end != nil && end.Kind == Killed && end.At <= r.At {
		return
	}
	if until, is := o.process.absent(r.At); is && o.process != r.process && (o.over() <= until || until >= c.Events[len(c.Events)-1].At) {
		c.summary.Excused++
		return
	}
	c.unless(c.forgets(period{o.At, r.At}), 4, append(o.events(), r.Event), "the context of %s, attempt %d on %s, had not ended when %s began, attempt %d on %s",
		tickName(o.Job, o.Tick), o.Attempt, o.process.worker, tickName(r.Job, r.Tick), r.Attempt, r.process.worker)
}

// checkRunTokens: where runs are spread, no two attempts of a job have one token; and those grow from attempt to attempt of a tick, and
// from run to run of a job whose runs never overlap.
func (c *check) checkRunTokens() {
	had := map[string]map[uint64]*run{}
	last := map[tickKey]*run{}
	runs := slices.Clone(c.runs)
	slices.SortStableFunc(runs, func(a, b *run) int { return cmp.Compare(a.At, b.At) })
	for _, r := range runs {
		if had[r.Job] == nil {
			had[r.Job] = map[uint64]*run{}
		}
		if other := had[r.Job][r.Token]; other != nil {
			c.unless(other.forgotten || r.forgotten, 1, []Event{other.Event, r.Event}, "two attempts of job %s have token %d", r.Job, r.Token)
		}
		had[r.Job][r.Token] = r
		k := tickKey{r.Job, 0}
		if !c.policies[r.Job].Serial {
			k.tick = r.Tick
		}
		if before := last[k]; before != nil && before.Token > r.Token {
			_, paused := r.process.absent(r.At) // it begins late, after its context has ended
			c.unless(paused || c.forgets(period{before.At, r.At}), 1, []Event{before.Event, r.Event}, "the tokens of job %s go back", r.Job)
		}
		last[k] = r
	}
}
