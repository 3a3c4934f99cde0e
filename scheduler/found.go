package scheduler

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// found takes in a run that the ledger has as open. shown is when it was read, by the database's clock:
// a run that has to wait for its time waits from then on.
func (t *term) found(e *entry, record jobs.Record, shown time.Time) {
	inHand := e.runs[record.Key]
	if t.role == serves && inHand == nil && record.State == jobs.Waiting && record.Cluster != t.wrote.home {
		return // it was assigned on another server, which may have taken more since: the leader assigns it again
	}
	switch fate := e.Fate(t.foundAs(e, record), t.now()); fate {
	case plan.Stop:
		t.tellCancel(inHand, record)
		t.interrupt(inHand, jobs.ErrCancelled)
	case plan.LeaveAlone:
		t.leave(e, record)
	case plan.Cancel:
		t.tellCancel(nil, record)
		r := t.take(e, record)
		r.stop = jobs.ErrCancelled
		t.drop(r)
	case plan.LineUp:
		r := t.take(e, record)
		t.tellTaken(r)
		t.lineUp(r)
	case plan.HoldBack:
		t.hold(t.take(e, record), shown)
	case plan.Start:
		r := t.take(e, record)
		if record.Attempt > 0 {
			r.before = jobs.ParsePrevious(record.Error)
		}
		t.tellTaken(r)
		t.enqueue(r, e.Wait(record, shown))
	case plan.RunAgain, plan.Interrupted:
		t.recover(t.take(e, record), fate == plan.RunAgain)
	case plan.Lapse:
		t.close(t.take(e, record), jobs.Skipped, plan.TooLate)
	case plan.Reclaim:
		t.reclaim(t.take(e, record))
	}
}

func (t *term) foundAs(e *entry, record jobs.Record) plan.Found {
	f := plan.Found{Record: record, InHand: e.hasRun(record.Key), Ours: t.isOurs(record)}
	f.Stands = t.role == runsAll && !f.Ours && record.State == jobs.Running && keeper.HeldOf(t.ctx).PreviousStands() > 0
	return f
}

// recover deals with a run that was interrupted, and starts again or is closed. What a term of
// before has not finished is told of.
func (t *term) recover(r *run, again bool) {
	ours := t.isOurs(r.record)
	why := r.entry.WhyInterrupted(r.record, ours)
	if !ours && r.record.Shards == 0 { // shards go on
		found := event.RunInterrupted{Header: t.head(), Key: r.record.Key, Attempt: r.record.Attempt, By: r.record.Owner, Again: again}
		if !again {
			found.Why = why
		}
		t.stream.Emit(found)
	}
	if !again {
		t.close(r, jobs.Interrupted, why)
		return
	}
	r.told = true
	r.before = jobs.Previous{State: jobs.Interrupted, Error: why}
	t.enqueue(r, 0)
}

// reclaim starts a run that is under this term's token and not in hand. What the ledger has said
// may be old: until it has taken the change, the run counts for nothing.
func (t *term) reclaim(r *run) {
	if r.entry.WasRefused(r.record.Key) { // its claim has arrived late
		r.record.Unbegun = r.record.Attempt
	} else {
		r.before = jobs.Previous{State: jobs.Interrupted, Error: r.entry.WhyInterrupted(r.record, true)}
	}
	t.putBack(r)
}

// tellCancel tells of the request to end a run, once; r is nil where it is not in hand.
func (t *term) tellCancel(r *run, record jobs.Record) {
	if r == nil || r.stop == nil {
		t.stream.Emit(event.Control{Header: t.head(), Action: event.CancelAsked, Key: record.Key})
	}
}

// tellTaken tells of a run that waits, and that the term takes up.
func (t *term) tellTaken(r *run) {
	record := r.record
	if record.Owner == "" {
		t.stream.Emit(event.Control{Header: t.head(), Action: event.Triggered, Key: record.Key})
	}
	r.told = true
	t.stream.Emit(event.RunClaimed{Header: t.head(), Key: record.Key, Waiting: true})
}

// endAway deals with runs that are away and that a reading, sent then, does not show as open: they are over.
func (t *term) endAway(open []jobs.Record) {
	if t.role != assigns {
		return
	}
	is := map[jobs.Key]bool{}
	for _, r := range open {
		is[r.Key] = true
	}
	for _, e := range t.roll.entries {
		for key, r := range e.runs {
			if r.away == nil || is[key] || !t.isNews(r) {
				continue
			}
			e.Finished(t.now())
			e.history.ended++
			t.judge()
			began := r.away.began
			t.dropAway(r, true)
			if !began.IsZero() {
				t.rest(e, r.record, e.job.LockAtLeastFor-max(0, t.clock.Theirs(t.now()).Sub(began)))
			}
			if e.job.PauseAfter > 0 && e.Known().Failing {
				e.Count()
				t.beside(countFailures(e))
			}
			t.freed(e)
			t.retired(e)
		}
	}
}

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

// leave leaves a run alone that an earlier term may still be doing, whose lease was taken before
// its time was up ([keeper.Candidate.Suspect]).
func (t *term) leave(e *entry, record jobs.Record) {
	if !e.LeaveAlone(record) {
		return
	}
	stands := keeper.HeldOf(t.ctx).PreviousStands()
	t.log.Warn("a run of an earlier term may still go on: its job waits for it",
		zap.String("job", record.Job), zap.Time("tick", record.Tick), zap.String("by", record.Owner), zap.Duration("for", stands))
	t.after(stands, func() { t.takeUp(e) })
}

// takeUp deals with the runs that were left alone, once none of them goes on.
func (t *term) takeUp(e *entry) {
	if t.stage.ends() || e.IsRemoved() {
		return // they are the next leader's
	}
	if stands := keeper.HeldOf(t.ctx).PreviousStands(); stands > 0 {
		t.after(stands, func() { t.takeUp(e) })
		return
	}
	left, later, held := e.TakeUp(), e.blocked, e.backlog
	e.blocked, e.backlog = nil, nil
	for _, record := range left {
		t.found(e, record, time.Time{}) // none of them waits
	}
	e.blocked, e.backlog = append(e.blocked, later...), append(e.backlog, held...)
	t.freed(e)
	t.claimDue(e, t.now())
}

// settle lets the lease be released if no run of an earlier term is open.
func (t *term) settle(open []jobs.Record) {
	if t.role == assigns || !slices.ContainsFunc(open, func(r jobs.Record) bool { return r.State == jobs.Running && r.Token != t.holder.Token }) {
		keeper.HeldOf(t.ctx).Settle()
	}
}

// over are the runs that are in hand no more since a reading of the ledger was sent. It may show them as they were
// before: then they are not found in it. If they are open all the same, the next reading shows that. What another server
// shows may be lost where the term knows better, so there they are found.
type over struct {
	reading uint64 // its number
	runs    map[jobs.Key]struct{}
}

// add takes in a run that was forgotten when the reader had that number.
func (o *over) add(key jobs.Key, number uint64) {
	if number != o.reading {
		*o = over{reading: number}
	}
	if number%2 == 0 { // no reading is under way
		return
	}
	if o.runs == nil {
		o.runs = map[jobs.Key]struct{}{}
	}
	o.runs[key] = struct{}{}
}

// leaveOut returns those of the runs of a reading that are not over.
func (o *over) leaveOut(open []jobs.Record, reading uint64) []jobs.Record {
	if reading != o.reading || len(o.runs) == 0 {
		return open
	}
	return slices.DeleteFunc(slices.Clone(open), func(r jobs.Record) bool {
		_, is := o.runs[r.Key]
		return is
	})
}
