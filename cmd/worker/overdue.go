package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// errNotClaimed is how status ends when there is a leader, but ticks that are due
// are not claimed.
var errNotClaimed = errors.New("ticks that are due are not claimed")

// overdue are the ticks of a group that are due and not claimed, as far as the
// database tells.
type overdue struct {
	// Job and Tick are the oldest of them, LateSeconds how long ago it was, and
	// Jobs how many jobs have any.
	Job         string  `json:"job"`
	Tick        stamp   `json:"tick"`
	LateSeconds float64 `json:"late_seconds"`
	Jobs        int     `json:"jobs"`
}

// sweeps is how late a tick may be before it counts: the leader itself looks for
// due ticks once a second.
const sweeps = 2 * time.Second

// findOverdue returns the ticks that are due and that the present leader should
// have claimed; nil when there are none. unknown is how many other jobs have such
// ticks while nothing tells whether they are the leader's.
//
// With a configuration file its jobs are taken for the leader's. Without one the
// ledger only proves that of a job which the term has declared or claimed: one
// that the leader does not have any more looks like one that it cannot claim.
func findOverdue(snapshot jobs.Snapshot, t *target, l election.Leadership) (found *overdue, unknown int) {
	var opened time.Time
	if snapshot.Opened.Token == l.Token {
		opened = snapshot.Opened.At
	}
	declared, left := t.declared(), leftAlone(snapshot, l, opened)
	for _, s := range listJobs(snapshot, declared) {
		known, ok := snapshot.Jobs[s.Name]
		if !ok || s.Next == nil || s.Removed || s.Paused || s.GroupPaused || left[s.Name] || snapshot.Now.Sub(s.Next.Time) < sweeps {
			continue
		}
		if s.Running+s.Waiting > 0 && endsPause(snapshot, s.Name, s.Next.Time) {
			continue // ticks after a pause wait for those before it
		}
		switch rest, sure := t.restOf(s.Name, known); {
		case sure && snapshot.Now.Before(known.Started.Add(rest)):
			continue
		case declared == nil && (!sure || opened.IsZero() || known.Cursor.Before(opened) && known.Since.Before(opened)):
			unknown++
			continue
		}
		if found == nil {
			found = &overdue{Job: s.Name, Tick: *s.Next}
		} else if s.Next.Before(found.Tick.Time) {
			found.Job, found.Tick = s.Name, *s.Next
		}
		found.Jobs++
	}
	if found != nil {
		found.LateSeconds = snapshot.Now.Sub(found.Tick.Time).Seconds()
	}
	return found, unknown
}

// leftAlone are the jobs that a leader which took the lease early leaves alone, for
// the TTL at most: an earlier leader may still do a run of theirs.
func leftAlone(snapshot jobs.Snapshot, l election.Leadership, opened time.Time) map[string]bool {
	left := map[string]bool{}
	if opened.IsZero() || snapshot.Now.Sub(opened) > l.TTL {
		return left
	}
	for _, r := range snapshot.Open {
		if r.State == jobs.Running && r.Token < l.Token {
			left[r.Job] = true
		}
	}
	return left
}

// restOf is for how long after its last start a job of a fixed delay is kept from
// its next tick, by LockAtLeastFor, which the ledger does not have. Without a file
// that is not sure.
func (t *target) restOf(name string, known jobs.Known) (rest time.Duration, sure bool) {
	schedule, ok := jobs.ParseSchedule(known.Schedule)
	if _, delay := jobs.Base(schedule).(jobs.FixedDelaySchedule); !ok || !delay {
		return 0, true
	}
	if t.file != nil {
		for _, job := range t.file.Jobs {
			if job.Name == name {
				return job.LockAtLeastFor, true
			}
		}
	}
	return 0, false
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

// termBegan is when the leader's term opened the ledger, or where it has not, an
// instant that is not before the term's beginning: tokens are at least the
// microseconds since 1970 at which they were made.
func termBegan(snapshot jobs.Snapshot, l election.Leadership) (at time.Time, opened bool) {
	if snapshot.Opened.Token == l.Token {
		return snapshot.Opened.At, true
	}
	return time.UnixMicro(int64(min(l.Token, uint64(snapshot.Now.UnixMicro())))).UTC(), false
}

// judge returns an error if the leader has left the tick for longer than
// [scheduler.Health] lets it, and is in charge for so long. One that leaves lets it wait
// for the next leader.
func (o *overdue) judge(snapshot jobs.Snapshot, l election.Leadership) error {
	if o == nil || l.ResignAsked {
		return nil
	}
	began, opened := termBegan(snapshot, l)
	since := o.Tick.Time
	if began.After(since) {
		since = began
	}
	left := snapshot.Now.Sub(since)
	if left <= max(min(l.TTL, time.Minute), 10*time.Second) {
		return nil
	}
	why := "the leader's log says why"
	if !opened {
		why = "the leader has not opened the ledger, and its log says why"
	}
	return fmt.Errorf("%w in group %q: that of job %q was due at %s, jobs with such ticks: %d: %s",
		errNotClaimed, l.Group, o.Job, shown(&o.Tick), o.Jobs, why)
}
