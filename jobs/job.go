package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/names"
)

// Job is what to run and when. It is declared once, in code that is the same on
// every replica, and not changed after it was given to a scheduler.
type Job struct {
	// Name identifies the job within its group and must never change: 1 to 128
	// ASCII letters, digits and . _ : / @ + -, the first a letter or a digit.
	Name string
	// Schedule says which instants are ticks of the job.
	Schedule Schedule
	// Jitter puts the start of each run off, so that many jobs of one instant do not
	// start at once: by less than Jitter, as [Job.Delay] says. The tick stays the
	// planned instant. It is claimed when it is due, and its run waits: Misfire and
	// Overlap decide at the tick, and CatchUp.Deadline counts from the planned start.
	// A run whose planned start has passed, as that of a missed tick, starts at once,
	// and so does one that is triggered.
	// Zero: no delay. It must not be longer than the time between two ticks.
	Jitter time.Duration
	// PauseAfter pauses the job when so many of its runs in a row have failed, timed
	// out or panicked, with no attempt left; manual runs count. Runs that were
	// skipped, cancelled or interrupted do not count. The count starts over with a
	// run that succeeds, and when the job is resumed. Zero: never; at most 1000. The
	// history has to keep as many runs.
	PauseAfter int
	// Timeout limits one attempt: its context then ends with the cause
	// [ErrTimeout]. Zero means no limit but the term's.
	Timeout time.Duration
	// Misfire and CatchUp say what becomes of ticks that were missed.
	Misfire Misfire
	CatchUp CatchUp
	// Recover says what becomes of a run that its holder did not finish.
	Recover Recover
	// Retry says how often a run that failed is tried again.
	Retry Retry
	// Overlap says what becomes of a tick that is due while an earlier run is
	// not over.
	Overlap Overlap
	// Limit is how many runs there may be at a time under [OverlapAllow].
	// Zero: any number.
	Limit int
	// Priority says which run starts first, of those that wait for a slot. Default [PriorityNormal].
	Priority Priority
	// Pool limits how many runs go on at a time, of this job and others together. Default none.
	Pool Pool
	// LockAtMostFor is ShedLock's name for the limit of a run: it stands in for
	// Timeout where that is zero.
	LockAtMostFor time.Duration
	// LockAtLeastFor keeps the job occupied for so long from the start of a
	// run, as ShedLock does, even if the run is shorter and over a takeover:
	// what is due meanwhile is treated by Overlap, and retries, reruns and
	// manual runs wait. A new leader goes by the last start that the ledger
	// has. It does not prevent double runs; the claim does. Zero: no longer than
	// the run.
	LockAtLeastFor time.Duration
	// History says which runs the ledger keeps. Where both of its fields are zero:
	// 10,000 runs, or those of 30 days if that is less. In MySQL one takes about 400 bytes, and so 5,000 frequent jobs 20 GB.
	History History
	// Everywhere runs the job on each replica. It is for what is local to a machine, such as a cache that is to be filled.
	//
	// In a group whose runs are spread (scheduler.WithSpread), each run is divided as one with Shards is, with a part
	// for each replica that lives when it begins, has the job and the labels of On: at most [MaxShards]. A part runs on
	// its replica alone, also when it is tried again. One whose replica is gone before it has begun is skipped, and
	// does not count as a failure. So the job has a history, and can be triggered, paused and cancelled. Prefer and
	// Sticky do not apply.
	//
	// In any other group each replica runs the job by itself, leader or not: without the lease and the ledger, by its
	// own clock, also while the database is away. A run never overlaps the one before on that replica; ticks that come
	// meanwhile, or that a replica misses, are not made up for. FixedRate and FixedDelay count from when Run begins, or
	// from when the job is added after that. A run of the leader that goes on when the job becomes such a job is not
	// waited for. Timeout, Retry and Jitter apply. What needs the ledger does not, and is an error ([Job.ValidateIn]);
	// the job cannot be triggered, paused or cancelled. Its runs have no token ([Run.Token] is zero), and fenced work
	// refuses them.
	Everywhere bool
	// ConcurrencyKey is the name of a member of the arguments, such as "customer": of the runs that have the same value there, one goes on
	// at a time, and the others wait, also where other runs of the job overlap ([OverlapAllow], which it needs). Runs without arguments, or
	// without that member, wait for none. The leader reads the arguments of what is next in line. Empty: none.
	ConcurrencyKey string
	// On are labels that a replica needs to run the job, in a group whose runs are spread over its replicas
	// (scheduler.WithSpread). While no replica has them, its runs wait, and the leader's log says so. Nil: any replica.
	On Labels
	// Prefer are labels that the replica should have, in such a group: of those that can have the run now, one with the most of them gets
	// it, and only then the one with the fewest runs. Retries go elsewhere all the same, and nothing to one that is slow to begin. Nil: none.
	Prefer Labels
	// Sticky has the runs of the job go to one replica in such a group, for what it keeps between them, such as a
	// cache: of those that Prefer leaves, always the same, as long as it can have them. When a replica comes, it gets
	// few such jobs of others; when one goes or is full, its jobs go to different others. A retry goes elsewhere.
	Sticky bool
	// Shards divides each run into so many parts, at most [MaxShards]. Each part is a run of its own, of the job that
	// [ShardsOf] names, and Do learns from [Run].Shard which one it is. In a group whose runs are spread, replicas do
	// them at the same time. A run of the job itself takes no slot. It begins with its parts and ends when all of them
	// have ended. It has failed unless each has succeeded, and what follows the job, or tells of it, goes by that.
	// Schedule, Jitter, Misfire, CatchUp, Overlap, LockAtLeastFor and PauseAfter are of the whole; Timeout, Retry,
	// Recover, Priority, Pool, On and Prefer of each part. Cancelling the whole cancels its parts. Runs that have begun
	// keep the number that they began with. Zero: the runs are not divided.
	Shards int
	// About says what the job does, for people who look at it, such as its command line.
	// Nothing goes by it. It must hold no secrets: the page shows it. Empty: nothing.
	About string
	// Do does the work. It has to return soon after ctx has ended:
	// [context.Cause] says why it did. A panic is recovered and counts as an
	// error ([PanicError]).
	Do func(ctx context.Context, run Run) error
}

