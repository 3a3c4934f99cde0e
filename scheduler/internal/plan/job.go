package plan

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// Job is a job of a term, as far as it is planned. Its user owns it: no method is called concurrently.
type Job struct {
	Room
	job      *jobs.Job
	group    string
	schedule jobs.Schedule // in force now: for a relative one, what From returned
	known    jobs.Known    // its instants by the clock that ticks are judged by
	anchor   time.Time     // of a fixed rate: ScheduleSince as the ledger has it
	recorded time.Time     // the newest tick that the ledger is known to have
	next     time.Time     // the first tick that has not been dealt with; zero: none

	listing  listing
	claiming claiming
	asked    time.Time // the first tick of the claims that have no answer
	parted   bool      // the ticks that were claimed last go on behind a pause
	skipped  skipped
	refused  []jobs.Key // see Refused
	counts   int        // counts of failures that are under way
	pauses   []jobs.Pause
	left     map[jobs.Key]jobs.Record // see LeaveAlone
}

// New returns a job of which the ledger knows nothing yet.
func New(group string, job *jobs.Job) Job { return Job{job: job, group: group, schedule: job.Schedule} }

// Known is what the ledger knows of the job, and what this term has done since.
func (j *Job) Known() jobs.Known { return j.known }

// Recorded is the newest tick that the ledger is known to have.
func (j *Job) Recorded() time.Time { return j.recorded }

// Next is the first tick that has not been dealt with; zero: there is none.
func (j *Job) Next() time.Time { return j.next }

// Schedule is the one in force now: of a relative one, as it follows from what is known.
func (j *Job) Schedule() jobs.Schedule { return j.schedule }

// Learn takes in what the ledger knows of the job. known has its instants by the clock that ticks are judged
// by, and anchor is its ScheduleSince as the ledger has it. What this term has done since that was read counts
// too. It reports whether the schedule would rule from an instant that is further ahead of now than clocks
// may differ: then it was written under a wrong clock, and rules from now on.
func (j *Job) Learn(known jobs.Known, anchor, now time.Time, most time.Duration) (wrong bool) {
	before := j.known
	j.known, j.anchor = known, anchor
	j.recorded = later(j.recorded, known.Cursor)
	j.known.Cursor = later(before.Cursor, known.Cursor)
	j.known.Finished = later(before.Finished, known.Finished)
	if j.known.Finished.After(now) {
		j.Finished(now) // the database's clock is ahead, or was
	}
	if wrong = known.ScheduleSince.Sub(now) > most; wrong {
		j.known.ScheduleSince = now
	}
	j.Resolve()
	return wrong
}

// Restore makes what is known of the job just that, without a look at a clock.
func (j *Job) Restore(known jobs.Known, anchor time.Time) {
	j.known, j.anchor = known, anchor
	j.Resolve()
}

// Resolve recomputes the schedule from what is known, and its next tick.
func (j *Job) Resolve() {
	after := j.known.Cursor
	if since := j.known.ScheduleSince; after.Before(since) {
		after = since
		if _, ok := j.job.Schedule.(jobs.Relative); ok {
			after = since.Add(-1) // the first tick may be at since itself
		}
	}
	j.schedule = j.job.Schedule
	if relative, ok := j.schedule.(jobs.Relative); ok {
		known := j.known
		if rate, ok := jobs.Base(relative).(jobs.FixedRateSchedule); ok {
			known.ScheduleSince = rate.Anchor(j.anchor, known.ScheduleSince)
		}
		j.schedule = relative.From(known)
	}
	j.next = j.schedule.Next(after)
}

// Finished notes that a run has ended, or a tick that counts as one.
func (j *Job) Finished(now time.Time) { j.known.Finished = now.UTC().Truncate(time.Microsecond) }

// Locked is how long the job is still occupied at an instant of the database's clock, by the run that was
// started last: never for longer than LockAtLeastFor, even if that clock was set back.
func (j *Job) Locked(now time.Time) time.Duration {
	if j.known.Started.IsZero() {
		return 0
	}
	return j.job.LockAtLeastFor - max(0, now.Sub(j.known.Started))
}

func (j *Job) isFixedDelay() bool {
	_, is := jobs.Base(j.job.Schedule).(jobs.FixedDelaySchedule)
	return is
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
