package plan

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// LongAbsent reports whether no term has had a job for long, by the ledger. Its newest tick tells of leaders
// that leave Gone alone, and had it since.
func LongAbsent(known jobs.Known, now time.Time) bool {
	return !known.Gone.IsZero() && now.Sub(later(known.Gone, known.Cursor)) > jobs.LongAbsence
}

// Declaration is how a job is declared to a ledger that may have it already. Its instants are by the clock that ticks are judged by.
type Declaration struct {
	Schedule jobs.Schedule
	As       store.Declared // From is when a changed schedule is in force from, unless the one before has ticks left
	Back     bool           // it came back after a long absence, which its ticks of that time are skipped for
	Open     bool           // a run of it waits or goes on
	// Unsure is for how long before From a tick may have been due whose claim never arrived. It counts where the ticks
	// of that time are not known.
	Unsure time.Duration
}

// Differs returns what the ledger is told of a job, if it has something else; ok says that it has the job at all.
func (d Declaration) Differs(known jobs.Known, ok bool, now time.Time) (as store.Declared, differs bool) {
	as = d.As
	switch {
	case d.Back:
		as.From = time.Time{} // from now on
	case ok && known.Schedule != as.Schedule:
		as.From = d.notPast(known, now)
	default:
		as.From = d.unsure()
		// The clock was set back. The ledger does not tell any more when the schedule began, but it had begun by its newest tick.
		if known.ScheduleSince.After(now) {
			if begun, ok := begunBy(d.Schedule, known, now); ok {
				as.From = begun
			}
		}
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

// begunBy is an instant since which a schedule may be said to rule, by the newest tick of its job. False: there is
// none, or that tick is one of the schedule before.
func begunBy(s jobs.Schedule, known jobs.Known, now time.Time) (since time.Time, ok bool) {
	if known.Cursor.IsZero() {
		return since, false
	}
	if rate, is := jobs.Base(s).(jobs.FixedRateSchedule); is { // its ticks are to stay where they are
		ticks := rate.From(known)
		first := ticks.Next(time.Time{})
		initial, every := first.Sub(known.ScheduleSince), ticks.Next(first).Sub(first)
		since = known.Cursor.Add(-initial)
		since = since.Add(-max(0, since.Sub(now)).Truncate(every))
		if since.After(now) { // the ledger takes none from the future
			since = since.Add(-every)
		}
		return since, known.Cursor.Sub(first)%every == 0
	}
	if r, is := s.(jobs.Relative); is {
		s = r.From(known)
	}
	return known.Cursor, s.Next(known.Cursor.Add(-1)).Equal(known.Cursor)
}

// notPast is the instant from which a schedule that replaces the known one is in
// force: from, or right before the first tick of the known schedule that was due by
// then and has no row. There are such ticks when the last leader could not claim,
// drained, or died as soon as it had declared its jobs, or when the job was paused.
// What the ledger has of the future was stamped before the clock was set
// back, and does not count.
func (d Declaration) notPast(known jobs.Known, now time.Time) time.Time {
	from := d.As.From
	old, ok := jobs.ParseSchedule(known.Schedule)
	if !ok || from.IsZero() {
		return d.unsure()
	}
	if from.After(now) {
		from = now
	}
	ruled := known
	if ruled.ScheduleSince.After(now) {
		ruled.ScheduleSince = time.Time{}
	}
	if later(known.Cursor, ruled.ScheduleSince).IsZero() {
		return from
	}
	if _, ok := jobs.Base(old).(jobs.FixedDelaySchedule); ok && d.Open {
		return from // its next tick is not known yet
	}
	relative, ok := old.(jobs.Relative)
	if ok {
		old = relative.From(known)
	}
	if first := old.Next(dealt(ok, ruled)); !first.IsZero() && !first.After(from) {
		return first.Add(-time.Microsecond)
	}
	return from
}

// Absence returns the claim of the ticks that a job which comes back has had by now, as skipped. It goes by the
// schedule that the ledger has; of one that nothing here can read, only if the job still has it.
func Absence(job jobs.Job, known jobs.Known, now time.Time) (row store.Claim, ok bool) {
	schedule, ok := jobs.ParseSchedule(known.Schedule)
	if !ok {
		if job.Schedule.String() != known.Schedule {
			return row, false
		}
		schedule = job.Schedule
	}
	job.Schedule = schedule
	cursor := NewCursor(&job, known)
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
