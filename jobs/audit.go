package jobs

import (
	"context"
	"time"
)

// Action is something that is asked of a group.
type Action string

// The actions. Skipping is [Group.ResumeSkipping], and a backfill that is cancelled is
// the cancel of its run.
const (
	ActionPause    Action = "pause"
	ActionResume   Action = "resume"
	ActionSkipping Action = "resume skipping"
	ActionSpread   Action = "spread on"
	ActionGather   Action = "spread off"
	ActionTrigger  Action = "trigger"
	ActionCancel   Action = "cancel"
	ActionBackfill Action = "backfill"
	ActionForget   Action = "forget"
	ActionResign   Action = "resign"
)

// Result is what became of an action.
type Result string

// The results. What is refused before the database is asked, such as arguments that
// are too large, is not recorded, nor is what the database could not carry out.
const (
	// Done: it changed something.
	Done Result = "done"
	// Unchanged: it was so before, as a job that was paused already.
	Unchanged Result = "unchanged"
	// Refused: there is no such job or run, the job is not gone, or the term is over.
	Refused Result = "refused"
)

// AuditEntry is one action. It is a plain value.
type AuditEntry struct {
	// ID grows with each entry.
	ID uint64
	// At is when, by the database's clock.
	At time.Time
	Actor
	Action Action
	// Key is what it was about. Job is empty for the whole group; Tick is zero if it was
	// not about one run.
	Key
	// Note says more, in at most 255 bytes: what a backfill runs, or which term was asked
	// to resign.
	Note   string
	Result Result
}

// AuditFilter selects entries of the audit; the zero value selects all.
type AuditFilter struct {
	// Job leaves out what is not about this job.
	Job string
	// Before leaves out entries whose ID is not below it, so that the last ID of one
	// list gives the list behind it. Zero: from the newest on.
	Before uint64
	// Limit is how many are returned at most. Zero: 100.
	Limit int
}

// Audit reads what was asked of the group, by whom, the newest first. The ledger
// keeps the newest 100,000 entries of a group, for 400 days. The error matches
// [errors.ErrUnsupported] if the store keeps none.
func (g Group) Audit(ctx context.Context, filter AuditFilter) ([]AuditEntry, error) {
	archive, err := g.archive()
	if err != nil {
		return nil, err
	}
	return archive.Audit(ctx, g.name, filter)
}

// PausedBy is the action that has paused the whole group, as far as the audit tells: the newest pause since the group was
// last resumed, but one of a scheduler goes first, which pauses a group whose ledger has gone back ([ViaScheduler]) and
// changes nothing where it is paused already. Zero: there is none. The error matches
// [errors.ErrUnsupported] if the store keeps no audit.
func (g Group) PausedBy(ctx context.Context) (by AuditEntry, err error) {
	const pages, size = 5, 1000
	filter := AuditFilter{Limit: size}
	for range pages {
		list, err := g.Audit(ctx, filter)
		if err != nil {
			return AuditEntry{}, err
		}
		for _, e := range list {
			switch {
			case e.Job != "":
			case e.Action == ActionPause && e.Via == ViaScheduler:
				return e, nil
			case e.Action == ActionPause && e.Result == Done && by.ID == 0:
				by = e
			case (e.Action == ActionResume || e.Action == ActionSkipping) && e.Result == Done:
				return by, nil
			}
		}
		if len(list) < size {
			break
		}
		filter.Before = list[len(list)-1].ID
	}
	return by, nil
}
