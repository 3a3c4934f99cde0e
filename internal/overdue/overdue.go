// Package overdue finds ticks that are due and that the leader has not claimed, as far as the
// database tells, for the worker's commands and for the page.
package overdue

import (
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// Sweeps is how late a tick may be before it counts: the leader itself looks for
// due ticks once a second.
const Sweeps = 2 * time.Second

// Ticks are those of a group that are due and that the present leader should have claimed.
type Ticks struct {
	// Job and Tick are the oldest of them, and Jobs is how many jobs have any; zero: there
	// are none.
	Job  string
	Tick time.Time
	Jobs int
	// Unknown is how many other jobs have such ticks while nothing tells whether they
	// are the leader's.
	Unknown int
}

// Config is what is known besides the ledger.
type Config struct {
	// Declared are the jobs that the leader is taken to have. Nil: not known. Then the
	// ledger only proves that of a job which the term has declared or claimed: one that
	// the leader does not have any more looks like one that it cannot claim.
	Declared map[string]jobs.Schedule
	// Rest returns for how long after its last start a job of a fixed delay is kept from
	// its next tick, by LockAtLeastFor, which the ledger does not have; false: not known.
	// Nil: it is not known of any.
	Rest func(name string) (time.Duration, bool)
	// Parse is [jobs.ParseSchedule], or remembers what that has answered.
	Parse func(text string) (jobs.Schedule, bool)
}

// schedule is the ledger's, by which the leader goes, whatever Declared says by now.
func (c Config) schedule(name string, known jobs.Known) (jobs.Schedule, bool) {
	s, ok := c.Parse(known.Schedule)
	if d := c.Declared[name]; !ok && d != nil && d.String() == known.Schedule {
		return d, true
	}
	return s, ok
}

// Find looks at the jobs of a snapshot, which may be some of the group's.
func Find(snapshot jobs.Snapshot, l election.Leadership, c Config) (t Ticks) {
	if snapshot.Paused {
		return t
	}
	var opened time.Time
	if snapshot.Opened.Token == l.Token {
		opened = snapshot.Opened.At
	}
	left, busy := leftAlone(snapshot, l, opened), map[string]bool{}
	for _, r := range snapshot.Open {
		busy[r.Job] = true
	}
	for name, known := range snapshot.Jobs {
		s, ok := c.schedule(name, known)
		removed := c.Declared != nil && c.Declared[name] == nil
		if !ok || removed || known.Paused || !known.Gone.IsZero() || left[name] {
			continue
		}
		tick := NextTick(s, known, snapshot.Now, busy[name])
		if tick.IsZero() || snapshot.Now.Sub(tick) < Sweeps {
			continue
		}
		if busy[name] && endsPause(snapshot, name, tick) {
			continue // ticks after a pause wait for those before it
		}
		sure := true
		if _, delay := jobs.Base(s).(jobs.FixedDelaySchedule); delay {
			var rest time.Duration
			// The leader counts from when it decided to skip a tick, which the ledger does not tell.
			skipped := known.Finished.Before(known.Cursor)
			if sure = c.Rest != nil && !skipped; sure {
				rest, sure = c.Rest(name)
			}
			if end := known.Started.Add(rest); sure && end.After(tick) {
				tick = end // which is when it is due
			}
		}
		switch {
		case snapshot.Now.Sub(tick) < Sweeps, !sure && c.Declared != nil:
			continue
		case c.Declared == nil && (!sure || opened.IsZero() || known.Cursor.Before(opened) && known.Since.Before(opened)):
			t.Unknown++
			continue
		}
		if t.Jobs == 0 || tick.Before(t.Tick) || tick.Equal(t.Tick) && name < t.Job {
			t.Job, t.Tick = name, tick
		}
		t.Jobs++
	}
	return t
}

// leftAlone are the jobs that a leader which took the lease early leaves alone, for
// the TTL at most: an earlier leader may still do a run of theirs.
func leftAlone(snapshot jobs.Snapshot, l election.Leadership, opened time.Time) map[string]bool {
	left := map[string]bool{}
	if opened.IsZero() || snapshot.Now.Sub(opened) > l.TTL {
		return left
	}
	for _, r := range snapshot.Open {
		if snapshot.IsOfEarlierTerm(r, l.Token) {
			left[r.Job] = true
		}
	}
	return left
}

// endsPause reports whether a pause of the job or the group came to its end after
// an instant.
func endsPause(snapshot jobs.Snapshot, job string, after time.Time) bool {
	for _, pauses := range [2][]jobs.Pause{snapshot.Pauses[job], snapshot.Pauses[""]} {
		for _, p := range pauses {
			if p.Ended.After(after) {
				return true
			}
		}
	}
	return false
}

// NextTick is the first tick that is not claimed yet, also when it is due. Of a
// paused job it is the first one after now: those that are due will be skipped. busy says
// that the job has a run that is not over.
func NextTick(schedule jobs.Schedule, known jobs.Known, now time.Time, busy bool) time.Time {
	if _, ok := jobs.Base(schedule).(jobs.FixedDelaySchedule); ok && busy {
		return time.Time{} // so long after the end of what runs
	}
	after := known.ScheduleSince
	if known.Cursor.After(after) {
		after = known.Cursor
	}
	if relative, ok := schedule.(jobs.Relative); ok {
		schedule = relative.From(known)
		if known.Cursor.Before(after) {
			after = after.Add(-1) // its first tick is the very instant
		}
	}
	next := schedule.Next(after)
	if next.After(now) || !known.Paused {
		return next
	}
	if coming := schedule.Next(now); !coming.IsZero() {
		return coming
	}
	return next
}

// TermBegan is when the leader's term opened the ledger, or where it has not, an
// instant that is not before the term's beginning: tokens are at least the
// microseconds since 1970 at which they were made.
func TermBegan(snapshot jobs.Snapshot, l election.Leadership) (at time.Time, opened bool) {
	if snapshot.Opened.Token == l.Token {
		return snapshot.Opened.At, true
	}
	return time.UnixMicro(int64(min(l.Token, uint64(snapshot.Now.UnixMicro())))).UTC(), false
}

// TooLong reports whether the leader has left them for longer than a scheduler's health lets
// it, and is in charge for so long. One that leaves lets them wait for the next leader.
func (t Ticks) TooLong(snapshot jobs.Snapshot, l election.Leadership) bool {
	if t.Jobs == 0 || l.ResignAsked {
		return false
	}
	since := t.Tick
	if began, _ := TermBegan(snapshot, l); began.After(since) {
		since = began
	}
	return snapshot.Now.Sub(since) > max(min(l.TTL, time.Minute), 10*time.Second)
}