// Run says which run of which tick a [Job] is asked to do.
type Run struct {
	Group string
	Job   string
	// Tick is the planned instant, in UTC. It is the same on every replica,
	// however late the run starts.
	Tick time.Time
	// Owner is the replica that runs it. Token is the term's that the run belongs to, and where runs are spread the attempt's
	// own. Hand it to whatever the job writes to, so that it can refuse older ones.
	Owner string
	Token uint64
	// Attempt is the number of this attempt at the tick, from 1.
	Attempt int
	// LastAttempt: there is no attempt after this one if it fails, times out or
	// panics. A run that is interrupted may be run again all the same ([Recover]), and a
	// job that is replaced meanwhile may have more attempts.
	LastAttempt bool
	// Previous is how the attempt before this one ended: of the same run, also under
	// an earlier term. Its State is zero for the first attempt.
	Previous Previous
	// Shard is which part of Shards parts this is, from 0, for a job with [Job].Shards, or one with Everywhere where
	// runs are spread. Else both are zero.
	Shard, Shards int
	// Missed counts the ticks right before this one that it stands for; from
	// 10,000 on it means that at least so many were missed.
	Missed int
	// Trigger is not zero for a run beside the schedule: one that was triggered by hand,
	// that follows a run of another job, or that belongs to a backfill.
	Trigger uint64
	// Args are the arguments that the run was triggered with, as JSON; nil for none.
	// [ArgsOf] decodes them. They may hold secrets, so do not log them.
	Args json.RawMessage
}

// Key identifies the run in the ledger.
func (r Run) Key() Key { return Key{Job: r.Job, Tick: r.Tick, Trigger: r.Trigger} }

// Causes of a run's context that are not its term's.
var (
	// ErrTimeout: the run reached its job's Timeout.
	ErrTimeout = errors.New("jobs: timeout")
	// ErrCancelled: the run was cancelled on request.
	ErrCancelled = errors.New("jobs: cancelled on request")
	// ErrReplacedByTick: a newer tick of the job took its place.
	ErrReplacedByTick = errors.New("jobs: replaced by a newer tick")
)

// PanicError is the error of a run that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("jobs: panic: %v", e.Value) }

