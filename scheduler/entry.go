package scheduler

import (
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// entry is a job in a term. The term's loop owns it.
type entry struct {
	job      *declared
	group    string
	schedule jobs.Schedule // in force now: for a relative one, what From returned
	known    jobs.Known    // its instants by the clock that ticks are judged by
	anchor   time.Time     // of a fixed rate: ScheduleSince as the ledger has it

	// next is the first tick that has not been dealt with; zero: none.
	next time.Time
	// claiming: a claim of the job is under way. Its ticks are claimed in
	// order, so the next one waits for it.
	claiming bool
	// removed: the job is not in the list any more, but something of it is still
	// under way. changing: its schedule is about to change.
	removed, changing bool
	// refused: the ledger has refused a claim, and was not read since.
	refused bool
	// turnedDown are the ticks whose claims were refused and that this term has
	// not got since, the newest refusedMost of them: their runs never began.
	turnedDown []jobs.Key
	// recorded is the newest tick that the ledger is known to have.
	recorded time.Time
	pauses   []jobs.Pause // of the job alone
	stamped  []jobs.Pause // the same, as the ledger has them
	counting int          // counts of failures that are under way: see pauseafter.go
	pausing  bool         // because of such a count
	// parted: the gap that was claimed last goes on behind a pause.
	parted bool
	asked  time.Time // the first tick of that claim
	gap    gap       // what the first row of that claim says is skipped, if anything
	// skipped is the newest row, if this term has claimed it as skipped: the next ticks
	// that are skipped for the same reason extend it.
	skipped struct {
		tick time.Time
		why  string
	}

	// left are runs of earlier terms that may still go on: see leave.
	left map[jobs.Key]jobs.Record

	runs    map[jobs.Key]*run
	count   [phases]int // of the runs
	resting int         // runs that are over and occupy the job for LockAtLeastFor
	blocked []*run      // runs that wait for room, oldest first

	backfilled [phases]int // of the runs, those of backfills
	backlog    []*run      // runs of backfills whose time has come

	ended       int       // runs that ended since the history was pruned
	pruneAt     time.Time // at the latest, if any has ended
	pruneAtRest time.Time // and if none has
	keepUntil   time.Time // not earlier: see keepBackfill
}

func newEntry(group string, job *declared) *entry {
	return &entry{job: job, group: group, schedule: job.Schedule, runs: map[jobs.Key]*run{}}
}

// resolve recomputes the schedule from what is known, and its next tick.
func (e *entry) resolve() {
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
		if rate, ok := jobs.Base(relative).(jobs.FixedRateSchedule); ok {
			known.ScheduleSince = rate.Anchor(e.anchor, known.ScheduleSince)
		}
		e.schedule = relative.From(known)
	}
	e.next = e.schedule.Next(after)
}

// finished notes that a run has ended, or a tick that counts as one.
func (e *entry) finished(now time.Time) { e.known.Finished = now.UTC().Truncate(time.Microsecond) }

// waiting is how many runs are to start and do not run yet.
func (e *entry) waiting() int { return e.count[parking] + e.count[waiting] + e.count[ready] }

// occupied is how many runs take up room of the job.
func (e *entry) occupied() int { return e.count[ready] + e.count[running] + e.resting }

// busy is how many runs an earlier tick has left.
func (e *entry) busy() int { return e.waiting() + e.count[running] + e.resting }

// filling is how many of these belong to backfills.
func (e *entry) filling() int {
	return e.backfilled[parking] + e.backfilled[waiting] + e.backfilled[ready] + e.backfilled[running]
}

// room reports whether the job lets another run start.
func (e *entry) room() bool {
	if e.left != nil {
		return false
	}
	if e.job.Overlap == jobs.OverlapAllow {
		return e.job.Limit == 0 || e.occupied() < e.job.Limit
	}
	return e.occupied() == 0
}

// lines reports whether ticks that cannot start yet wait in line, instead of
// being skipped as Overlap says. A job that replaces what is older has no line.
func (e *entry) lines() bool {
	switch e.job.Schedule.(type) {
	case jobs.AfterSchedule, jobs.NotifySchedule:
		return true
	}
	return e.job.Misfire == jobs.MisfireAll && e.job.Overlap != jobs.OverlapReplace
}

// line is how many ticks wait in line for their first start.
func (e *entry) line() int {
	if e.waiting() == 0 || !e.lines() {
		return 0
	}
	n := 0
	for key, r := range e.runs {
		first := (r.phase == parking || r.phase == waiting || r.phase == ready) && r.record.Attempt == 0
		if first && (key.Trigger == 0 || triggers.Follows(key.Trigger)) {
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
