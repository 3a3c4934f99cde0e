package store

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// Replicas is implemented by ledgers that keep the replicas of each group and their
// jobs, so that a leader and the others can tell in what they differ. None of its
// statements decides who leads or what runs, but for Gone: on a ledger without it, a job that
// comes back after any time goes on from its cursor.
type Replicas interface {
	Ledger
	jobs.Registry

	// Enlist tells of a replica: all but Since and Seen. Since stays as it is when
	// the replica is there already, and Seen becomes now. 10,000 jobs with names of 128
	// bytes must fit. Until it has returned, a Roster may lack the replica. An owner or
	// a group that is not a valid name ([CheckName]) is an error.
	Enlist(ctx context.Context, group string, r jobs.Replica) error

	// Refresh sets Seen of a replica to now, if it is there. Whether it is, and has
	// the list that it should have, a Roster tells.
	Refresh(ctx context.Context, group, owner string) error

	// Strike deletes a replica unless it was seen within idle. Zero: in any case.
	Strike(ctx context.Context, group, owner string, idle time.Duration) error

	// Gone notes that h's term does not have these jobs: [jobs.Known.Gone] becomes
	// now, where it was zero. Jobs that the ledger does not know it leaves out. A job that is
	// declared is not gone any more: see [Ledger.Declare]. One that is carried out late may
	// mark a job that h's term has declared since: a term that has such a job looks for it,
	// and declares it again.
	Gone(ctx context.Context, h Holder, names []string) error
}
