package store

import (
	"context"

	"github.com/cronlease/cronlease/jobs"
)

// Spreads is implemented by ledgers whose runs can be spread over all replicas of a group: the leader assigns them, and
// each replica starts and ends its own.
//
// A Claim or Move whose holder assigns ([Holder].Assigns) differs in this from that of any other:
//
//   - A run that it leaves waiting is under its assignee (For), and not under the holder. So a repetition of the move finds
//     the row under the assignee.
//   - What follows it waits under nobody, and changes the number of [Ledger].Changes: the leader is to assign it. Where a
//     run that is no tick of the schedule begins or ceases to wait under nobody, the number may change, too.
//   - A move from Waiting to Waiting of a run that is under anybody takes it away from there, and counts an attempt.
//     So no open row ever comes back to a state, attempt, owner and token that it had before, and a late statement finds another row
//     than it expects.
//   - A move to Running stamps Started with Move.NotBefore, if that is later.
//   - A move compares the fence row of [Holder].Session, if it has one.
//
// All else is as [Ledger] says, also that a move to Running fails whose run is to be cancelled, and that Owner and Token of a row that
// runs or is over are those of the holder.
type Spreads interface {
	Jobs
	Replicas // so that the leader knows which replica has which jobs

	// Open is [jobs.Control].Load without jobs and pauses: the runs that are open, all or, if owner is not empty, those
	// under that owner. It is one plain read.
	Open(ctx context.Context, group, owner string) (jobs.Snapshot, error)

	// SetSpread sets the mode of a group: whether its runs are spread over its replicas. That is a change for
	// [Ledger].Changes. Declare sets it, too, to that of its
	// holder, with the cluster that the holder names.
	SetSpread(ctx context.Context, group string, on bool) error

	// Wake wakes the caller that waits for a [RequestSignal] of the group's lease: what is open has changed. It is a signal, and
	// may be lost.
	Wake(ctx context.Context, group string) error
}

// SessionGroup is the group whose lease is the session of a replica. The prefix is that of sessions: no replicas
// contend for such a group, and its rows are deleted once it is over ([Locks].PruneSessions).
func SessionGroup(owner string) string { return reservedPrefix + "of/" + owner }
