package jobs

import (
	"context"
	"encoding/json"
	"errors"
)

var (
	// ErrNoJob says that the ledger knows no job of that name.
	ErrNoJob = errors.New("jobs: no such job")
	// ErrNotDeclared says that no replica has the job, as far as replicas have told
	// ([Registry]): it was removed, or renamed.
	ErrNotDeclared = errors.New("jobs: no replica has the job")
	// ErrDeclared says that a job cannot be forgotten, because a replica may have it.
	ErrDeclared = errors.New("jobs: the job cannot be forgotten")
	// ErrNoRun says that there is no run under the key that is not over.
	ErrNoRun = errors.New("jobs: no such run")
	// ErrManyOpen says that a job has [MaxOpen] runs that are not over, or more, and takes no
	// request for another one.
	ErrManyOpen = errors.New("jobs: too many runs of the job are not over")
)

// MaxOpen is how many runs of a job may wait or go on: with so many, a request for another
// one fails ([ErrManyOpen]). Each term that begins reads all of them. The schedule, other jobs
// and notices may make more.
const MaxOpen = 10_000

// Control shows and changes a group's jobs through the database. Every ledger has
// it ([github.com/cronlease/cronlease/store.Ledger]), and [NewGroup] needs no more. It
// needs no lease: the leader notices what has changed, at once where the store can wake
// it, and otherwise with its next heartbeat (a third of the TTL by default).
type Control interface {
	// Pause stops the ticks of a job, or of the whole group when job is empty,
	// until Resume. Both instants are taken from the database's clock. Ticks of
	// the time between are recorded as skipped, also when no replica led meanwhile;
	// ticks before it that were not run yet go through the misfire policy after
	// Resume. A claim that begins once Pause has returned does not run. One that
	// was under way when the pause was committed may still become a run, later by
	// at most what the database lets a statement wait for a lock (mysqlstore: 5 s);
	// a run that the ledger has already, and whose leader has not had the answer,
	// begins when it has.
	// A tick that was claimed to wait is held back from when the leader has
	// noticed. Runs that go on, retries and manual runs are not stopped.
	//
	// A ledger keeps the newest 64 pauses of each job and of each group. With more
	// of them while no replica leads, the oldest are forgotten, and the next leader
	// treats their ticks as missed, not as paused.
	//
	// Pausing twice is pausing once, and so is resuming. [ErrNoJob]: the ledger
	// knows no such job.
	Pause(ctx context.Context, group, job string) error
	Resume(ctx context.Context, group, job string) error
	// ResumeSkipping is Resume, and the ticks before the pause that were not
	// claimed are skipped like those of the pause: its beginning becomes unknown
	// ([Pause.Began] is zero). What is not paused stays as it is.
	ResumeSkipping(ctx context.Context, group, job string) error
	// Trigger asks for a run now, beside the schedule: its tick is the
	// database's present instant unless the request has one, under a key of its own, so that it is run
	// exactly once and moves no cursor. It returns the key. [ErrNoJob], [ErrManyOpen].
	// Arguments that [CheckArgs] refuses are an error.
	Trigger(ctx context.Context, group, job string, request Request) (Key, error)
	// Args reads the arguments of a run; nil: it has none. [ErrNoRun]: there is no run
	// under the key, also none that is over.
	Args(ctx context.Context, group string, key Key) (json.RawMessage, error)
	// Cancel asks for the end of a run that is not over, and keeps one that waits from
	// starting. Asking twice is asking once. [ErrNoRun]: there is none under the key.
	Cancel(ctx context.Context, group string, key Key) error
	// Load reads every job of the group with its cursor, and every run that is not
	// over: what a term that begins has to know, too.
	Load(ctx context.Context, group string) (Snapshot, error)
	// Runs reads the history, the newest first: by tick, job and trigger, all
	// falling.
	Runs(ctx context.Context, group string, filter Filter) ([]Record, error)
}
