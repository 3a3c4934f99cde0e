package event

import "github.com/cronlease/cronlease/jobs"

// Action is what was asked of a leader.
type Action string

// The actions.
const (
	Paused       Action = "pause"
	Resumed      Action = "resume"
	Triggered    Action = "trigger"
	CancelAsked  Action = "cancel"
	ResignAsked  Action = "resign"
	PausedByRuns Action = "pause_after" // the job's runs failed too often
)

// Control says that the leader has noticed what was asked of it.
type Control struct {
	Header
	Action Action
	// Key names the run of a trigger or a cancel; for a pause or a resume it has the job
	// alone, and nothing when the whole group is meant.
	jobs.Key
}