// Unwrap returns the value if the job panicked with an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Validate reports everything that keeps the job from being scheduled, joined with
// [errors.Join].
func (j Job) Validate() error {
	var wrong []error
	fault := func(is bool, format string, values ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, values...))
		}
	}
	fault(j.Schedule == nil, "no Schedule: give it one, for example jobs.Every(time.Minute)")
	fault(j.Do == nil, "no Do: give it the function to run")
	fault(j.ConcurrencyKey != "" && j.Overlap != OverlapAllow, "ConcurrencyKey %.80q: needs OverlapAllow: otherwise no two runs of the job go on at a time", j.ConcurrencyKey)
	fault(j.On.Validate() != nil, "On: %w", j.On.Validate())
	fault(j.Prefer.Validate() != nil, "Prefer: %w", j.Prefer.Validate())
	fault(j.Timeout < 0, "Timeout %v: must not be negative", j.Timeout)
	if s, ok := j.Schedule.(interface{ Err() error }); ok && s.Err() != nil {
		wrong = append(wrong, parts(s.Err())...)
	} else if j.Schedule != nil {
		wrong = append(wrong, parts(goesOn(j.Schedule))...)
	}
	fault(int(j.Misfire) >= len(misfireNames), "Misfire %d: not known", j.Misfire)
	fault(int(j.Recover) >= len(recoverNames), "Recover %d: not known", j.Recover)
	fault(int(j.Overlap) >= len(overlapNames), "Overlap %d: not known", j.Overlap)
	fault(int(j.Priority) >= len(priorityNames), "Priority %d: not known", j.Priority)
	if _, ok := j.Schedule.(AfterSchedule); ok {
		fault(j.Jitter > 0, "Jitter %v: a job after another one starts when that has ended", j.Jitter)
		fault(j.Overlap.Replaces(), "overlap replace: a job after another one runs for each of its ticks, and replaces none")
	}
	if _, ok := j.Schedule.(NotifySchedule); ok {
		fault(j.Jitter > 0, "Jitter %v: a job that tells of other jobs starts when there is something to tell", j.Jitter)
		fault(j.Overlap.Replaces(), "overlap replace: a job that tells of other jobs runs for each notice, and replaces none")
		fault(j.Everywhere, "a job that runs everywhere tells of no other jobs: what happens to them is told once")
	}
	fault(j.CatchUp.Limit < 0 || j.CatchUp.Limit > maxCatchUp, "CatchUp.Limit %d: must be from 0 to %d", j.CatchUp.Limit, maxCatchUp)
	fault(j.CatchUp.Deadline < 0, "CatchUp.Deadline %v: must not be negative", j.CatchUp.Deadline)
	fault(j.Limit < 0, "overlap: Limit %d: must not be negative", j.Limit)
	fault(j.LockAtMostFor < 0, "LockAtMostFor %v: must not be negative", j.LockAtMostFor)
	fault(j.LockAtLeastFor < 0, "LockAtLeastFor %v: must not be negative", j.LockAtLeastFor)
	fault(j.History.Keep < 0 || j.History.For < 0, "History %+v: must not be negative", j.History)
	wrong = append(wrong, parts(j.Retry.validate())...)
	wrong = append(wrong, parts(errors.Join(j.Pool.validate(), j.checkJitter(), j.checkPauseAfter(), j.checkShards()))...)
	for i, err := range wrong {
		wrong[i] = fmt.Errorf("jobs: job %.150q: %w", j.Name, err)
	}
	if !names.Valid(j.Name) {
		name := fmt.Errorf("jobs: name %.150q: must be 1 to 128 letters, digits and . _ : / @ + -, the first a letter or a digit", j.Name)
		wrong = slices.Insert(wrong, 0, name)
	}
	return errors.Join(wrong...)
}

// parts are the errors that err joins.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// goesOn reports that the ticks of a schedule do not, as far as the next ones show: a leader would never come to their end.
func goesOn(s Schedule) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("Schedule: Next panics: %v", v)
		}
	}()
	at := time.Now()
	for range 3 {
		next := s.Next(at)
		if next.IsZero() {
			return nil
		}
		if !next.After(at) {
			return fmt.Errorf("Schedule %.150q: Next(%v) is %v: the next tick must be later", s, at, next)
		}
		at = next
	}
	return nil
}

// maxCatchUp bounds what one gap can cost.
const maxCatchUp = 10_000

// Complete returns the job with defaults for its zero fields.
func (j Job) Complete() Job {
	if j.CatchUp.Limit == 0 {
		j.CatchUp.Limit = 1000
	}
	if j.Timeout == 0 {
		j.Timeout = j.LockAtMostFor
	}
	if j.History == (History{}) {
		j.History = History{Keep: 10_000, For: max(30*24*time.Hour, j.pauseSpan())}
	}
	return j
}

// Call runs the job's function and turns a panic into a [*PanicError], so that
// one job never takes its process down, and then the next leader's. An error that cannot be read, such as a nil
// pointer whose Error reads a field, counts as one.
func (j Job) Call(ctx context.Context, run Run) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		err = readable(err)
	}()
	return j.Do(ctx, run)
}

// readable returns the error, if neither its text nor what it wraps makes a reader panic.
func readable(err error) (is error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			is = &PanicError{Value: fmt.Sprintf("the error of the job, a %T, cannot be read: %v", err, v), Stack: debug.Stack()}
		}
	}()
	_ = err.Error()
	var panicked *PanicError
	_, _ = errors.Is(err, ErrTimeout), errors.As(err, &panicked)
	return err
}
