package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Check looks for what the guarantees rule out, and counts what there is. Its violations are in the order of its checks,
// the first few for each guarantee, and then how many more there are; without any the history is as it should be, as far
// as it shows.
func Check(h History) (Summary, []Violation) {
	const limit = 2 * time.Minute // the register's check takes seconds, unless something is wrong
	return newCheck(h, limit).run()
}

// check is one call of [Check].
type check struct {
	History
	limit time.Duration // for the register

	policies  map[string]Policy
	windows   []period // in which writes were forgotten
	holds     []hold
	aparts    []apart
	steppings []period // around each time when the database's clock was set
	rewinds   []period // of a TTL each, from when the lease row was put back
	processes map[string]*replica
	order     []*replica
	owners    map[string]*replica // the first of that name
	terms     []*term             // in the order of their Lead events
	led       map[uint64]*term    // the first under that token
	runs      []*run              // in the order of their Run events
	ticks     map[tickKey]*tick
	keys      []tickKey // sorted
	faults    int       // injected and not healed
	injected  []injected

	summary Summary
	found   []Violation
	number  map[int]int // of violations, by guarantee
}

// tickKey names a tick.
type tickKey struct {
	job  string
	tick int64
}

func (k tickKey) String() string { return tickName(k.job, k.tick) }

// tick is all that is known of one.
type tick struct {
	rows    []Row
	runs    []*run
	effects []Effect
}

func newCheck(h History, limit time.Duration) *check {
	h.Events = slices.Clone(h.Events)
	slices.SortStableFunc(h.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return &check{
		History: h, limit: limit,
		policies:  map[string]Policy{},
		processes: map[string]*replica{},
		owners:    map[string]*replica{},
		led:       map[uint64]*term{},
		ticks:     map[tickKey]*tick{},
		number:    map[int]int{},
	}
}

func (c *check) run() (Summary, []Violation) {
	c.record()
	c.gather()
	c.checkOwners()
	c.checkStarts()
	c.checkRows()
	c.checkEffects()
	c.checkOrder()
	if c.Spread {
		c.checkAlone()
		c.checkRunTokens()
	} else {
		c.checkContexts()
	}
	c.checkTakeovers()
	c.checkCauses()
	c.checkCutShort()
	c.checkTicks()
	c.checkHolds()
	c.checkClocks()
	c.checkTexts()
	c.checkRegister()
	for _, guarantee := range slices.Sorted(maps.Keys(c.number)) {
		if more := c.number[guarantee] - mostShown; more > 0 {
			c.found = append(c.found, Violation{guarantee, fmt.Sprintf("and %d more", more), nil})
		}
	}
	return c.summary, c.found
}

// mostShown is how many violations of a guarantee are said in full: what is broken once is mostly broken for long.
const mostShown = 10

// wrong notes a violation of a guarantee.
func (c *check) wrong(guarantee int, events []Event, format string, args ...any) {
	c.number[guarantee]++
	if c.number[guarantee] <= mostShown {
		c.found = append(c.found, Violation{guarantee, fmt.Sprintf(format, args...), events})
	}
}

// unless notes a violation, except where a failover has forgotten what would rule it out.
func (c *check) unless(forgotten bool, guarantee int, events []Event, format string, args ...any) {
	if forgotten {
		c.summary.Forgotten++
		return
	}
	c.wrong(guarantee, events, format, args...)
}

// forgets reports whether a failover may have lost what was written some time in these.
func (c *check) forgets(s period) bool {
	_, is := touching(c.windows, s)
	return is
}

// gather brings together what belongs to a tick.
func (c *check) gather() {
	at := func(job string, instant int64) *tick {
		k := tickKey{job, instant}
		if c.ticks[k] == nil {
			c.ticks[k] = &tick{}
			c.keys = append(c.keys, k)
		}
		return c.ticks[k]
	}
	for _, r := range c.Rows {
		t := at(r.Job, r.Tick)
		t.rows = append(t.rows, r)
	}
	for _, r := range c.runs {
		t := at(r.Job, r.Tick)
		t.runs = append(t.runs, r)
		c.findClaim(r, t)
	}
	for _, e := range c.Effects {
		t := at(e.Job, e.Tick)
		t.effects = append(t.effects, e)
	}
	slices.SortFunc(c.keys, func(a, b tickKey) int { return cmp.Or(cmp.Compare(a.tick, b.tick), cmp.Compare(a.job, b.job)) })
	c.summary.Rows, c.summary.Effects = len(c.Rows), len(c.Effects)
	c.summary.Rounds, c.summary.Terms, c.summary.Runs = 1, len(c.terms), len(c.runs)
}

// findClaim finds out when the statement that let the run start can have been written: after its tick and the beginning
// of its term, and after the run before it, the last of the tick so far.
func (c *check) findClaim(r *run, t *tick) {
	from := r.Tick * int64(time.Microsecond)
	if r.term != nil {
		from = max(from, r.process.since(r.term.At))
	}
	if n := len(t.runs); n > 1 {
		from = max(from, t.runs[n-2].At)
	}
	r.forgotten = c.forgets(period{min(from, r.At), r.At})
}

// forgotten reports whether a failover may have lost the claim of the tick, or of one of its runs.
func (t *tick) forgotten() bool {
	return slices.ContainsFunc(t.runs, func(r *run) bool { return r.forgotten })
}

// events are those of the tick's runs that say what was started and stored.
func (t *tick) events() []Event {
	var events []Event
	for _, r := range t.runs {
		events = append(events, r.Event)
		for _, x := range r.transactions {
			events = append(events, x.events()...)
		}
	}
	const few = 12
	return events[:min(few, len(events))]
}
