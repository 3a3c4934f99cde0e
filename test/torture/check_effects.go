package torture

import (
	"cmp"
	"slices"
)

// effectKey says which run has stored an effect.
type effectKey struct {
	runKey
	owner string
}

// checkEffects: what is stored is what transactions say that they have stored, each under the token of its process, and
// nothing else.
func (c *check) checkEffects() {
	stored := map[effectKey][]Effect{}
	for _, e := range c.Effects {
		k := effectKey{runKey{e.Job, e.Tick, e.Attempt, e.Token}, e.Owner}
		stored[k] = append(stored[k], e)
	}
	attempts := map[effectKey][]*run{}
	for _, r := range c.runs {
		k := effectKey{keyOf(r.Event), r.process.up.Owner}
		attempts[k] = append(attempts[k], r)
	}
	for _, e := range c.Effects {
		k := effectKey{runKey{e.Job, e.Tick, e.Attempt, e.Token}, e.Owner}
		if p := c.policies[e.Job]; !p.Effects {
			c.wrong(0, nil, "an effect of job %q, which has none", e.Job)
		}
		began := slices.ContainsFunc(attempts[k], func(r *run) bool { return len(r.transactions) > 0 })
		if !began {
			c.wrong(3, c.ticks[tickKey{e.Job, e.Tick}].events(),
				"effect %d of %s, attempt %d under token %d of %s: it began no transaction", e.Seq, tickName(e.Job, e.Tick), e.Attempt, e.Token, e.Owner)
		}
	}
	for _, r := range c.runs {
		k := effectKey{keyOf(r.Event), r.process.up.Owner}
		if attempts[k][0] == r { // for all that are named so, which are one unless something is wrong
			c.checkOutcomes(stored[k], attempts[k])
		}
	}
}

// checkOutcomes compares the effects of a run with what its transactions said.
func (c *check) checkOutcomes(effects []Effect, runs []*run) {
	effects = slices.Clone(effects)
	var unclear int
	var events []Event
	// What a failover has lost gives its number to another, also to the same run when that is done again.
	for _, lost := range []bool{false, true} {
		for _, r := range runs {
			for _, x := range r.transactions {
				if x.outcome() != Stored || c.forgets(x.time()) != lost {
					continue
				}
				if at := slices.IndexFunc(effects, func(e Effect) bool { return e.Seq == x.commit.Seq }); at >= 0 {
					effects = slices.Delete(effects, at, at+1)
					continue
				}
				c.unless(lost, 3, x.events(), "effect %d of %s was stored, and is not there", x.commit.Seq, tickName(r.Job, r.Tick))
			}
		}
	}
	for _, r := range runs {
		for _, x := range r.transactions {
			events = append(events, x.events()...)
			switch x.outcome() {
			case None:
				t := c.ticks[tickKey{r.Job, r.Tick}]
				if len(t.effects) == 0 {
					c.unless(c.forgetsEffect(t), 3, t.events(), "the effect of %s was there, and is not any more", tickName(r.Job, r.Tick))
				}
			case Unknown:
				unclear++
			case "":
				unclear++
				c.summary.Unfinished++
			}
		}
	}
	if len(events) > 0 && len(effects) > unclear { // without any it was said before
		e := effects[0]
		c.wrong(3, events, "effect %d of %s, attempt %d under token %d: no transaction has stored it", e.Seq, tickName(e.Job, e.Tick), e.Attempt, e.Token)
	}
}

// mayStore reports whether the transaction has stored something, or may have.
func (x *transaction) mayStore() bool {
	return x.outcome() == Stored || x.outcome() == Unknown || x.outcome() == ""
}

// forgetsEffect reports whether a failover may have lost what a run of the tick had stored.
func (c *check) forgetsEffect(t *tick) bool {
	return slices.ContainsFunc(t.runs, func(r *run) bool {
		return slices.ContainsFunc(r.transactions, func(x *transaction) bool { return x.mayStore() && c.forgets(x.time()) })
	})
}

// checkOrder: the effects of a job are numbered without a gap in the order of their commits, in which tokens never
// shrink, and which agrees with time.
func (c *check) checkOrder() {
	effects := slices.Clone(c.Effects)
	slices.SortStableFunc(effects, func(a, b Effect) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Seq, b.Seq)) })
	var last Effect
	for _, e := range effects {
		if e.Job != last.Job {
			last = Effect{Job: e.Job}
		}
		both := func() []Event {
			return slices.Concat(c.begins(last), c.begins(e))
		}
		if e.Seq != last.Seq+1 {
			c.wrong(3, both(), "effect %d of job %s comes after effect %d", e.Seq, e.Job, last.Seq)
		}
		if e.Token < last.Token && (!c.Spread || c.policies[e.Job].Serial) {
			c.wrong(3, both(), "effect %d of job %s is of token %d, and effect %d before it of %d", e.Seq, e.Job, e.Token, last.Seq, last.Token)
		}
		last = e
	}
	byJob := map[string][]*transaction{}
	for _, r := range c.runs {
		for _, x := range r.transactions {
			if x.outcome() == Stored {
				byJob[r.Job] = append(byJob[r.Job], x)
			}
		}
	}
	for _, p := range c.Policies {
		c.checkTimes(byJob[p.Job])
	}
}

// begins are the events of the transactions that may have stored the effect.
func (c *check) begins(e Effect) []Event {
	t := c.ticks[tickKey{e.Job, e.Tick}]
	if t == nil {
		return nil
	}
	var events []Event
	for _, r := range t.runs {
		if keyOf(r.Event) == (runKey{e.Job, e.Tick, e.Attempt, e.Token}) {
			for _, x := range r.transactions {
				events = append(events, x.events()...)
			}
		}
	}
	return events
}

// checkTimes: of two transactions of a job, the one that began when the other was stored has the higher number.
func (c *check) checkTimes(all []*transaction) {
	ended := slices.Clone(all)
	slices.SortStableFunc(ended, func(a, b *transaction) int { return cmp.Compare(a.commit.At, b.commit.At) })
	slices.SortStableFunc(all, func(a, b *transaction) int { return cmp.Compare(a.begin.At, b.begin.At) })
	var highest *transaction
	at := 0
	for _, x := range all {
		for ; at < len(ended) && ended[at].commit.At < x.begin.At; at++ {
			// What a failover has lost gives its number to another.
			if !c.forgets(ended[at].time()) && (highest == nil || ended[at].commit.Seq > highest.commit.Seq) {
				highest = ended[at]
			}
		}
		if highest != nil && x.commit.Seq <= highest.commit.Seq {
			c.wrong(3, append(highest.events(), x.events()...), "effect %d of job %s was stored before effect %d was begun",
				highest.commit.Seq, x.run.Job, x.commit.Seq)
		}
	}
}
