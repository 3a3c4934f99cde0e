package torture

import (
	"cmp"
	"slices"
	"time"
)

// isOdd says which of its two schedules a tick of the job text is of.
func isOdd(tick int64) bool { return tick/1e6%2 != 0 }

// checkTexts: a job whose schedule is that of the odd seconds in some releases, and that of the even ones in others, runs
// those of the process that runs it; and whatever the order of terms, ticks are no further apart than a schedule that rules
// from the end of the term before can put them: after the last of one, the second of the other, and where no term could claim that, the
// next of the one.
func (c *check) checkTexts() {
	const most = 4 * int64(time.Second/time.Microsecond)
	for _, p := range c.Policies {
		if !p.Texts {
			continue
		}
		terms := slices.Clone(c.terms)
		slices.SortStableFunc(terms, func(a, b *term) int { return cmp.Compare(b.Token, a.Token) }) // the newest first
		for _, r := range c.runs {
			if r.Job == p.Job && !c.Spread && !mayClaim(terms, r) {
				c.wrong(2, []Event{*r.process.up, r.Event}, "%s is no tick of the schedule of %s", tickName(r.Job, r.Tick), r.process.worker)
			}
		}
		last := tickKey{p.Job, c.From}
		ticks := slices.DeleteFunc(slices.Clone(c.keys), func(k tickKey) bool {
			return k.job != p.Job || len(c.ticks[k].rows) == 0 || k.tick < c.From || k.tick > c.To
		})
		for _, k := range append(ticks, tickKey{p.Job, c.To}) {
			gap := period{last.tick * int64(time.Microsecond), k.tick * int64(time.Microsecond)}
			// The end of the term before is recorded by the database's clock, so this one starts over after it was set back.
			_, set := touching(c.steppings, gap)
			if k.tick-last.tick > most && !set && !c.holdsIn(p.Job, gap) {
				c.unless(c.forgets(gap), 6, nil, "there is no tick of %s between %s and %s, whichever schedule ruled", p.Job,
					tickName(last.job, last.tick), tickName(k.job, k.tick))
			}
			last = k
		}
	}
}

// mayClaim reports whether the tick is one of the schedule of the run's process, or of a term before it, which may have left
// the run to be started, or to be run again: of one that went on when the tick was due, however many short terms came
// after it, or of one of the last, since clocks are set.
func mayClaim(terms []*term, r *run) bool {
	const few = 3
	if (r.process.up.Text == odd) == isOdd(r.Tick) {
		return true
	}
	before := slices.DeleteFunc(slices.Clone(terms), func(t *term) bool { return t.Token >= r.Token })
	next := r.At
	for i, t := range before {
		is := (t.process.up.Text == odd) == isOdd(r.Tick)
		if is && (i < few || next >= r.Tick*int64(time.Microsecond)) {
			return true
		}
		next = t.At
	}
	return false
}

// holdsIn reports whether the job can have been paused then.
func (c *check) holdsIn(job string, in period) bool {
	return slices.ContainsFunc(c.holds, func(h hold) bool {
		return (h.job == "" || h.job == job) && h.may.from <= in.to && in.from <= h.may.to
	})
}
