package scheduler

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// roll is the jobs of a term, and what it knows of them together.
type roll struct {
	list      *list             // of this replica, which may change
	relisting bool              // a change of the list is being taken in
	entries   map[string]*entry // also jobs that were removed, until nothing of them is under way
	order     []*entry          // without those
	alarms    map[string]*alarmed
	gone      map[string]bool // jobs that the term does not have; true: the ledger was told so, or is being told
	regained  bool            // it may say so of jobs of this term: see regain
	paused    bool            // the group is
	pauses    []jobs.Pause    // of the group
}

// entry is a job in a term: what is planned of it, and its runs in hand. The term's loop owns it.
type entry struct {
	plan.Job
	job       *declared
	runs      map[jobs.Key]*run
	blocked   []*run // runs that wait for room, oldest first
	backlog   []*run // runs of backfills whose time has come
	fails     failures
	history   history
	keys      keys
	each      []string  // of a job that runs everywhere, the sessions of the replicas that can have a shard of it
	judged    time.Time // the newest end that was taken in of its runs, of a group that is spread
	failsTold bool      // whether it was told that the job fails
	tokens    uint64    // the highest fencing token that a run of it was given, or may have been: see away.go
}

func newEntry(group string, job *declared) *entry {
	return &entry{Job: plan.New(group, &job.Job), job: job, runs: map[jobs.Key]*run{}}
}

// list puts the job into the term's list, with a declaration that the ledger has.
func (e *entry) list(job *declared) {
	e.job = job
	e.List(&job.Job)
}

// block puts a run in line for the room of its job: a tick before later ones, since one that is run again comes after these have lined up.
func (e *entry) block(r *run) {
	at := len(e.blocked)
	if r.record.Trigger == 0 {
		if i := slices.IndexFunc(e.blocked, func(o *run) bool { return o.record.Trigger == 0 && o.record.Tick.After(r.record.Tick) }); i >= 0 {
			at = i
		}
	}
	e.blocked = slices.Insert(e.blocked, at, r)
}

func (e *entry) hasRun(key jobs.Key) bool { return e.runs[key] != nil }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
