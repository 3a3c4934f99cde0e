package jobs

import (
	"context"
	"errors"
	"time"
)

// ErrReplaced says that the token of a statement is not the group's current one
// any more: another term has begun, and this one can claim, start, retry and
// finish nothing.
var ErrReplaced = errors.New("jobs: the term is over: the group has a newer token")

var (
	// ErrNoJob says that the ledger knows no job of that name.
	ErrNoJob = errors.New("jobs: no such job")
	// ErrNoRun says that there is no run under the key that is not over.
	ErrNoRun = errors.New("jobs: no such run")
)

// Ledger records what ran: one row for each (group, job, tick), written by the
// claim that gives the tick to exactly one run, and then its outcome. It is kept
// beside the lease, in the same database, so that each statement of a holder
// compares the group's current token itself.
//
// Every write of a holder is one atomic statement, or a transaction, that takes
// a lock on the fence row and compares owner and token, so that it waits for a takeover
// that is under way and fails after it: with [ErrReplaced] where nothing at all
// was written for that reason. Any other error means that the outcome is
// unknown. Each write may be repeated, and a repetition of one that took effect
// says so, also after the holder was replaced.
//
// Instants of the database are told apart from ticks: ticks are planned by the
// schedules, everything else is stamped by the database's clock. Callers send
// durations.
//
// Implementations are safe for concurrent use, and never hold up heartbeats.
type Ledger interface {
	// Declare says which jobs a term that begins has. A job that is new is known
	// from now on; one whose schedule differs from what the ledger has rules
	// from now on. Jobs that the ledger knows and declared lacks are left
	// alone.
	Declare(ctx context.Context, h Holder, declared []Declared) error

	// Load reads what a term has to know: every job of the group with its
	// cursor, and every run that is not over.
	Load(ctx context.Context, group string) (Snapshot, error)

	// Changes is a number that changes when somebody pauses, resumes, triggers
	// or cancels something in the group, so that a leader need not Load to
	// find out. Claims change it never, and moves only where they take up a
	// run that somebody triggered. It is one cheap read.
	Changes(ctx context.Context, group string) (uint64, error)

	// Claim inserts the rows that are not there yet and returns what stands
	// for each claim, in its order: whether the row is this call's, told by
	// id. The same id is used for each repetition of a call, and for no other
	// call. It is one statement; a store may split a call of hundreds of rows
	// into several, each atomic by itself.
	Claim(ctx context.Context, h Holder, id ClaimID, claims []Claim) ([]Claimed, error)

	// Move changes the state of rows that are still as the move expects them,
	// and makes h their holder. It returns for each whether its row is now as
	// the move wanted it, also by an earlier repetition: a row that waits under
	// h already stays as it is when it is moved to wait. A row whose state is
	// final is not moved. It is one statement, or several as for Claim.
	Move(ctx context.Context, h Holder, moves []Move) ([]bool, error)

	// Prune deletes rows of a job that are over, the oldest first, at most
	// batch of them (zero: 500), and returns how many it deleted. It never
	// deletes the job's newest scheduled tick, which is its cursor.
	Prune(ctx context.Context, group, job string, history History, batch int) (int, error)

	Control
}

// Control is what anybody may do to a group's jobs through the database,
// whoever leads: the leader finds out by [Ledger.Changes].
type Control interface {
	// Pause stops the ticks of a job, or of the whole group when job is empty,
	// until Resume. Ticks of the paused time are recorded as skipped. Pausing
	// twice is pausing once. [ErrNoJob]: the ledger knows no such job.
	Pause(ctx context.Context, group, job string) error
	Resume(ctx context.Context, group, job string) error
	// Trigger asks for a run now, beside the schedule: its tick is the
	// database's present instant, under a key of its own, so that it is run
	// exactly once and moves no cursor. It returns the key. [ErrNoJob].
	Trigger(ctx context.Context, group, job string) (Key, error)
	// Cancel asks for the end of a run that is not over. Asking twice is asking
	// once, also for [Ledger.Changes]. [ErrNoRun]: there is none under the key.
	Cancel(ctx context.Context, group string, key Key) error
	// Runs reads the history, the newest first.
	Runs(ctx context.Context, group string, filter Filter) ([]Record, error)
}

// Holder names the term on whose behalf a statement is.
type Holder struct {
	Group, Owner string
	Token        uint64
}

// Key identifies a run within its group.
type Key struct {
	Job string
	// Tick is in UTC and of whole microseconds.
	Tick time.Time
	// Trigger tells a manual run from the tick of the schedule, which has 0.
	Trigger uint64
}

// ClaimID identifies one call of [Ledger.Claim] over its repetitions.
type ClaimID [16]byte
