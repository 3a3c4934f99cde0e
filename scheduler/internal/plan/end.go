package plan

import (
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// RunEnd is a run that comes to an end, or to its next attempt.
type RunEnd struct {
	Record    jobs.Record
	To        jobs.State
	Why       string
	Took      time.Duration // of the last attempt
	Asked     bool          // its end was asked for, or a newer tick had replaced it
	Cancelled bool          // its cancel was asked for, and a backfill ends with it
	Recovers  bool          // it is its job's recovery
}

// says is what the end says of the run.
func (e RunEnd) says() store.Verdict {
	switch e.To {
	case jobs.Succeeded:
		return store.JobWorks
	case jobs.Failed, jobs.TimedOut, jobs.Panicked, jobs.Interrupted:
		return store.JobFails
	case jobs.Cancelled: // by the end of its term, unless there was another reason
		if !e.Asked && e.Why != NotDeclared && !strings.Contains(e.Why, jobs.ErrReplacedByTick.Error()) {
			return store.JobFails
		}
	}
	return store.NoVerdict
}

// Verdict is what the end says of its job: that of a backfill's run, nothing.
func (e RunEnd) Verdict() store.Verdict { return VerdictOf(e.says(), e.Record) }

// VerdictOf is what the verdict of a run says of its job.
func VerdictOf(v store.Verdict, r jobs.Record) store.Verdict {
	if triggers.IsBackfill(r.Trigger) {
		return store.NoVerdict
	}
	return v
}

// Bounds are what the job's policies give an attempt.
type Bounds struct {
	Timeout time.Duration // 0: none
	Last    bool          // no failure of it is followed by another attempt
}

// Bounds are those of an attempt at a run, the first of which is 1.
func (j *Job) Bounds(attempt int) Bounds {
	_, again := j.job.Retry.After(attempt)
	return Bounds{j.job.Timeout, !again}
}

// AttemptEnd is how an attempt at a run ended.
type AttemptEnd struct {
	State     jobs.State
	Attempt   int
	Shards    int // the run has begun with so many
	Took      time.Duration
	Permanent bool // by what its error says
	Asked     bool // its end was asked for, or a newer tick has replaced it
}

// Next is what follows an attempt.
type Next struct {
	To     jobs.State    // of the run: Waiting before another attempt,
	Delay  time.Duration // which starts after so long
	Counts bool          // the job's failures are counted
	Rest   time.Duration // how long the job stays locked
}

// After is what follows an attempt.
func (j *Job) After(e AttemptEnd) Next {
	n := Next{To: e.State, Rest: max(0, j.job.LockAtLeastFor-e.Took)}
	switch {
	case IsFailure(e.State):
		if wait, again := j.job.Retry.After(e.Attempt); again && !e.Permanent {
			n.To, n.Delay = jobs.Waiting, wait
		}
	case e.State == jobs.Cancelled || e.State == jobs.Interrupted:
		if !e.Asked && j.reruns(e.Attempt, e.Shards) {
			n.To = jobs.Waiting // for the next leader, if this term is over
		}
	}
	n.Counts = j.job.PauseAfter > 0 && IsFailure(n.To)
	return n
}

// IsFailure reports whether an outcome counts as a failure of its job.
func IsFailure(state jobs.State) bool {
	return state == jobs.Failed || state == jobs.TimedOut || state == jobs.Panicked
}
