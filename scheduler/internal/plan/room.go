package plan

import (
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// Phase is how far a run in hand has come. It decides what the run counts towards.
type Phase uint8

// The phases of a run: scheduler/run.go has the table of what leads from one to the next.
const (
	Gone    Phase = iota // not in hand
	Parking              // is to wait: the ledger is being told
	Held                 // belongs to a backfill, and waits for its turn
	Waiting              // for its time
	Blocked              // waits for room in its job
	Ready                // has the room, and waits for a slot of this replica
	Aside                // has the room and no slot: its row was set aside, and the ledger is being told again and again
	Running              // has a slot: an attempt is in progress, or the ledger is being told
	Resting              // has ended, and its job is locked for a while
	Closing              // is not started any more: the ledger is being told
	phases
)

// Pending reports whether a run of that phase has not started, and is in no write: it can be dropped at once.
func (p Phase) Pending() bool { return p == Held || p == Waiting || p == Blocked || p == Ready }

// HasRoom reports whether a run of that phase has the room of its job: it has started, or is about to.
func (p Phase) HasRoom() bool { return p == Ready || p == Aside || p == Running }

// kind is what a run counts as, by its record at its last Shift.
type kind uint8

const (
	other    kind = iota // a retry, or one that was asked for by hand, or has run
	tick                 // a tick, or what follows a run, before its first start
	backfill             // of a backfill
	kinds
)

func kindOf(r jobs.Record) kind {
	switch {
	case triggers.IsBackfill(r.Trigger):
		return backfill
	case r.Attempt == 0 && (r.Trigger == 0 || triggers.Follows(r.Trigger)):
		return tick
	}
	return other
}

// Seat is the place of a run among those of its job.
type Seat struct {
	phase Phase
	kind  kind
}

// Phase is how far the run has come.
func (s *Seat) Phase() Phase { return s.phase }

// Room is how many runs of a job are in hand, in each phase.
type Room struct {
	count [kinds][phases]int
}

// Shift moves a run on: the only place that counts.
func (r *Room) Shift(s *Seat, record jobs.Record, to Phase) {
	if s.phase != Gone {
		r.count[s.kind][s.phase]--
	}
	s.phase, s.kind = to, kindOf(record)
	if to != Gone {
		r.count[s.kind][to]++
	}
}

func (r *Room) sum(k kind, of ...Phase) (n int) {
	for _, p := range of {
		n += r.count[k][p]
	}
	return n
}

func (r *Room) all(of ...Phase) int {
	return r.sum(other, of...) + r.sum(tick, of...) + r.sum(backfill, of...)
}

// waiting is how many runs are to start and do not run yet.
func (r *Room) waiting() int { return r.toStart(other) + r.toStart(tick) + r.toStart(backfill) }

func (r *Room) toStart(k kind) int { return r.sum(k, Parking, Waiting, Blocked, Ready, Aside) }

// occupied is how many runs take up room of the job.
func (r *Room) occupied() int { return r.all(Ready, Aside, Running, Resting) }

// Busy is how many runs a tick that is due now finds, those that wait and those that rest included.
func (r *Room) Busy() int { return r.waiting() + r.all(Running, Resting) }

// HasReady reports whether a run waits for a replica, or a slot.
func (r *Room) HasReady() bool { return r.all(Ready) > 0 }

// filling is how many of these belong to backfills.
func (r *Room) filling() int { return r.toStart(backfill) + r.sum(backfill, Running, Resting) }

// Admits reports whether the job lets another run start.
func (j *Job) Admits() bool { return j.left == nil && j.occupied() < j.most() }

// IsCrowded reports whether more runs have the room of the job than it lets start: another leader, with another policy, gave it to them.
func (j *Job) IsCrowded() bool { return j.occupied() > j.most() }

// AdmitsHeld reports whether the job lets a run of a backfill start: one at a time, whatever the job allows,
// and in room that no other run waits for, nor a tick that is due. A run that waits for its time, as a retry does, is not due yet.
func (j *Job) AdmitsHeld(now time.Time) bool {
	return !j.isDue(now) && j.all(Parking, Blocked, Ready, Aside) == 0 && j.toStart(backfill)+j.sum(backfill, Running) == 0 && j.Admits()
}

// Recount plans the next tick of a schedule that counts from the end of runs, once none runs. It returns the tick, if
// there is one now and it is another one than before.
func (j *Job) Recount() (next time.Time, changed bool) {
	if _, relative := j.job.Schedule.(jobs.Relative); !relative || j.Busy() > 0 || j.IsRemoved() {
		return time.Time{}, false
	}
	last := j.next
	j.resolve()
	return j.next, !j.next.IsZero() && !j.next.Equal(last)
}

// Displaces reports whether a run ends the earlier ones of its job when it starts: a tick that has not begun, and is
// not too late.
func (j *Job) Displaces(r jobs.Record, now time.Time) bool {
	return j.job.Overlap.Replaces() && r.Trigger == 0 && !HasBegun(r) && !j.IsTooLate(r.Tick, now)
}

// IsReplaced reports whether a run is one of those that end when a later tick of their job starts. claimed is when the ledger
// inserted it, by the clock that ticks are judged by. A run that was claimed only after the later tick was due makes up for
// the same gap: the two follow each other.
func IsReplaced(r jobs.Record, claimed, by time.Time) bool {
	if r.Trigger != 0 {
		return !triggers.IsBackfill(r.Trigger)
	}
	return r.Tick.Before(by) && claimed.Before(by)
}

// isLineFull reports whether as many ticks wait in line as may.
func (j *Job) isLineFull() bool { return j.line() >= j.job.CatchUp.Limit }

// line is how many ticks wait in line for their first start.
func (j *Job) line() int {
	if !j.lines() {
		return 0
	}
	return j.toStart(tick)
}

// HoldsBack reports whether a run has to wait for the end of a pause: a tick that was to start as soon as there
// is room. Retries and runs that were asked for by hand go on.
func (j *Job) HoldsBack(r jobs.Record, group bool) bool {
	return (group || j.known.Paused || j.counts > 0) && !HasBegun(r) && (r.Trigger == 0 || r.Trigger >= triggers.First)
}
