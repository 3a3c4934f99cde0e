package scheduler

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// pausesOf are the pauses of a job, or of the group, by the clock that ticks are
// judged by. One that lies in the future was stamped before the database's clock
// was set back: it does not come again. One whose end alone lies there is over.
func (t *term) pausesOf(snapshot jobs.Snapshot, job string) []jobs.Pause {
	var pauses []jobs.Pause
	for _, p := range snapshot.Pauses[job] {
		if p.Ended.After(snapshot.Now) {
			if p.Began.After(snapshot.Now) {
				continue
			}
			p.Ended = snapshot.Now
		}
		pauses = append(pauses, jobs.Pause{Began: t.clock.ours(p.Began), Ended: t.clock.ours(p.Ended)})
	}
	return pauses
}

// stretch is how far the ticks of a job that are due, from its next one on, are
// treated alike: up to until they all fall into pauses, or none does. ok is false
// when they have to wait: the job is paused now, and these are of before. The
// misfire policy decides about them after Resume.
func (t *term) stretch(e *entry, now time.Time) (until time.Time, paused, ok bool) {
	open := false
	before, within := now, e.next
	for _, pauses := range [2][]jobs.Pause{e.pauses, t.roll.pauses} {
		for _, p := range pauses {
			ended := p.Ended
			if ended.IsZero() {
				open, ended = true, now.Add(1)
			}
			if p.Covers(e.next) {
				paused = true
				within = later(within, ended.Add(-1))
			} else if p.Began.After(e.next) && p.Began.Before(ended) && !p.Began.After(before) {
				before = p.Began.Add(-1)
			}
		}
	}
	if paused {
		if within.After(now) {
			within = now
		}
		return within, true, true
	}
	return before, false, !open
}

// paused reports whether a run has to wait for the end of a pause: a tick that was
// to start as soon as there is room. Retries and manual runs go on.
func (t *term) paused(r *run) bool {
	return (t.roll.paused || r.entry.known.Paused || r.entry.counting > 0) && r.record.Attempt == 0 && (r.record.Trigger == 0 || r.record.Trigger >= triggers.First)
}

// refused takes in that the ledger refused a claim of a job: it was paused since
// the last look, or has later ticks than this term knows. Nothing of it is
// claimed until the ledger has been read.
func (t *term) refused(e *entry) {
	e.refused = true
	e.known.Cursor = e.recorded
	e.resolve()
	t.follower.soon()
}

// refusedMost bounds how many refused ticks of a job are remembered.
const refusedMost = 256

func (e *entry) noteRefused(key jobs.Key) {
	e.forgetRefused(key)
	e.turnedDown = append(e.turnedDown, key)
	e.turnedDown = e.turnedDown[max(0, len(e.turnedDown)-refusedMost):]
}

func (e *entry) forgetRefused(key jobs.Key) {
	e.turnedDown = slices.DeleteFunc(e.turnedDown, func(k jobs.Key) bool { return k == key })
}

// wasRefused reports whether a run has not begun in this term: its claim was
// refused, and the term has not got it since.
func (e *entry) wasRefused(key jobs.Key) bool { return slices.Contains(e.turnedDown, key) }

// goOn claims again for a job whose claim was refused, by what the ledger says
// now.
func (t *term) goOn(e *entry, known jobs.Known) {
	e.refused = false
	e.recorded = later(e.recorded, known.Cursor)
	e.known.Cursor = e.recorded
	e.resolve()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
