package scheduler

import (
	"fmt"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// A failover may lose the last writes. A claim on the server that answers now would become its job's newest tick, and
// hide those before it that are not there any more. So a term claims and moves runs on that server alone whose ledger it
// knows (writer.server), which the store compares. When another one answers, the term reads the ledger there. If that
// has all that the term knows to be in the ledger, the term goes on. Otherwise it ends, and the next one decides about what
// is missing, as after any gap.

// writing is the holder for a queue's statements. Outcomes of runs hide nothing: after the end of the term they are written
// wherever their rows are.
func (w *writer) writing(q *queue) store.Holder {
	h := w.t.holder
	if q == w.claims || w.t.stage != stopped {
		h.Server = w.server
	}
	return h
}

// met takes in which server has shown the ledger, and reports whether the term goes on.
func (t *term) met(snapshot jobs.Snapshot) bool {
	if snapshot.Server == t.wrote.server || t.stage == stopped {
		return true
	}
	keeper.HeldOf(t.ctx).Answered(snapshot.Server)
	if err := t.lost(snapshot); err != nil {
		t.cut(fmt.Errorf("%w: another server answers, as after a failover, and %w", election.ErrLost, err))
		return false
	}
	t.wrote.server = snapshot.Server
	t.wrote.hurry()
	return true
}

// lost says what a ledger lacks of what this term knows to be in it; nil: nothing. What is under way is not known to
// be there: it is sent again.
func (t *term) lost(snapshot jobs.Snapshot) error {
	if snapshot.Opened.Token < t.holder.Token {
		return fmt.Errorf("has term %d as its last", snapshot.Opened.Token)
	}
	open := make(map[jobs.Key]jobs.Record, len(snapshot.Open))
	for _, r := range snapshot.Open {
		open[r.Key] = r
	}
	var ticks, runs int
	for name, e := range t.roll.entries {
		known := snapshot.Jobs[name]
		if !e.Known().Since.IsZero() && !known.Since.Equal(e.Known().Since) || known.Cursor.Before(e.Recorded()) {
			ticks++
		}
		for key, r := range e.runs {
			if is := open[key]; r.settled() && (is.State != r.record.State || is.Attempt != r.record.Attempt || is.Owner != r.record.Owner || is.Token != r.record.Token) {
				runs++
			}
		}
	}
	if ticks+runs == 0 {
		return nil
	}
	return fmt.Errorf("lacks the newest ticks of %d jobs, and %d of the runs in hand", ticks, runs)
}

// settled reports whether the ledger is known to have the run as its record says.
func (r *run) settled() bool {
	return r.Phase().Pending() || r.Phase() == plan.Running && r.attempt != nil
}

// tellLost tells of ticks that this process has seen, and that another server lacks.
func (s *Scheduler) tellLost(snapshot jobs.Snapshot) {
	e := s.memory.Behind(snapshot)
	if e.Jobs == 0 {
		return
	}
	e.Header = s.head()
	s.events.Emit(e)
}
