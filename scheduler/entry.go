package scheduler

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// entry is a job in a term. The term's loop owns it.
type entry struct {
	job      jobs.Job
	schedule jobs.Schedule // in force now: for a relative one, what From returned
	known    jobs.Known    // its instants by the clock that ticks are judged by
	anchor   time.Time     // of a fixed rate: ScheduleSince as the ledger has it

	// next is the first tick that has not been dealt with; zero: none.
	next time.Time
	// claiming: a claim of the job is under way. Its ticks are claimed in
	// order, so the next one waits for it.
	claiming bool
	// refused: the ledger has refused a claim, and was not read since.
	refused bool
	// turnedDown are the ticks whose claims were refused and that this term has
	// not got since, the newest refusedMost of them: their runs never began.
	turnedDown []jobs.Key
	// settled is the newest tick that the ledger is known to have.
	settled time.Time
	pauses  []jobs.Pause // of the job alone
	// parted: the gap that was claimed last goes on behind a pause.
	parted bool
	asked  time.Time // the first tick of that claim
	gap    gap       // what the first row of that claim says is skipped, if anything

	rows    map[jobs.Key]*row
	count   [phases]int // of the rows
	resting int         // runs that are over and occupy the job for LockAtLeastFor
	blocked []*row      // rows that wait for room, oldest first

	ended   int       // runs that ended since the history was pruned
	pruneAt time.Time // at the latest
}

func newEntry(job jobs.Job) *entry {
	return &entry{job: job.Complete(), schedule: job.Schedule, rows: map[jobs.Key]*row{}}
}

// resolve recomputes the schedule from what is known, and its next tick.
func (e *entry) resolve(now time.Time) {
	after := e.known.Cursor
	if since := e.known.ScheduleSince; after.Before(since) {
		after = since
		if _, ok := e.job.Schedule.(jobs.Relative); ok {
			after = since.Add(-1) // the first tick may be at since itself
		}
	}
	e.schedule = e.job.Schedule
	if relative, ok := e.schedule.(jobs.Relative); ok {
		known := e.known
		if rate, ok := relative.(jobs.FixedRateSchedule); ok {
			known.ScheduleSince = rate.Anchor(e.anchor, now)
		}
		e.schedule = relative.From(known)
	}
	e.next = e.schedule.Next(after)
}

// finished notes that a run has ended, or a tick that counts as one.
func (e *entry) finished(now time.Time) { e.known.Finished = now.UTC().Truncate(time.Microsecond) }

// waiting is how many runs are to start and do not run yet.
func (e *entry) waiting() int { return e.count[asked] + e.count[waiting] + e.count[ready] }

// occupied is how many runs hold the room of the job.
func (e *entry) occupied() int { return e.count[ready] + e.count[running] + e.resting }

// busy is how many runs an earlier tick has left.
func (e *entry) busy() int { return e.waiting() + e.count[running] + e.resting }

// room reports whether the job lets another run start.
func (e *entry) room() bool {
	if e.job.Overlap == jobs.OverlapAllow {
		return e.job.Limit == 0 || e.occupied() < e.job.Limit
	}
	return e.occupied() == 0
}

// lines reports whether ticks that cannot start yet wait in line, instead of
// being skipped as Overlap says. A job that replaces what is older has no line.
func (e *entry) lines() bool {
	return e.job.Misfire == jobs.MisfireAll && e.job.Overlap != jobs.OverlapReplace
}

// line is how many ticks wait in line for their first start.
func (e *entry) line() int {
	if e.waiting() == 0 || !e.lines() {
		return 0
	}
	n := 0
	for key, r := range e.rows {
		first := (r.phase == asked || r.phase == waiting || r.phase == ready) && r.record.Attempt == 0
		if first && key.Trigger == 0 {
			n++
		}
	}
	return n
}

// locked is how long the job is still occupied at an instant of the database's
// clock, by the run that was started last: never for longer than LockAtLeastFor,
// even if that clock was set back.
func (e *entry) locked(now time.Time) time.Duration {
	if e.known.Started.IsZero() {
		return 0
	}
	return e.job.LockAtLeastFor - max(0, now.Sub(e.known.Started))
}

// onTime is how late a tick may be and still count as on time: an alarm that
// was lost is noticed by the sweep within a second.
const onTime = 5 * time.Second

