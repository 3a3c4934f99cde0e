package scheduler

import (
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// take takes a run in hand that is not yet. A leader that runs all jobs runs it under its term, and not under the assignment that a
// replica had when the group was spread.
func (t *term) take(e *entry, record jobs.Record) *run {
	if t.role == runsAll {
		record.Details = jobs.Details{Unbegun: record.Unbegun, Shards: record.Shards, Each: record.Each}
	}
	r := &run{entry: e, record: record}
	e.runs[record.Key] = r
	return r
}

// move is the change of a run from what its record says.
func move(r jobs.Record, to jobs.State, why string) store.Move {
	return store.Move{Key: r.Key, From: r.State, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token, To: to, Error: why, Details: r.Details}
}

// shift moves a run to another phase.
func (t *term) shift(r *run, to plan.Phase) {
	if to != plan.Running {
		t.comeBack(r)
	}
	t.slots.shift(r, to, t.role != assigns)
	r.entry.keys.shift(r, to)
	r.entry.Shift(&r.Seat, r.record, to)
}

// comeBack ends that a run is away.
func (t *term) comeBack(r *run) {
	if r.away != nil {
		t.spread.runs[r.away.to.Owner]--
		if r.away.told {
			t.stream.Emit(event.RunAssigned{Header: t.head(), Key: r.record.Key, To: r.away.to.Owner, Over: true})
		}
		r.away = nil
	}
}

// tellDropped tells that a run is in hand no more, if observers think that it is.
func (t *term) tellDropped(r *run, to jobs.State, why string) {
	if r.told {
		r.told = false
		t.stream.Emit(event.RunDropped{Header: t.head(), Key: r.record.Key, State: to, Why: why})
	}
}

// letGo leaves a run that waits as it is in the ledger.
func (t *term) letGo(r *run) {
	t.tellDropped(r, jobs.Waiting, "")
	t.shift(r, plan.Gone)
	delete(r.entry.runs, r.record.Key)
}

// retired forgets a job that was removed, once nothing of it is under way.
func (t *term) retired(e *entry) {
	_, asked := e.Asked()
	if name := e.job.Name; e.IsRemoved() && len(e.runs) == 0 && !asked && t.roll.entries[name] == e {
		delete(t.roll.entries, name)
		if t.role != serves {
			t.stream.Emit(event.JobRemoved{Header: t.head(), Job: name})
		}
	}
}
