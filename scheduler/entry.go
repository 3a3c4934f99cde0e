package scheduler

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// entry is a job in a term: what is planned of it, and its runs in hand. The term's loop owns it.
type entry struct {
	plan.Job
	job     *declared
	runs    map[jobs.Key]*run
	blocked []*run // runs that wait for room, oldest first
	backlog []*run // runs of backfills whose time has come
	fails   failures
	history history
}

func newEntry(group string, job *declared) *entry {
	return &entry{Job: plan.New(group, &job.Job), job: job, runs: map[jobs.Key]*run{}}
}

// redeclare replaces the declaration by one with the same schedule.
func (e *entry) redeclare(job *declared) {
	e.job = job
	e.Redeclare(&job.Job)
}

// list puts the job into the term's list, with a declaration that the ledger has.
func (e *entry) list(job *declared) {
	e.job = job
	e.List(&job.Job)
}

func (e *entry) hasRun(key jobs.Key) bool { return e.runs[key] != nil }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
