package scheduler

import (
	"time"

	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// A backfill is one run at a time in the ledger, however many ticks it has: the move
// that brings a run of it to its end inserts the next one, in the same transaction. Its
// runs wait behind all others of their job, so that they hold up the schedule by one run
// at most.

// hold keeps a run of a backfill until its time has come.
func (t *term) hold(r *run, now time.Time) {
	t.shift(r, plan.Held)
	t.keepBackfill(r)
	join := func() {
		if r.Phase() == plan.Held && !r.entry.IsRemoved() {
			r.entry.backlog = append(r.entry.backlog, r)
			t.freed(r.entry)
		}
	}
	// Not by the database's clock alone, which may have been set back.
	_, every, _ := r.record.NextOfBackfill()
	if wait := min(r.record.Due.Sub(now), every); wait > 0 {
		t.after(wait, join)
	} else {
		join()
	}
}

// admitHeld lets a run of a backfill into the room of its job that no other run waits
// for.
func (t *term) admitHeld(e *entry) {
	for len(e.backlog) > 0 && e.AdmitsHeld() {
		r := e.backlog[0]
		if r.Phase() == plan.Held && t.paused(r) {
			return
		}
		e.backlog = e.backlog[1:]
		if r.Phase() == plan.Held { // it was not dropped
			t.shift(r, plan.Ready)
			t.slots.ready = append(t.slots.ready, r)
		}
	}
}
