package event

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// RunClaimed says that a term has a tick, or has taken up a run by hand, after another job,
// of a backfill, or that an earlier term has left waiting for its next attempt.
type RunClaimed struct {
	Header
	jobs.Key
	// Waiting: it waits for its time, for an earlier run, or for a slot. PutOff is how long it waits at least, for its planned start
	// ([jobs.Job].Jitter).
	Waiting bool
	PutOff  time.Duration
	// Missed is how many earlier ticks this run stands for, under any misfire policy.
	Missed int
}

// RunStarted says that an attempt begins.
type RunStarted struct {
	Header
	jobs.Key
	// Attempt counts from 1.
	Attempt int
	// First: no attempt at this tick of a schedule has begun before. Late is how long after its tick the run starts, by the
	// clock that ticks are judged by. Zero for all others.
	First bool
	Late  time.Duration
	// Everywhere: the job runs on each replica, without a lease. Its token is 0.
	Everywhere bool
	// Assigned: the leader has assigned the run to this replica (scheduler.WithSpread). The token is that of the replica's session.
	Assigned bool
}

// RunFinished says how an attempt has ended.
type RunFinished struct {
	Header
	jobs.Key
	Attempt    int
	Everywhere bool
	Assigned   bool
	// State is that of the attempt, also if another one follows: never Waiting.
	State jobs.State
	// Err is what the job returned, nil for jobs.Succeeded. Why is what the ledger keeps of it.
	// Cause is why the context of the run had ended, if it had.
	Err   error
	Why   string
	Cause error
	// Took is how long the attempt ran.
	Took time.Duration
	// WillRetry: another attempt follows, after RetryIn at least.
	WillRetry bool
	RetryIn   time.Duration
}

// RunAssigned says that a replica has a run of a group whose runs are spread (scheduler.WithSpread): its leader has assigned it, or
// has found it in the ledger.
type RunAssigned struct {
	Header
	jobs.Key
	// To is the replica, as the owner of leases.
	To string
	// Over: it has the run no longer. The run is over, or the leader takes it up.
	Over bool
}

// NoReplica says that the runs of a job wait, since no replica of the group can have them: none that stays has the job,
// and the labels that it wants.
type NoReplica struct {
	Header
	Job string
	// On are the labels that the job wants, and Replicas how many there are.
	On       jobs.Labels
	Replicas int
	// Over: they do so no longer.
	Over bool
}

// JobFails says whether the last run of a job has failed, by the ledger, where that has changed. The leader of a group
// whose runs are spread tells it, within half a minute of the end of a run, for the runs of all replicas.
type JobFails struct {
	Header
	Job   string
	Fails bool
}

// JobRemoved says that a job is not in the list of this replica any more, and that its term, if it has one, has done with it.
type JobRemoved struct {
	Header
	Job string
	// Everywhere: it ran on each replica.
	Everywhere bool
}

// RunDropped says that a term no longer has a run of which it has told, for another reason than the
// end of its last attempt: what had not started is cancelled, skipped, or left to the
// next leader.
type RunDropped struct {
	Header
	jobs.Key
	// State is what the run is from now on: jobs.Cancelled, jobs.Skipped, or jobs.Waiting if it is
	// not over. Why says the reason, if there is one.
	State jobs.State
	Why   string
}

// RunInterrupted says that a run of an earlier term was found that its holder has not
// finished.
type RunInterrupted struct {
	Header
	jobs.Key
	// Attempt is the one that was interrupted, and By the owner that it ran under.
	Attempt int
	By      string
	// Again: it is run again. If it is not, Why says the reason.
	Again bool
	Why   string
}

// WhyPaused is the reason of ticks that are skipped because the job, or its group, is paused.
const WhyPaused = "paused"

// TicksSkipped says that ticks of a job are not run, and why.
type TicksSkipped struct {
	Header
	Job string
	// From and To are the first and the last tick, Ticks how many there are; from 10,000 on it
	// means that there are at least so many.
	From, To time.Time
	Ticks    int
	Why      string
	// Missed: they were due when no replica could run them.
	Missed bool
	// First: the job has not skipped ticks for this reason within the last minutes.
	First bool
}
