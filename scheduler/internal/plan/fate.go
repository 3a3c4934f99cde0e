package plan

import (
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// Found is a run that the ledger has as open, and what is known of it.
type Found struct {
	Record jobs.Record
	InHand bool
	Ours   bool // it is under this term's token
	Stands bool // a run of an earlier term may still go on
}

// Fate is what becomes of a run that the ledger has as open.
type Fate uint8

// The fates: package scheduler carries them out, in found.go.
const (
	KeepOn      Fate = iota // nothing: it is in hand, or it is the next leader's
	Stop                    // it is in hand, and ends: its end was asked for
	LeaveAlone              // an earlier term may still be doing it
	Cancel                  // it is closed: its end was asked for
	LineUp                  // it follows another run, and stands in line
	HoldBack                // it belongs to a backfill, and waits for its turn
	Start                   // it starts once its time has come
	RunAgain                // it was interrupted, and starts with its next attempt
	Interrupted             // it was interrupted, and is closed
	Reclaim                 // it is under this term's token and not in hand, and starts
	Lapse                   // the same, and it is too late to start
)

// Fate decides what becomes of a run that the ledger has as open. A run under this term's token that is not
// in hand is one that a restored table has, or a claim that was refused and arrived late once more. The run of
// such a claim never began, so it is run whatever [jobs.Recover] says.
func (j *Job) Fate(f Found, now time.Time) Fate {
	r := f.Record
	first := r.Attempt == 0
	switch {
	case f.InHand && r.CancelAsked:
		return Stop
	case f.InHand, j.listing == removed: // and something else of it is under way
		return KeepOn
	case j.IsLeft(f):
		return LeaveAlone
	case r.CancelAsked:
		return Cancel
	case r.State == jobs.Waiting && first && triggers.Follows(r.Trigger):
		return LineUp
	case r.State == jobs.Waiting && IsHeld(r):
		return HoldBack
	case r.State == jobs.Waiting:
		return Start
	case !f.Ours && j.reruns(r.Begun(), r.Shards):
		return RunAgain
	case !f.Ours:
		return Interrupted
	case j.WasRefused(r.Key) && j.IsTooLate(r.Tick, now):
		return Lapse
	case j.WasRefused(r.Key), j.reruns(r.Begun(), r.Shards):
		return Reclaim
	}
	return Interrupted
}

// IsLeft reports whether a run is left alone: an earlier term may still be doing it. A term whose lease was
// taken before its time was up can start no run any more, but one that goes on is only cancelled when its process
// learns of that, or by the trust deadline at the latest. Until then its job starts nothing, and its row stays
// open: if this term ends meanwhile, the next one has to leave it alone, too.
func (j *Job) IsLeft(f Found) bool {
	return f.Stands && !f.Ours && !f.InHand && j.listing != removed && f.Record.State == jobs.Running
}

// IsHeld reports whether a run that waits belongs to a backfill, and has not begun.
func IsHeld(r jobs.Record) bool { return !HasBegun(r) && triggers.IsBackfill(r.Trigger) }

// HasBegun reports whether an attempt at a run has begun, as far as its record knows: that of a start counts the attempt.
func HasBegun(r jobs.Record) bool { return r.Begun() > 0 }

// WhyInterrupted is why a run is closed that was interrupted.
func (j *Job) WhyInterrupted(r jobs.Record, ours bool) string {
	switch {
	case ours:
		return "not in hand of its holder"
	case j.job.Recover == jobs.RecoverRerun && !j.reruns(r.Begun(), r.Shards):
		return "not finished by " + r.Owner + ", and interrupted too often to be run again"
	}
	return "not finished by " + r.Owner
}

// LineUp says why a run that follows another one is skipped in place of standing in line; empty: it is not. claimed
// is when the ledger inserted it.
func (j *Job) LineUp(claimed time.Time, group []jobs.Pause) (skip string) {
	switch {
	case j.isInPause(claimed, group):
		return event.WhyPaused
	case j.isLineFull():
		return lineFull
	}
	return ""
}

// Wait is how long a run that waits may have to wait at most, of what its Due says: by the database's clock
// alone it would be as much longer as that clock was set back meanwhile.
func (j *Job) Wait(r jobs.Record, now time.Time) time.Duration {
	longest := j.job.Jitter // for room alone without one
	if HasBegun(r) {
		longest = j.job.Retry.Longest(r.Begun()) // zero for one that was handed on by a clean stop
	}
	return min(r.Due.Sub(now), longest)
}

// HasLapsed reports whether a run is too late to start: a tick that has not begun.
func (j *Job) HasLapsed(r jobs.Record, now time.Time) bool {
	return !HasBegun(r) && r.Trigger == 0 && j.IsTooLate(r.Tick, now)
}
