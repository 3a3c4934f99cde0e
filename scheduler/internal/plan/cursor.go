package plan

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// Cursor is how far the schedule of a job has been dealt with. Its user owns it: no method is called concurrently.
type Cursor struct {
	job      *jobs.Job
	schedule jobs.Schedule // in force now: for a relative one, what From returned
	known    jobs.Known    // its instants by the clock that ticks are judged by
	recorded time.Time     // the newest tick that the ledger is known to have
	next     time.Time     // the first tick that has not been dealt with; zero: none
}

// NewCursor returns that of a job of which the ledger knows so much. known has its instants by the clock that ticks
// are judged by.
func NewCursor(job *jobs.Job, known jobs.Known) Cursor {
	c := Cursor{job: job, known: known}
	c.resolve()
	return c
}

// Known is what the ledger knows of the job, and what this term has done since.
func (c *Cursor) Known() jobs.Known { return c.known }

// Recorded is the newest tick that the ledger is known to have.
func (c *Cursor) Recorded() time.Time { return c.recorded }

// Next is the first tick that has not been dealt with; zero: there is none.
func (c *Cursor) Next() time.Time { return c.next }

// Schedule is the one in force now: of a relative one, as it follows from what is known.
func (c *Cursor) Schedule() jobs.Schedule { return c.schedule }

// Learn takes in what the ledger knows of the job. known has its instants by the clock that ticks are judged by. What
// this term has done since that was read counts too. It reports whether the schedule would rule from an instant that is
// further ahead of now than clocks may differ: then it was written under a wrong clock, and rules from now on.
func (c *Cursor) Learn(known jobs.Known, now time.Time, most time.Duration) (wrong bool) {
	before := c.known
	c.known = known
	c.recorded = later(c.recorded, known.Cursor)
	c.known.Cursor = later(before.Cursor, known.Cursor)
	c.known.Finished = later(before.Finished, known.Finished)
	if c.known.Finished.After(now) {
		c.Finished(now) // the database's clock is ahead, or was
	}
	if wrong = known.ScheduleSince.Sub(now) > most; wrong {
		c.known.ScheduleSince = now
	}
	c.resolve()
	return wrong
}

// resolve recomputes the schedule from what is known, and its next tick.
func (c *Cursor) resolve() {
	c.schedule = c.job.Schedule
	relative, ok := c.schedule.(jobs.Relative)
	if ok {
		c.schedule = relative.From(c.known)
	}
	c.next = c.schedule.Next(dealt(ok, c.known))
}

// dealt is up to when a job's schedule has been dealt with: its newest tick, or since when the schedule rules.
func dealt(isRelative bool, known jobs.Known) time.Time {
	switch since := known.ScheduleSince; {
	case !known.Cursor.Before(since):
		return known.Cursor
	case isRelative:
		return since.Add(-1) // its first tick may be at that instant itself
	default:
		return since
	}
}

// Finished notes that a run has ended, or a tick that counts as one.
func (c *Cursor) Finished(now time.Time) { c.known.Finished = now.UTC().Truncate(time.Microsecond) }

// Locked is how long the job is still occupied at an instant of the database's clock, by the run that was
// started last: never for longer than LockAtLeastFor, even if that clock was set back.
func (c *Cursor) Locked(now time.Time) time.Duration {
	if c.known.Started.IsZero() {
		return 0
	}
	return c.job.LockAtLeastFor - max(0, now.Sub(c.known.Started))
}

func (c *Cursor) isFixedDelay() bool {
	_, is := jobs.Base(c.job.Schedule).(jobs.FixedDelaySchedule)
	return is
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