// plan decides what becomes of the ticks that are due up to an instant, which is
// not later than now: claims in the order of their ticks, by the job's policies,
// all up to the newest one. It moves next on. paused says that they fall into a
// pause, slot that this replica may start a run.
func (e *entry) plan(now, until time.Time, paused, slot bool) []jobs.Claim {
	limit, line := 1, 0
	if e.job.Misfire == jobs.MisfireAll {
		line = e.line()
		limit = max(1, e.job.CatchUp.Limit-line)
	}
	d := dueTicks(e.schedule, e.next, until, limit)
	if len(d.ticks) == 0 {
		return nil
	}
	first := e.next
	e.next = d.next
	newest, earlier := d.ticks[len(d.ticks)-1], d.missed+len(d.ticks)-1
	e.known.Cursor, e.gap = newest, gap{}

	switch {
	case paused:
		return []jobs.Claim{e.skip(first, newest, earlier, "paused")}
	case e.tooLate(newest, now):
		return []jobs.Claim{e.skip(first, newest, earlier, tooLate)}
	case e.job.Misfire == jobs.MisfireSkip && now.Sub(newest) > onTime:
		return []jobs.Claim{e.skip(first, newest, earlier, "missed")}
	case line > 0 && line >= e.job.CatchUp.Limit:
		return []jobs.Claim{e.skip(first, newest, earlier, "as many ticks as allowed wait already")}
	case e.job.Misfire == jobs.MisfireAll:
		return e.all(first, d, now, slot, line > 0)
	}
	c := e.start(newest, slot)
	c.Missed = earlier
	if c.State == jobs.Skipped {
		e.gap = gap{first, newest, earlier + 1, c.Error}
	}
	return []jobs.Claim{c}
}

// all claims every tick that is not too late. What cannot start yet waits: for
// what runs, behind the others of its gap, or at the end of the line.
func (e *entry) all(first time.Time, d due, now time.Time, slot, behind bool) []jobs.Claim {
	var claims []jobs.Claim
	late := 0
	for e.tooLate(d.ticks[late], now) { // the last one is not
		late++
	}
	if late > 0 {
		claims = append(claims, e.skip(first, d.ticks[late-1], d.missed+late-1, tooLate))
	} else if d.missed > 0 {
		e.gap = gap{first, d.last, d.missed, "more ticks are due than may wait"}
	}
	for i, tick := range d.ticks[late:] {
		c := e.start(tick, slot)
		if c.State == jobs.Skipped || behind || i > 0 && !e.parallel(i) {
			c.State, c.Error = jobs.Waiting, ""
		}
		if i == 0 && late == 0 {
			c.Missed = d.missed
		}
		claims = append(claims, c)
	}
	return claims
}

// parallel reports whether another run may start beside n that are about to.
func (e *entry) parallel(n int) bool {
	return e.job.Overlap == jobs.OverlapAllow && (e.job.Limit == 0 || e.busy()+n < e.job.Limit)
}

// start claims a tick by the job's overlap policy.
func (e *entry) start(tick time.Time, slot bool) jobs.Claim {
	c := jobs.Claim{Key: jobs.Key{Job: e.job.Name, Tick: tick}, State: jobs.Running}
	switch overlap := e.job.Overlap; {
	case overlap == jobs.OverlapAllow && e.job.Limit > 0 && e.busy() >= e.job.Limit:
		c.State, c.Error = jobs.Skipped, "as many runs as allowed have not finished"
	case overlap == jobs.OverlapForbid && e.busy() > 0:
		c.State, c.Error = jobs.Skipped, "an earlier run has not finished"
	case overlap == jobs.OverlapQueue && e.waiting() > 0:
		c.State, c.Error = jobs.Skipped, "an earlier tick waits already"
	case overlap != jobs.OverlapAllow && e.busy() > 0, !slot:
		c.State = jobs.Waiting
	}
	return c
}

// skip claims a tick as skipped, for all since the first one of its gap.
func (e *entry) skip(first, tick time.Time, missed int, why string) jobs.Claim {
	e.gap = gap{first, tick, missed + 1, why}
	return jobs.Claim{Key: jobs.Key{Job: e.job.Name, Tick: tick}, State: jobs.Skipped, Missed: missed, Error: why}
}

const tooLate = "too late to start"

// tooLate reports whether the tick's start deadline has passed.
func (e *entry) tooLate(tick, now time.Time) bool {
	return e.job.CatchUp.Deadline > 0 && now.Sub(tick) > e.job.CatchUp.Deadline
}
