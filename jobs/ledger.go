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
// durations, and instants only where the database has told them before.
//
// Every instant is in UTC and of whole microseconds, ticks too. Callers send valid
// names ([github.com/cronlease/cronlease/store.CheckName]), and counts and durations
// that are not negative; a store may refuse others, and need not. A call without
// claims or moves does nothing, succeeds and need not compare the token.
//
// A term is over when the fence row has another token, and not before: the writes
// of a term that has released its lease succeed until then. No fence row has an
// empty owner or the token 0, so such a holder never is the current one.
//
// Implementations are safe for concurrent use, and never hold up heartbeats.
type Ledger interface {
	// Declare says which jobs a term that begins has, and notes that this term
	// has opened the ledger ([Snapshot.Opened]). A job that is new is known from
	// now on. A schedule that differs from what the ledger has is in force from
	// [Declared.From], but neither from earlier than the previous schedule nor from
	// later than now. An unchanged schedule keeps the instant that it has. If the
	// ledger has an instant of the future, the database's clock was wrong, and the
	// instant does not count: the schedule is in force from [Declared.From], and not
	// from later than now. Jobs that the ledger knows and declared lacks are left alone.
	Declare(ctx context.Context, h Holder, declared []Declared) error

	// Load reads what a term has to know: every job of the group with its
	// cursor, and every run that is not over.
	Load(ctx context.Context, group string) (Snapshot, error)

	// Changes reads a number and the database's clock. The number changes with
	// each pause, resume, trigger or cancel request in the group, so that a leader
	// need not Load to find out. Claims never change it. A move that takes up a
	// manual run may change it; other moves never do. It is one cheap read.
	Changes(ctx context.Context, group string) (Changes, error)

	// Claim inserts the rows that are not there yet and returns what stands
	// for each claim, in its order: whether the row is this call's, told by
	// id. The same id is used for each repetition of a call, and for no other
	// call; a repetition may have a part of the claims only. It is one statement; a store may split a call of hundreds of rows
	// into several, each atomic by itself, in the order of the rows' keys. The
	// ledger need not know the job.
	//
	// After the holder was replaced, Claim fails with [ErrReplaced] unless every
	// row is there already, under any holder. Rows that an earlier call wrote stand.
	//
	// Two kinds of claims write no row and are answered by [Claimed.Refused]. A
	// scheduled tick that is not later than every tick of the job that was there
	// before the call: a claim that arrives late must not bring back a tick that
	// was run and pruned. And a scheduled tick to run or to wait while its job or
	// the group is paused, so that a pause which has returned stops the next tick;
	// it may be claimed as skipped.
	Claim(ctx context.Context, h Holder, id ClaimID, claims []Claim) ([]Claimed, error)

	// Move changes the state of rows that are still as the move expects them,
	// and makes h their holder. It returns for each whether its row is now as
	// the move wanted it, also by an earlier repetition: a row that waits under
	// h already stays as it is when it is moved to wait. A row whose state is
	// final is not moved. It is one statement, or several as for Claim. After h was
	// replaced, the answer tells what an earlier repetition did, and is [ErrReplaced]
	// if it did nothing.
	Move(ctx context.Context, h Holder, moves []Move) ([]bool, error)

	// PassOver takes the runs of a job whose ticks are later than an instant out
	// of its schedule, and returns how many there were: each gets the holder's
	// token for its Trigger, so that it is not the job's cursor any more and its
	// tick can be claimed again. It is for ticks that were claimed under a wrong
	// clock, far in the future. Runs under the holder's own token are left where
	// they are: a repetition that is carried out late must not take a run in hand
	// out of the schedule.
	PassOver(ctx context.Context, h Holder, job string, after time.Time) (int, error)

	// Prune deletes rows of a job that are over, those of the oldest ticks first
	// (and of one tick, by Trigger), at most batch of them (zero: 500), and returns how many it deleted. It never
	// deletes the job's newest scheduled tick, which is its cursor.
	Prune(ctx context.Context, group, job string, history History, batch int) (int, error)

	Control
}

// Control changes a group's jobs through the database. It needs no lease: the
// leader finds out by [Ledger.Changes].
type Control interface {
	// Pause stops the ticks of a job, or of the whole group when job is empty,
	// until Resume. Both instants are taken from the database's clock. Ticks of
	// the time between are recorded as skipped, also when no replica led meanwhile;
	// ticks before it that were not run yet go through the misfire policy after
	// Resume. A claim that begins once Pause has returned does not run
	// ([Ledger.Claim]). One that was under way when the pause was committed may
	// still become a run, later by at most what the database lets a statement wait
	// for a lock (mysqlstore: 5 s). A tick that was claimed to wait is held back
	// from when the leader has noticed, within about a second. Runs that go on,
	// retries and manual runs are not stopped.
	//
	// A ledger keeps the newest [MaxPauses] pauses of each job and of each group.
	// With more of them while no replica leads, the oldest are forgotten, and the next
	// leader treats their ticks as missed, not as paused.
	//
	// Pausing twice is pausing once, also for [Ledger.Changes], and so is
	// resuming. [ErrNoJob]: the ledger knows no such job.
	Pause(ctx context.Context, group, job string) error
	Resume(ctx context.Context, group, job string) error
	// ResumeSkipping is Resume, and the ticks before the pause that were not
	// claimed are skipped like those of the pause: its beginning becomes unknown
	// ([Pause.Began] is zero). What is not paused stays as it is.
	ResumeSkipping(ctx context.Context, group, job string) error
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
