package scheduler

import (
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// tellControl tells of the pauses and resumes that a snapshot shows for the first time.
func (t *term) tellControl(snapshot jobs.Snapshot) {
	if !t.stream.Observed() {
		return
	}
	tell := func(was, is bool, job string) {
		action := event.Paused
		if !is {
			action = event.Resumed
		}
		if was != is {
			t.stream.Emit(event.Control{Header: t.head(), Action: action, Key: jobs.Key{Job: job}})
		}
	}
	tell(t.roll.paused, snapshot.Paused, "")
	for name, known := range snapshot.Jobs {
		if e := t.roll.entries[name]; e != nil {
			tell(e.Known().Paused, known.Paused, name)
		}
	}
}

// apply takes in a snapshot of the ledger: at the start of the term, and whenever
// it was read since: after a request, a refused claim, a changed list or a failover. The snapshot may be out of date,
// both for runs that are in hand and for others. For the others, the ledger then
// refuses the writes that follow.
func (t *term) apply(snapshot jobs.Snapshot) {
	if t.stage == stopped {
		return
	}
	if t.stage.ends() { // what is not in hand is the next leader's
		for _, record := range snapshot.Open {
			if e := t.roll.entries[record.Job]; e != nil && record.CancelAsked && e.hasRun(record.Key) {
				t.found(e, record, snapshot.Now)
			}
		}
		return
	}
	t.gather(snapshot.Opened.Spread)
	if snapshot.Jobs != nil { // else nothing was asked: see reader.glanced
		t.tellControl(snapshot)
		t.roll.paused, t.roll.pauses = snapshot.Paused, plan.Pauses(snapshot.Pauses[""], snapshot.Now, t.clock.Ours)
	}
	for name, known := range snapshot.Jobs {
		if e := t.roll.entries[name]; e != nil {
			e.Pause(known.Paused, plan.Pauses(snapshot.Pauses[name], snapshot.Now, t.clock.Ours))
			e.fails.stamped = snapshot.Pauses[name]
			if t.role == assigns {
				e.SetFailing(known.Failing) // its runs end elsewhere
				t.tellFails(e)
				e.judged = known.Finished
			}
			if e.Outdated(known.Cursor) {
				e.GoOn(known.Cursor)
			}
		}
	}
	t.denyGone(snapshot)
	away := map[jobs.Key]bool{}
	if t.role == assigns {
		t.seeCrew()
	}
	for _, record := range snapshot.Open { // before any other run of their jobs
		switch e := t.roll.entries[record.Job]; {
		case e == nil:
		case record.Shards > 0 && t.role != serves: // it has the room of its job
			t.found(e, record, snapshot.Now)
		case t.role == assigns && (e.job.shards == nil || record.Fencing > 0): // what was assigned before its job was divided is a run of one replica
			away[record.Key] = t.foundAway(e, record)
		case e.IsLeft(t.foundAs(e, record)):
			t.leave(e, record)
		}
	}
	t.foundAll(snapshot, away, false)
	if snapshot.Jobs != nil {
		now := t.now()
		for _, e := range t.roll.order { // for ticks that a pause held back
			t.freed(e)
			t.claimDue(e, now)
		}
	}
	t.foundAll(snapshot, away, true) // behind what is due of the schedules
}

// gather has a leader start nothing while the group has another mode than its own, so that its runs come to their ends.
func (t *term) gather(isSpread bool) {
	isOther := t.role != serves && isSpread != t.holder.Assigns
	switch {
	case isOther && t.stage == leading:
		t.stage = gathering
		t.log.Info("the group has another mode now: nothing is started, and this replica hands over when no run goes on")
	case !isOther && t.stage == gathering:
		t.stage = leading
		t.log.Info("the group has its earlier mode again: this replica goes on leading")
	}
}

// foundAll takes in the runs of backfills that a snapshot shows, or all others, but for those that are away.
func (t *term) foundAll(snapshot jobs.Snapshot, away map[jobs.Key]bool, backfills bool) {
	for _, record := range snapshot.Open {
		e := t.roll.entries[record.Job]
		if e == nil || away[record.Key] || triggers.IsBackfill(record.Trigger) != backfills {
			continue // e is nil for a job of another release
		}
		if t.role == serves && (record.Shards > 0 || e.job.shards != nil) {
			continue // it is the leader's: under a token that is by chance that of this session, or to be taken back by a leader that does not divide it
		}
		t.found(e, record, snapshot.Now)
	}
}
