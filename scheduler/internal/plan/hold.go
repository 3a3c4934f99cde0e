package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// listing is how the job stands in the list of this replica.
//
//	from      to        by        when
//	listed    changing  Change    its schedule has changed, and the ledger is being told
//	any       removed   Remove    it is not in the list any more
//	any       listed    List      the ledger has its schedule
type listing uint8

const (
	listed listing = iota
	changing
	removed
)

// Change has the job claim nothing until its new schedule rules.
func (j *Job) Change() { j.listing = changing }

// Conclude has the job decide about its ticks that are due, since its schedule is about to change to another one. The
// one that would not be claimed before a run is over waits for that run. Those that a pause holds back are skipped, unless the
// other schedule has ticks since the first of them: it rules from there, by [Declaration.Differs].
func (j *Job) Conclude(to jobs.Schedule, now time.Time) {
	if !j.isDue(now) {
		return
	}
	_, relative := to.(jobs.Relative) // it has one where it begins
	next := to.Next(j.next.Add(-1))
	j.concludes = !relative && (next.IsZero() || next.After(now))
	j.behind, j.parted = j.behind || j.parted, false
}

// Remove takes the job out of the list: it claims nothing any more, and waits for no run of an earlier term.
func (j *Job) Remove() { j.listing, j.left = removed, nil }

// List puts the job into the list, with a declaration that the ledger has.
func (j *Job) List(job *jobs.Job) {
	j.job, j.listing, j.concludes, j.behind = job, listed, false, false
}

// IsRemoved reports whether the job is not in the list any more.
func (j *Job) IsRemoved() bool { return j.listing == removed }

// IsChanging reports whether the ledger is being told of a new schedule.
func (j *Job) IsChanging() bool { return j.listing == changing }

// claiming is how far the claims of the job have come.
//
//	from     to       by        when
//	free     asked    Claim     ticks are due
//	asked    free     Answered  the ledger has answered
//	asked    refused  Answered  the ledger has refused one: the job was paused, or its newest tick is not the one that is known
//	refused  free     GoOn      the ledger was read
type claiming uint8

const (
	free claiming = iota
	asked
	refused
)

// Asked is the first tick of the claims that have no answer; false: none is under way.
func (j *Job) Asked() (time.Time, bool) { return j.first, j.claiming == asked }

// GoOn claims again for a job whose claim was refused, or whose newest tick the ledger says is a later
// one: see [Job.Outdated].
func (j *Job) GoOn(cursor time.Time) {
	if j.claiming == refused {
		j.claiming = free
	}
	j.recorded = later(j.recorded, cursor)
	j.known.Cursor = j.recorded
	j.resolve()
}

// Outdated reports whether the job goes on by what the ledger says now, whose newest tick is cursor. The ledger
// moves on without the term when a copy of a refused claim comes late: that row is found among the open ones,
// and its tick is not claimed again.
func (j *Job) Outdated(cursor time.Time) bool {
	return j.claiming == refused || j.claiming == free && cursor.After(j.known.Cursor)
}

// Hold is why a job claims nothing. A pause is none of these: see [Job.stretch].
type Hold uint8

// The holds, in the order in which [Job.Hold] looks for them.
const (
	Due      Hold = iota // nothing: it has ticks to claim
	Removed              // it is not in the list
	Changing             // its schedule is about to change
	NotDue               // it has no tick yet, or none any more
	Asked                // claims have no answer, and ticks are claimed in order
	Refused              // the ledger has refused a claim, and was not read since
	Left                 // runs of an earlier term may go on
	Counting             // its failures are being counted: it may have to pause
	Busy                 // its next tick depends on what runs
)

// Hold returns why the job claims nothing at an instant.
func (j *Job) Hold(now time.Time) Hold {
	switch {
	case j.listing == removed:
		return Removed
	case j.listing == changing:
		return Changing
	case !j.isDue(now):
		return NotDue
	case j.claiming == asked:
		return Asked
	case j.claiming == refused:
		return Refused
	case j.left != nil:
		return Left
	case j.counts > 0:
		return Counting
	case j.waitsForRuns():
		return Busy
	}
	return Due
}

// isDue reports whether the job has ticks to claim, held back or not.
func (j *Job) isDue(now time.Time) bool { return !j.next.IsZero() && !j.next.After(now) }

// waitsForRuns reports whether the next tick depends on what runs.
func (j *Job) waitsForRuns() bool {
	return j.isFixedDelay() && j.Busy() > 0 || // it counts from the end of that
		j.parted && j.Busy() > j.filling() // ticks after the pause would be skipped because of ticks before it
}

// MayPass reports whether what holds the job back passes by itself, soon. If the
// schedule changed before that, ticks that are due by now would be lost.
func (h Hold) MayPass() bool { return h == Asked || h == Refused || h == Left || h == Counting }

// IsDeferred reports whether the job's ticks wait for what is no fault.
func (j *Job) IsDeferred(now time.Time, group []jobs.Pause) bool {
	switch {
	case j.left != nil, j.waitsForRuns():
		return true
	case !j.isDue(now):
		return false
	}
	_, _, ok := j.stretch(now, group)
	return !ok
}

// Count holds the job back while its failures are counted. Each count has its Counted.
func (j *Job) Count() { j.counts++ }

// Counted ends a count.
func (j *Job) Counted() { j.counts-- }

// IsCounting reports whether a count is under way.
func (j *Job) IsCounting() bool { return j.counts > 0 }

// LeaveAlone has the job wait for a run that an earlier term may still be doing, until [Job.TakeUp]. It reports
// whether it is the first one.
func (j *Job) LeaveAlone(record jobs.Record) (first bool) {
	if first = j.left == nil; first {
		j.left = map[jobs.Key]jobs.Record{}
	}
	j.left[record.Key] = record
	return first
}

// LeftAlone is how many runs the job waits for.
func (j *Job) LeftAlone() int { return len(j.left) }

// TakeUp returns the runs that were left alone, in their order, once none of them goes on.
func (j *Job) TakeUp() []jobs.Record {
	left := make([]jobs.Record, 0, len(j.left))
	for _, record := range j.left {
		left = append(left, record)
	}
	slices.SortFunc(left, func(a, b jobs.Record) int {
		return cmp.Or(a.Tick.Compare(b.Tick), cmp.Compare(a.Trigger, b.Trigger))
	})
	j.left = nil
	return left
}

// refusedMost bounds how many refused ticks are remembered.
const refusedMost = 256

// noteRefused remembers a claim that the ledger has refused and that this term has not got since, the newest
// refusedMost of them: their runs never began.
func (j *Job) noteRefused(key jobs.Key) {
	j.forgetRefused(key)
	j.denied = append(j.denied, key)
	j.denied = j.denied[max(0, len(j.denied)-refusedMost):]
}

func (j *Job) forgetRefused(key jobs.Key) {
	j.denied = slices.DeleteFunc(j.denied, func(k jobs.Key) bool { return k == key })
}

// WasRefused reports whether a run has not begun in this term: its claim was refused, and the term has not got
// it since.
func (j *Job) WasRefused(key jobs.Key) bool { return slices.Contains(j.denied, key) }
