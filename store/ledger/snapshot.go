package ledger

import (
	"slices"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
)

// Snapshot is what a page shows of a group and of the jobs on it, together with the group's runs that are not over, which
// the store has read in the order of their ticks: the answer to Load and LoadOf.
func (tx *Tx) Snapshot(open []jobs.Record) jobs.Snapshot {
	s := jobs.Snapshot{
		Now: tx.Now, Server: tx.Server, Changes: tx.Group.Changes, Paused: tx.Group.Paused, Opened: tx.Group.Opened,
		Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{}, Open: open,
	}
	if len(tx.Group.Pauses) > 0 {
		s.Pauses[""] = slices.Clone(tx.Group.Pauses)
	}
	for name, known := range tx.Jobs {
		known.Cursor = tx.Newest[name]
		s.Jobs[name] = known.Known
		if len(known.Pauses) > 0 {
			s.Pauses[name] = slices.Clone(known.Pauses)
		}
	}
	ledgerrows.CountStarts(s)
	return s
}
