package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// ErrReplaced says that the token of a statement is not the group's current one
// any more: another term has begun, and this one can claim, start, retry and
// finish nothing.
var ErrReplaced = errors.New("store: the term is over: the group has a newer token")

// ErrOtherServer says that another server has answered than the one that the holder named
// ([Holder.Server]), and that nothing was written there.
var ErrOtherServer = errors.New("store: another server answers than the one that this term has read")

// Jobs keeps a group's lease and the ledger of its runs in one database: what
// package scheduler works on.
type Jobs interface {
	Leases
	Ledger
}

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
// Claim and Move write on no other server than the one that the holder names, if it names one: after a
// failover, what they rest on may be lost, and a claim would hide the ticks before it. They fail with
// [ErrOtherServer] then. Where several servers take writes and none may lack what another
// has confirmed, any of these is the one.
//
// Ticks are planned by the schedules; every other instant is stamped by the
// database's clock.
//
// A term is over when the fence row has another token, and not before: the writes
// of a term that has released its lease succeed until then. No fence row has an
// empty owner or the token 0, so such a holder never is the current one.
type Ledger interface {
	// Declare says which jobs a term that begins has, and notes that this term
	// has opened the ledger ([jobs.Snapshot.Opened]). A job that is new is known from
	// now on. A schedule that differs from what the ledger has is in force from
	// [Declared.From], but neither from earlier than the previous schedule nor from
	// later than now. An unchanged schedule keeps the instant that it has. If the
	// ledger has an instant of the future, the database's clock was wrong, and the
	// instant does not count: the schedule is in force from [Declared.From], and not
	// from later than now. Jobs that the ledger knows and declared lacks are left alone.
	Declare(ctx context.Context, h Holder, declared []Declared) error

	// Changes reads a number and the database's clock. The number changes with
	// each pause, resume, trigger or cancel request in the group, so that a leader
	// need not Load to find out; a pause, resume or cancel that changes nothing
	// does not change it. Claims and followers never change it. A move that takes up a manual run
	// may change it; other moves never do. It is one cheap read.
	Changes(ctx context.Context, group string) (Changes, error)

	// Claim inserts the rows that are not there yet and returns what stands
	// for each claim, in its order: whether the row is this call's, told by
	// id. The same id is used for each repetition of a call, and for no other
	// call; a repetition may have a part of the claims only. It is one statement;
	// a store may split a call of hundreds of rows into several, each atomic by
	// itself, in the order of the rows' keys. The ledger need not know the job.
	//
	// After the holder was replaced, Claim fails with [ErrReplaced] unless every
	// row is there already, under any holder. Rows that an earlier call wrote stand.
	//
	// Three kinds of claims write no row and are answered by [Claimed.Refused]. A
	// scheduled tick that is not later than every tick of the job that was there
	// before the call: a claim that arrives late must not bring back a tick that
	// was run and pruned. A scheduled tick whose holder knows a later one than the newest that is there
	// ([Claim.After]). And a scheduled tick to run or to wait while its job or
	// the group is paused, so that a pause which has returned stops the next tick;
	// it may be claimed as skipped.
	//
	// Followers ([Claim].Then) are inserted by the call that inserts the claim's row, in the same transaction, and not
	// by a repetition. Otherwise they are as those of Move. A call without any stays the one statement that it is.
	Claim(ctx context.Context, h Holder, id ClaimID, claims []Claim) ([]Claimed, error)

	// Move changes the state of rows that are still as the move expects them,
	// and makes h their holder. It returns for each whether its row is now as
	// the move wanted it, also by an earlier repetition: a row that waits under
	// h already stays as it is when it is moved to wait. A row whose state is
	// final is not moved. Followers are inserted by the call that changes the row, in the
	// same transaction, and not by a repetition, which may come after a follower was run
	// and pruned; a row that is there under a follower's key stays as it is. A row whose end was
	// asked for is not moved to Running, so that a cancel request which has returned stops the
	// next attempt. A follower that belongs to
	// a backfill is not inserted if the end of the moved run was asked for. A follower
	// has a trigger, and the ledger need not know its job. It is one statement; a store may split a
	// call of hundreds of rows into several, each atomic by itself, in the order of the moves. After h was
	// replaced, the answer tells what an earlier repetition did, and is [ErrReplaced]
	// if it did nothing.
	//
	// A move to a final state that changes its row also writes its verdict to its job
	// ([jobs.Known.Failing]), in the same atomic step. Of the moves of one job in a call, the
	// last one counts that has a verdict and changes its row. A move that changes nothing,
	// because it is refused or a repetition, writes no verdict either, nor does one whose job
	// the ledger does not know.
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
	Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error)

	jobs.Control
}

// Holder names the term on whose behalf a statement is.
type Holder struct {
	Group, Owner string
	Token        uint64
	// Server is the one that has shown the ledger to the term ([jobs.Snapshot.Server]). Claim and
	// Move compare it; the other methods do not. Empty: any.
	Server string
	// Cluster is that of [jobs.Snapshot.Home] for the first Declare of a term, of a holder that assigns.
	Cluster string
	// Session is the group whose fence row a Move compares, where that is not Group: a replica moves the runs that were
	// assigned to it by its session, a lease of its own. See [Spreads].
	Session string
	// Assigns is for [Spreads]: the holder's Claim and Move leave what waits under an [Assignee].
	Assigns bool
}

// Fence is the group whose fence row a Move compares.
func (h Holder) Fence() string { return cmp.Or(h.Session, h.Group) }

