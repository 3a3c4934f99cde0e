package ledger

import (
	"encoding/json"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Group is a group's own row.
type Group struct {
	Changes uint64 // as [store.Changes] has it
	Paused  bool
	Pauses  []jobs.Pause
	Opened  jobs.Opened
	// Audits and Runs are how many entries of the audit and how many runs there ever were. A database that numbers
	// rows itself leaves them alone.
	Audits, Runs uint64
}

// Job is a job's row.
type Job struct {
	jobs.Known // but for its cursor
	Pauses     []jobs.Pause
}

// Run is a run's row.
type Run struct {
	jobs.Record
	ID   store.ClaimID // of the claim that wrote it
	Args json.RawMessage
	// Verdict is what the move that has ended it says of its job, where the row was put for that.
	Verdict store.Verdict
	// Number tells it from all other runs of the group, also when its key changes. A database that finds runs by
	// their keys leaves it alone.
	Number uint64
}

// Attempt is an attempt at a run.
type Attempt struct {
	jobs.Key
	jobs.Attempt
}

// Keep adds an attempt to those that are kept of a run: see [store.Archive].
func Keep(kept []jobs.Attempt, a jobs.Attempt) []jobs.Attempt {
	var others []jobs.Attempt
	for _, b := range kept {
		if b.Number != a.Number && b.Number > a.Number-jobs.MaxAttempts {
			others = append(others, b)
		}
	}
	return append(others, a)
}
