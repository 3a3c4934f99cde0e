package plan

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// Pauses are those of a snapshot, by the clock that ticks are judged by, to which ours brings an instant. One
// that lies in the future was stamped before the database's clock was set back: it does not come again. One
// whose end alone lies there is over.
func Pauses(stamped []jobs.Pause, now time.Time, ours func(time.Time) time.Time) (all []jobs.Pause) {
	for _, p := range stamped {
		if p.Ended.After(now) {
			if p.Began.After(now) {
				continue
			}
			p.Ended = now
		}
		all = append(all, jobs.Pause{Began: ours(p.Began), Ended: ours(p.Ended)})
	}
	return all
}

// Pause takes in whether the job is paused, and its pauses.
func (j *Job) Pause(is bool, pauses []jobs.Pause) { j.known.Paused, j.pauses = is, pauses }

// SetPaused notes that this term has paused the job, until the ledger is read.
func (j *Job) SetPaused() { j.known.Paused = true }

// stretch is how far the ticks of the job that are due, from its next one on, are treated alike: up to until
// they all fall into pauses, of the job or the group, or none does. ok is false when they have to wait: the job
// is paused now, and these are of before. The misfire policy decides about them after Resume, unless the schedule
// changes until then: they count as paused, too.
func (j *Job) stretch(now time.Time, group []jobs.Pause) (until time.Time, paused, ok bool) {
	open := false
	before, within := now, j.next
	for _, pauses := range [2][]jobs.Pause{j.pauses, group} {
		for _, p := range pauses {
			ended := p.Ended
			if ended.IsZero() {
				open, ended = true, now.Add(1)
			}
			if p.Covers(j.next) {
				paused = true
				within = later(within, ended.Add(-1))
			} else if p.Began.After(j.next) && p.Began.Before(ended) && !p.Began.After(before) {
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
	if open && j.concludes {
		return before, true, true
	}
	return before, false, !open
}

// isInPause reports whether an instant falls into a pause of the job or the group.
func (j *Job) isInPause(at time.Time, group []jobs.Pause) bool {
	for _, pauses := range [2][]jobs.Pause{j.pauses, group} {
		for _, p := range pauses {
			if p.Covers(at) {
				return true
			}
		}
	}
	return false
}

// SetFailing takes in whether the last run of the job that says so has failed.
func (j *Job) SetFailing(failing bool) { j.known.Failing = failing }
