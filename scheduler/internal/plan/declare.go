package plan

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Clocks translates instants between the clock that ticks are judged by and the database's.
type Clocks struct {
	Ours   func(time.Time) time.Time // of an instant by the database's clock
	Theirs func(time.Time) time.Time // the reverse
}

// LongAbsent reports whether no term has had a job for long, by the ledger. Its newest tick tells of leaders
// that leave Gone alone, and had it since.
func LongAbsent(known jobs.Known, now time.Time) bool {
	return !known.Gone.IsZero() && now.Sub(later(known.Gone, known.Cursor)) > jobs.LongAbsence
}

// Declaration is how a job is declared to a ledger that may have it already.
type Declaration struct {
	Schedule jobs.Schedule
	As       store.Declared // From is when a changed schedule is in force from, unless the one before has ticks left
	Back     bool           // it came back after a long absence, which its ticks of that time are skipped for
	Open     bool           // a run of it waits or goes on
	// Unsure is for how long before From a tick may have been due whose claim never arrived. It counts where the ticks
	// of that time are not known.
	Unsure time.Duration
}

// Differs returns what the ledger is told of a job, if it has something else; ok says that it has the job at all,
// and now is the present by the database's clock.
func (d Declaration) Differs(known jobs.Known, ok bool, now time.Time, c Clocks) (as store.Declared, differs bool) {
	as = d.As
	switch {
	case d.Back:
		as.From = time.Time{} // from now on
	case ok && known.Schedule != as.Schedule:
		as.From = d.notPast(known, now, c)
	case known.ScheduleSince.After(now) && !known.Cursor.IsZero() && isTick(d.Schedule, known):
		// The database's clock was set back. The ledger does not tell any more
		// when the schedule began, but it had begun by its newest tick.
		as.From = c.Theirs(known.Cursor)
	default:
		as.From = d.unsure()
	}
	return as, !ok || known.Schedule != as.Schedule || !known.Gone.IsZero() || known.ScheduleSince.After(now)
}

// unsure is the instant from which a schedule is in force whose ticks before From are not known.
func (d Declaration) unsure() time.Time {
	if d.As.From.IsZero() {
		return d.As.From
	}
	return d.As.From.Add(-d.Unsure)
}

// isTick reports whether a job's newest tick is one of the schedule: after a change
// it may be one of the schedule before.
func isTick(s jobs.Schedule, known jobs.Known) bool {
	if r, ok := s.(jobs.Relative); ok {
		s = r.From(known)
	}
	return s.Next(known.Cursor.Add(-1)).Equal(known.Cursor)
}

// notPast is the instant from which a schedule that replaces the known one is in
// force: from, or right before the first tick of the known schedule that was due by
// then and has no row. There are such ticks when the last leader could not claim,
// drained, or died as soon as it had declared its jobs, or when the job was paused.
// What the ledger has of the future was stamped before the database's clock was set
// back, and does not count.
func (d Declaration) notPast(known jobs.Known, now time.Time, c Clocks) time.Time {
	from := d.As.From
	old, ok := jobs.ParseSchedule(known.Schedule)
	if !ok || from.IsZero() {
		return d.unsure()
	}
	if from.After(now) {
		from = now
	}
	written, ruled := known.ScheduleSince, known
	if ruled.ScheduleSince = c.Ours(written); written.After(now) {
		ruled.ScheduleSince = time.Time{}
	}
	if later(known.Cursor, ruled.ScheduleSince).IsZero() {
		return from
	}
	if _, ok := jobs.Base(old).(jobs.FixedDelaySchedule); ok {
		if d.Open {
			return from // its next tick is not known yet
		}
		known.ScheduleSince, known.Finished = c.Ours(known.ScheduleSince), c.Ours(known.Finished)
	}
	relative, ok := old.(jobs.Relative)
	if ok {
		old = relative.From(known)
	}
	first := old.Next(dealt(old, ok, ruled, written))
	if early := c.Ours(from).Sub(first); !first.IsZero() && early >= 0 {
		return from.Add(-early - time.Microsecond)
	}
	return from
}

// Absence returns the claim of the ticks that a job which comes back has had by now, as skipped. It goes by the
// schedule that the ledger has; of one that nothing here can read, only if the job still has it.
func Absence(job jobs.Job, known jobs.Known, now time.Time, c Clocks) (row store.Claim, ok bool) {
	schedule, ok := jobs.ParseSchedule(known.Schedule)
	if !ok {
		if job.Schedule.String() != known.Schedule {
			return row, false
		}
		schedule = job.Schedule
	}
	job.Schedule = schedule
	anchor := known.ScheduleSince
	known.ScheduleSince, known.Finished = c.Ours(known.ScheduleSince), c.Ours(known.Finished)
	cursor := NewCursor(&job, known, anchor)
	d := dueTicks(cursor.schedule, cursor.next, now, 1)
	if len(d.ticks) == 0 {
		return row, false
	}
	return skip(job.Name, cursor.next, d.ticks[0], d.missed, NotDeclared).Rows[0], true
}

// Leftover is what becomes of a run of a job that comes back: one from before its absence is closed. stands says
// that a run of an earlier term may still go on.
func Leftover(r jobs.Record, known jobs.Known, stands bool) (to jobs.State, why string, closed bool) {
	switch {
	case !r.Claimed.Before(known.Gone): // it was asked for when another replica had the job
		return 0, "", false
	case r.State == jobs.Waiting && r.Attempt == 0 && r.Trigger == 0:
		return jobs.Skipped, NotDeclared, true
	case r.State == jobs.Waiting:
		return jobs.Cancelled, NotDeclared, true
	case stands:
		return 0, "", false
	}
	return jobs.Interrupted, "not finished by " + r.Owner + ", and then " + NotDeclared, true
}