// Opens is what Declare notes of this holder after what was noted before, but for the instant. The mode is that of the holder only
// where the group has none: a holder that has another one does not undo a switch.
func (h Holder) Opens(was jobs.Opened) jobs.Opened {
	is := jobs.Opened{Token: h.Token, Spread: h.Assigns}
	if was.HasMode() {
		is.Spread = was.Spread
	}
	if h.Assigns {
		is.Cluster = h.Cluster
	}
	return is
}

// Keeps is under whom a row is that a claim or move of this holder leaves in a state.
func (h Holder) Keeps(state jobs.State, to Assignee) Assignee {
	if h.Assigns && state == jobs.Waiting {
		return to
	}
	return Assignee{h.Owner, h.Token}
}

// Assignee is a replica that a waiting run is assigned to, and the token of its session. Zero: nobody.
type Assignee struct {
	Owner string
	Token uint64
}

// ClaimID identifies one call of [Ledger.Claim] over its repetitions.
type ClaimID [16]byte

// MaxPauses is how many pauses a ledger keeps of each job, and of each group:
// the newest. They only matter for ticks that no leader has dealt with yet.
const MaxPauses = 64

// MaxError is how much of an error's text the ledger keeps, in bytes.
const MaxError = 2000

// Declared is what the ledger keeps of a job.
type Declared struct {
	Name string
	// Schedule is the text of [jobs.Schedule.String].
	Schedule string
	// From is when the schedule comes into force if it differs from what the ledger
	// has, or if that lies in the future. Zero, or later than now: from now on.
	From time.Time
	// Now is the present by the clock that ticks are judged by, if that is not the database's: From, and [jobs.Known].ScheduleSince
	// of the job, are by it. Zero: by the database's.
	Now time.Time
}

// Changes is an answer of [Ledger.Changes].
type Changes struct {
	Number uint64
	// Now is the database's clock.
	Now time.Time
	// Server is the identity of the database server that answered, as that of a
	// reading of the lease.
	Server string
}

// Claim is a tick to claim.
type Claim struct {
	jobs.Key
	// State is Running, Waiting or Skipped. [Ledger.Claim] fails for any other.
	State jobs.State
	// Delay is how long a Waiting run has to wait, from now. What is below a
	// microsecond is cut off.
	Delay time.Duration
	// Missed and Error are as in [jobs.Record].
	Missed int
	Error  string
	// After is the job's newest scheduled tick as the holder knows it, for a scheduled tick. A ledger whose newest one is
	// earlier, or that has none, has gone back, and the claim would hide the ticks between them: it is refused. Zero: any. The
	// claims of one job in a call have the same.
	After time.Time
	// Extends makes consecutive skipped ticks one row: the tick of a row that this
	// claim, a scheduled tick as Skipped, takes over. It does if that row has the job's
	// newest scheduled tick, and is Skipped for the same Error under the same holder.
	// Then the row gets the claim's tick and id, the present as its Finished, and counts
	// in Missed what it did before, itself, and this Missed. That is one atomic step.
	// Where the row is not like that, Extends is zero, or runs follow the claim (Then), it
	// inserts a row like any other. Nothing is left of the tick of before but the count: it is not later
	// than the newest, so it cannot be claimed again.
	Extends time.Time
	// For is whom a run is assigned to that the claim of a holder that assigns leaves Waiting, and Details are the row's then.
	For Assignee
	jobs.Details
	// Then are runs that follow: the claim that inserts its row inserts them with it, or
	// neither is done. See [Ledger.Claim].
	Then []Follower
}

// Claimed is what stands for a claim after it. State is zero when nothing does,
// and only the key is set: the claim was refused, as [Ledger.Claim] says.
type Claimed struct {
	// Mine: the row was written by this call, or an earlier repetition of it.
	Mine bool
	jobs.Record
}

// Refused reports that the claim was refused and that there is no row.
func (c Claimed) Refused() bool { return c.State == 0 }

// Move is a change of a row's state.
type Move struct {
	jobs.Key
	// What the row has to be.
	From    jobs.State
	Attempt int
	Owner   string
	Token   uint64
	// What it becomes. To Running counts an attempt; to Waiting makes it due
	// after Delay. CancelAsked stays as it is: of a row that is not moved to Running, a cancel
	// request that came in between is found by the next look at [Ledger.Changes].
	To    jobs.State
	Delay time.Duration
	Error string
	// Verdict is what the end of the run says of its job; see [Ledger.Move]. That of a move to
	// Running or Waiting does not count.
	Verdict Verdict
	// Output is the end of what the attempt that ends has printed, for an [Archive]; of
	// more than [jobs.MaxOutput] bytes, the last ones are kept.
	Output []byte
	// Then are runs that follow: the move that changes the row inserts them with it, or
	// neither is done. See [Ledger.Move].
	Then []Follower
	// For is whom a run is assigned to that a holder that assigns moves to Waiting.
	For Assignee
	// NotBefore is the least instant that Started becomes, of a run that such a holder moves to Running: the database's clock
	// may be behind it. Of whole microseconds.
	NotBefore time.Time
	// What the row's Details become, whatever they were.
	jobs.Details
}

// Verdict is what the end of a run says of its job: whether the job works.
type Verdict uint8

// What the end of a run may say of its job.
const (
	NoVerdict Verdict = iota // it says nothing: [jobs.Known.Failing] stays as it is
	JobWorks                 // Failing becomes false
	JobFails                 // Failing becomes true
)

// Follower is a run that a [Move] or a [Claim] inserts. It waits under the holder, as a
// claim leaves it.
type Follower struct {
	jobs.Key
	// Delay and Backfill are as in [Claim] and [jobs.Record].
	Delay    time.Duration
	Backfill string
	// Args are its arguments, as [jobs.CheckArgs] wants them. Nil: those of the run that is
	// moved; a claim has none.
	Args json.RawMessage
}
