package ledger

import (
	"encoding/json"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Group is a group's own row. The zero value is that of a group that is not there yet.
type Group struct {
	Changes uint64 // as [store.Changes] has it: a store with request signals sends one when it changes
	Paused  bool
	Pauses  []jobs.Pause
	Opened  jobs.Opened
	// LastEntry and LastRun are the highest numbers that an entry of the audit ([jobs.AuditEntry].ID) and a run ([Run.Number]) have had. A
	// database that numbers rows itself leaves them alone.
	LastEntry, LastRun uint64
}

// Job is a job's row.
type Job struct {
	jobs.Known // but for its cursor, which the runs have
	Pauses     []jobs.Pause
}

// Run is a run's row. What it refers to is never changed.
type Run struct {
	jobs.Record
	ID   store.ClaimID   // of the claim that wrote it
	Args json.RawMessage // nil: none, or not needed; HasArgs tells
	// Verdict is what the move that has ended it says of its job, where the row was put for that.
	Verdict store.Verdict
	// Number tells it from all other runs of the group, also when its key changes. A database that finds runs by
	// their keys leaves it alone.
	Number uint64
}

// Attempt is an attempt at the run of a key.
type Attempt struct {
	jobs.Key
	jobs.Attempt
}

// Keep returns the attempts that are kept of a run once there is one more: see [store.Archive]. One of the same number
// goes, and so do those beyond the last [jobs.MaxAttempts]. It leaves the list that it gets as it is.
func Keep(kept []jobs.Attempt, a jobs.Attempt) []jobs.Attempt {
	var others []jobs.Attempt
	for _, b := range kept {
		if b.Number != a.Number && b.Number > a.Number-jobs.MaxAttempts {
			others = append(others, b)
		}
	}
	return append(others, a)
}
