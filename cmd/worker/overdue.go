package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/jobs"
)

// errNotClaimed is how status ends when there is a leader, but ticks that are due
// are not claimed.
var errNotClaimed = errors.New("ticks that are due are not claimed")

// overdueTicks are the ticks of a group that are due and not claimed, as far as the
// database tells.
type overdueTicks struct {
	// Job and Tick are the oldest of them, LateSeconds how long ago it was, and
	// Jobs how many jobs have any.
	Job         string  `json:"job"`
	Tick        stamp   `json:"tick"`
	LateSeconds float64 `json:"late_seconds"`
	Jobs        int     `json:"jobs"`

	ticks overdue.Ticks
}

// findOverdue returns the ticks that are due and that the present leader should
// have claimed; nil when there are none. unknown is how many other jobs have such
// ticks while nothing tells whether they are the leader's. With a configuration file its
// jobs are taken for the leader's.
func findOverdue(snapshot jobs.Snapshot, t *target, l election.Leadership) (found *overdueTicks, unknown int) {
	of := overdue.Config{Declared: t.declared(), Parse: jobs.ParseSchedule}
	if t.file != nil {
		of.Rest = t.restOf
	}
	ticks := overdue.Find(snapshot, l, of)
	if ticks.Jobs == 0 {
		return nil, ticks.Unknown
	}
	return &overdueTicks{
		Job: ticks.Job, Tick: *jsontime.Of(ticks.Tick), LateSeconds: snapshot.Now.Sub(ticks.Tick).Seconds(), Jobs: ticks.Jobs, ticks: ticks,
	}, ticks.Unknown
}

// restOf is for how long after its last start a job of the file is kept from
// its next tick, by LockAtLeastFor, which the ledger does not have.
func (t *target) restOf(name string) (rest time.Duration, sure bool) {
	for _, job := range t.file.Jobs {
		if job.Name == name {
			return job.LockAtLeastFor, true
		}
	}
	return 0, false
}

// judge returns an error if the leader has left the tick for too long.
func (o *overdueTicks) judge(snapshot jobs.Snapshot, l election.Leadership) error {
	if o == nil || !o.ticks.TooLong(snapshot, l) {
		return nil
	}
	why := "the leader's log says why"
	if _, opened := overdue.TermBegan(snapshot, l); !opened {
		why = "the leader has not opened the ledger, and its log says why"
	}
	return fmt.Errorf("%w in group %q: that of job %q was due at %s, jobs with such ticks: %d: %s",
		errNotClaimed, l.Group, o.Job, shown(&o.Tick), o.Jobs, why)
}
