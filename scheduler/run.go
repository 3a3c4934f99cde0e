package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/tail"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// The life of a run: its phases, and the function that moves it from one to the
// next. All of them run in the term's loop. What they write goes out through the
// writer, and the answer comes back into the loop.
//
//	from          to        by           when
//	a due tick    running   claimDue     it may start at once; the claim is under way
//	              parking   claimDue     it has to wait; the claim is under way
//	the ledger    waiting   found        an earlier term left it waiting, or it is run again
//	              held      hold         it belongs to a backfill
//	              closing   found        its cancel was requested, it is not run again, or it is started anew: see reclaim
//	parking       waiting   enqueue      the ledger has it as waiting
//	              running   startIn      the ledger has it as running: a copy of its claim that was refused, and came late
//	              gone      forget       another term has it
//	              closing   startRefused its start was refused: its end was asked for
//	held          ready     admitHeld    nothing else of its job waits or runs
//	waiting       blocked   enqueue      its time has come
//	blocked       ready     admit        its job has room
//	ready         running   launch       this replica has a slot; the ledger is being told
//	              blocked   launchReady  it was paused meanwhile; one of a backfill is held again
//	running       waiting   enqueue      the ledger has a tick as waiting that was to start at once
//	              parking   finish       the attempt has ended, and another will follow
//	              closing   finish       the attempt has ended, and it was the last
//	              parking   startRefused the ledger has refused the start, and is looked at
//	              aside     giveBack     its row is set aside: it keeps its room, and no slot
//	aside         running   startIn      the ledger has it as running at last, and a slot is free
//	              waiting   enqueue      the ledger has a tick as waiting whose claim was set aside
//	              closing   startIn      no slot is free, or its job was removed: see putBack
//	any           closing   close        it has no attempt, and is skipped, cancelled, or left to the next leader
//	              gone      letGo        its job was removed, and it waits
//	closing       gone      forget       the ledger has it as over, or as another term's
//	              waiting   putBack      it is ours, and starts later
//
// A claim or retry that the ledger refuses ends in forget at once: the run is over,
// or another term has it. So does a start, unless the end of the run was asked for, see startRefused.
// The phase resting is no run's: a seat that rest takes for the time that a job stays locked after one.

// run is a run of the ledger that the term tracks ("in hand"): from its claim, or
// from when it was found in the ledger, until its outcome is written. Meanwhile the
// ledger's record of it may be out of date, and only a cancel request in it counts.
type run struct {
	plan.Seat
	entry   *entry
	record  jobs.Record
	attempt *attempt // the one in progress
	before  jobs.Previous
	stop    error  // why it is not to start, or not to go on
	told    bool   // observers think that it is in hand
	away    *away  // nil: it is here
	pool    string // whose room it has, in the phase running; empty: none's
	begins  bool   // it has that room, and the ledger is not known to have its start
	place   int    // of those that have stood in line for a slot, the lower the earlier
	key     runKey
	shards  string // the job of its shards, once it begins with them; empty: it has none
}

// enqueue starts a run once its time has come, its job has room and this
// replica has a slot.
func (t *term) enqueue(r *run, wait time.Duration) {
	t.shift(r, plan.Waiting)
	join := func() {
		if r.Phase() != plan.Waiting {
			return // it was dropped meanwhile
		}
		if t.isOvertaken(r) {
			t.interrupt(r, jobs.ErrReplacedByTick)
			return
		}
		if r.record.Shards > 0 { // it has the room of its job, since its shards have
			t.shift(r, plan.Ready)
			t.slots.lineUp(r)
		} else {
			t.shift(r, plan.Blocked)
			r.entry.block(r)
		}
		t.freed(r.entry)
	}
	switch {
	case r.stop != nil:
		t.drop(r)
	case r.entry.IsRemoved():
		t.letGo(r)
		t.retired(r.entry)
	case wait > 0:
		t.after(wait, func() {
			if r.entry.Displaces(r.record, t.now()) && len(t.replacedBy(r, nil)) > 0 {
				t.afterLook(join) // its end may have been asked for: then they go on
			} else {
				join()
			}
		})
	default:
		join()
	}
}

// freed lets runs that waited for room or for a slot go on, first come first
// served, and plans the next tick of a schedule that counts from the end of runs.
func (t *term) freed(e *entry) {
	if t.stage.ends() {
		return // it is the next leader's
	}
	t.admit(e)
	t.admitHeld(e)
	t.launchReady()
	if t.role == serves {
		return // the leader claims
	}
	if next, changed := e.Recount(); changed {
		t.after(next.Sub(t.now()), func() { t.claimDue(e, t.now()) })
	}
}

// admit lets runs that wait into the room that their job has.
func (t *term) admit(e *entry) {
	t.replace(e)
	again := func() { t.freed(e) }
	t.readKeys(e, again)
	for at := 0; at < len(e.blocked) && e.Admits(); {
		r := e.blocked[at]
		if r.Phase() == plan.Blocked && (t.paused(r) || t.awaitsKey(r, again)) {
			at++
			continue
		}
		e.blocked = slices.Delete(e.blocked, at, at+1)
		if r.Phase() == plan.Blocked { // it was not dropped
			t.shift(r, plan.Ready)
			t.slots.lineUp(r)
		}
	}
}

// admitHeld lets a run of a backfill into the room of its job that no other run waits
// for, nor a tick that is due: once that is claimed, it is called again.
func (t *term) admitHeld(e *entry) {
	for len(e.backlog) > 0 && e.AdmitsHeld(t.now()) {
		r := e.backlog[0]
		if r.Phase() == plan.Held && (t.paused(r) || t.awaitsKey(r, func() { t.freed(e) })) {
			return
		}
		e.backlog = e.backlog[1:]
		if r.Phase() == plan.Held { // it was not dropped
			t.shift(r, plan.Ready)
			t.slots.lineUp(r)
		}
	}
}

// paused reports whether a run has to wait for the end of a pause.
func (t *term) paused(r *run) bool { return r.entry.HoldsBack(r.record, t.roll.paused) }

// launchReady launches runs of all jobs into the slots that this replica has, as far as their pools let them.
func (t *term) launchReady() {
	if t.stage != leading || !t.mayStart() {
		return // it is the next leader's, or waits for a switch of the mode
	}
	full, left, stuck := map[*pool]bool{}, map[*pool][]*run{}, map[*entry]bool{} // which no replica can have now
walk:
	for t.slots.free() {
		p := t.slots.next(func(p *pool) bool { return !full[p] })
		if p == nil {
			if t.role == assigns { // each whole walk tells which jobs no replica has
				t.spread.walked = time.Now()
			}
			break
		}
		r := p.line[0]
		if !t.paused(r) && !stuck[r.entry] && t.poolLeft(r.entry) < 1 {
			full[p] = true
			t.launchLater(r.entry.job.Pool)
			continue
		}
		p.line = p.line[1:]
		switch {
		case t.paused(r) && plan.IsHeld(r.record):
			t.shift(r, plan.Held)
			r.entry.backlog = slices.Insert(r.entry.backlog, 0, r)
		case t.paused(r): // while it waited for a slot
			t.shift(r, plan.Blocked)
			r.entry.blocked = slices.Insert(r.entry.blocked, 0, r)
		case stuck[r.entry] || !t.launch(r):
			_, isBound := t.isFor(r)
			stuck[r.entry] = !isBound // else another replica may have the next one
			left[p] = append(left[p], r)
			if t.spread.full && time.Since(t.spread.walked) < time.Second {
				break walk
			}
		}
	}
	for p, runs := range left {
		p.line = append(runs, p.line...)
	}
}

// launchLater launches runs again when one more of a pool may begin.
func (t *term) launchLater(of jobs.Pool) {
	_, wait := t.slots.startsLeft(of, time.Now())
	p, at := t.slots.pool(of.Name), time.Now().Add(wait)
	if wait <= 0 || !p.again.IsZero() && !at.Before(p.again) {
		return
	}
	p.again = at
	t.after(wait, func() {
		p.again = time.Time{}
		t.launchReady()
	})
}

// launch tells the ledger that a run starts, and starts it, or assigns it. False: no replica can have it now.
func (t *term) launch(r *run) bool {
	if r.entry.HasLapsed(r.record, t.now()) {
		t.close(r, jobs.Skipped, plan.TooLate)
		return true
	}
	if t.role == runsAll {
		if to, _ := t.isFor(r); to.Owner != "" {
			t.close(r, jobs.Skipped, "it was for "+to.Owner+", and the leader runs everything now")
			return true
		}
	}
	isWhole := r.entry.job.shards != nil || r.record.Shards > 0
	if t.role == assigns && (!isWhole || r.lacksReplicas()) {
		return t.assign(r)
	}
	start := move(r.record, jobs.Running, "")
	if isWhole {
		if t.role == serves { // a reload has given the job shards here: the leader takes the run back, as in foundAll
			t.letGo(r)
			return true
		}
		if why := r.divide(&start); why != "" {
			t.close(r, jobs.Skipped, why)
			return true
		}
		r.shards = jobs.ShardsOf(r.record.Job)
	}
	t.shift(r, plan.Running)
	start.Details = r.record.Details
	if r.record.Fencing > 0 {
		start.NotBefore = time.UnixMicro(int64(r.record.Fencing)).UTC()
	}
	t.wrote.move(start, func(done bool) {
		t.answered(r.record, start.Then, done)
		if !done {
			t.startRefused(r)
			return
		}
		t.began(r, time.Now())
		late := r.shards == "" && r.entry.HasLapsed(r.record, t.now()) // the answer was long in coming
		r.record.State = jobs.Running
		r.record.Attempt++
		r.record.Owner, r.record.Token = t.holder.Owner, t.holder.Token
		if late {
			t.close(r, jobs.Skipped, plan.TooLate)
			return
		}
		t.startIn(r)
	}, func() { t.giveBack(r) })
	return true
}

// began takes in that the ledger has the start of a run, which counts from then on, and lets others of its pool begin in their time.
func (t *term) began(r *run, at time.Time) {
	if t.slots.begun(r, at); len(t.slots.pool(r.pool).line) > 0 {
		t.launchLater(r.entry.job.Pool)
	}
}

// startRefused deals with a run whose start the ledger refused: its end was asked for, which a look at the ledger
// tells, or it is over, or another term has it.
func (t *term) startRefused(r *run) {
	if r.stop != nil {
		t.drop(r)
		return
	}
	t.shift(r, plan.Parking)
	t.freed(r.entry)
	t.afterLook(func() {
		if r.stop != nil {
			t.drop(r)
		} else {
			t.forget(r)
			t.reader.soon() // a row that a failover has put back is found then
		}
	})
}

// giveBack takes the slot of a run whose row was set aside, for others.
func (t *term) giveBack(r *run) {
	t.shift(r, plan.Aside)
	t.freed(r.entry)
}

// startIn starts a run that the ledger says is ours in the slot that it has. One that gave it back, since its row was
// set aside, needs another one, and waits for that. One whose job was removed meanwhile waits for a term that has it.
func (t *term) startIn(r *run) {
	switch {
	case r.entry.IsRemoved():
		r.unbegin()
		t.putBack(r)
	case r.Phase() == plan.Running:
		t.start(r)
	case t.slots.free() && t.poolLeft(r.entry) > 0:
		t.shift(r, plan.Running)
		t.began(r, time.Now())
		t.start(r)
	default:
		t.slots.began(r.entry.job.Pool, time.Now())
		r.unbegin()
		t.putBack(r)
	}
}

// putBack has a run of ours wait that the ledger has as running, and nothing has begun.
func (t *term) putBack(r *run) {
	t.shift(r, plan.Closing)
	t.wrote.move(move(r.record, jobs.Waiting, ""), func(done bool) {
		if !done {
			t.forget(r)
			return
		}
		if t.role == serves {
			t.forget(r) // the leader assigns it again
			return
		}
		r.record.State = jobs.Waiting
		t.enqueue(r, 0)
	}, nil)
}

// start starts an attempt of a run that the ledger says is ours.
func (t *term) start(r *run) {
	if r.stop != nil {
		t.drop(r)
		return
	}
	started := event.RunStarted{Header: t.head(), Key: r.record.Key, Attempt: r.record.Attempt, Assigned: t.role == serves}
	if started.First = r.record.Begun() == 1 && r.record.Trigger == 0; started.First {
		started.Late = max(0, t.now().Sub(r.record.Tick))
	}
	// Here a log that is blocked is noticed: see watchdog. The term may be over when
	// it goes on, so the line comes before the check.
	r.told = true
	t.stream.Emit(started)
	// The deadline itself, not only the context: see election.Term.Trusted.
	if !t.mayStart() {
		t.runLog(r).Info("not started: the term is over, or ends; it is left to the next")
		t.handOn(r)
		return
	}
	job, record := r.entry.job, r.record
	a := &attempt{started: time.Now()}
	a.Run = jobs.Run{
		Group: t.holder.Group, Job: record.Job, Tick: record.Tick, Trigger: record.Trigger,
		Owner: t.holder.Owner, Token: t.holder.Token, Attempt: record.Attempt, Missed: record.Missed,
		Previous: r.before,
	}
	a.Shard, a.Shards = triggers.ShardOf(record.Trigger)
	bounds := r.entry.Bounds(record.Begun())
	a.LastAttempt = bounds.Last
	if r.record.Fencing > 0 {
		a.Token = r.record.Fencing
	}
	if r.entry.isNotifier() && !record.HasArgs {
		a.Args = testNotice(a.Run)
	}
	a.output = tail.New(jobs.MaxOutput)
	end := a.bound(tail.With(t.holding(r), a.output), bounds.Timeout)
	r.attempt = a
	t.registry.add(a)
	v, do := t.env, job.Job
	if shards := r.shards; shards != "" {
		do.Do = func(ctx context.Context, _ jobs.Run) error { return v.join(ctx, record, shards) }
	}
	v.registry.ends.Go(func() {
		defer end()
		v.attempt(a, do, record.HasArgs, started, func(t *term, how ending) {
			r.attempt = nil
			t.registry.remove(a)
			if how.begun {
				t.finish(r, a, how)
			} else {
				t.unbegun(r)
			}
		})
	})
}

// holding is the context of an attempt. Under a session, which outlasts it, fenced work compares the row of the attempt too.
func (t *term) holding(r *run) context.Context {
	if t.role != serves {
		return t.ctx
	}
	held := lease.Holds(t.ctx)
	h := held[len(held)-1]
	h.Kind, h.Name = lease.HoldRun, t.holder.Group
	h.Run = lease.HeldRun{Job: r.record.Job, Tick: r.record.Tick, Trigger: r.record.Trigger, Attempt: r.record.Attempt}
	return lease.WithHold(t.ctx, h)
}

// runLog is the log with what names a run.
func (v *env) runLog(r *run) *zap.Logger {
	return v.log.With(zap.String("job", r.record.Job), zap.Time("tick", r.record.Tick), zap.Int("attempt", r.record.Attempt))
}

// finish records how an attempt ended, and what follows.
func (t *term) finish(r *run, a *attempt, how ending) {
	e, state, why, err := r.entry, how.state, how.why, how.err
	e.Finished(t.now())
	e.history.ended++
	took := time.Since(a.started)
	next := e.After(plan.AttemptEnd{State: state, Attempt: a.Attempt - r.record.Unbegun, Shards: r.record.Shards, Took: took, Permanent: jobs.IsPermanent(err), Asked: r.stop != nil})
	m := move(r.record, next.To, why)
	m.Output, m.Delay = a.output.Bytes(), next.Delay
	if m.To == jobs.Waiting {
		r.before = jobs.Previous{State: state, Error: ledgerrows.CutError(why)} // as after a takeover
		m.Error = r.before.String()
		if t.role == serves {
			m.FailedOn = t.holder.Owner
		}
	}
	if next.Counts && t.role != serves {
		e.Count()
	}
	r.told = m.To == jobs.Waiting
	a.finish(t.stream, event.RunFinished{
		Header: t.head(), Key: r.record.Key, Attempt: a.Attempt, Assigned: t.role == serves, State: state, Err: err, Why: why, WillRetry: m.To == jobs.Waiting, RetryIn: m.Delay,
	})
	if m.To == jobs.Waiting {
		t.shift(r, plan.Parking)
	} else {
		t.shift(r, plan.Closing)
	}
	t.recount(r, state, func() {
		t.record(r, m, took, func(done bool) {
			switch {
			case done && m.To == jobs.Waiting && t.role == serves: // the leader assigns it again
			case done && m.To == jobs.Waiting:
				r.record.State, r.record.Owner, r.record.Token, r.record.Error = jobs.Waiting, t.holder.Owner, t.holder.Token, m.Error
				t.enqueue(r, m.Delay)
				return
			case !done && t.stage != stopped:
				t.runLog(r).Warn("the ledger refused the run's outcome: the run was taken over, or a failover has lost its start")
				t.reader.soon() // a row that a failover has put back is found then
			}
			t.forget(r)
			if next.Counts && t.role != serves {
				t.beside(countFailures(e))
			}
		})
	})
	t.rest(e, r.record, next.Rest)
	t.freed(e)
}

// unbegun leaves a run to the next leader whose attempt did not begin before the term
// was over.
func (t *term) unbegun(r *run) {
	if r.stop != nil {
		t.drop(r)
		return
	}
	t.runLog(r).Info("not started: the term ended while its arguments were read; it is left to the next", zap.Error(context.Cause(t.ctx)))
	t.handOn(r)
}

// unbegin takes back that an attempt is counted which has not begun. One with shards has, since these are there.
func (r *run) unbegin() {
	if r.record.Shards == 0 {
		r.record.Unbegun++
	}
}

// handOn leaves a run to the next leader whose attempt is counted and has not begun.
func (t *term) handOn(r *run) {
	r.unbegin()
	t.close(r, jobs.Waiting, "")
}

// rest keeps the job of a run occupied for so long, if at all, although nothing of it runs.
func (t *term) rest(e *entry, of jobs.Record, wait time.Duration) {
	if wait <= 0 {
		return
	}
	var seat plan.Seat
	e.Shift(&seat, of, plan.Resting)
	t.after(wait, func() {
		e.Shift(&seat, of, plan.Gone)
		t.freed(e)
		t.claimDue(e, t.now()) // what was not claimed meanwhile
	})
}

// replace ends the runs that the newest tick of a job replaces, once that tick waits for nothing but room.
func (t *term) replace(e *entry) {
	at := -1
	for i, r := range e.blocked {
		if r.Phase() == plan.Blocked && e.Displaces(r.record, t.now()) && !t.paused(r) && (at < 0 || r.record.Tick.After(e.blocked[at].record.Tick)) {
			at = i
		}
	}
	if at < 0 || !t.mayStart() {
		return
	}
	for _, earlier := range t.replacedBy(e.blocked[at], e.blocked[at+1:]) {
		t.interrupt(earlier, jobs.ErrReplacedByTick)
	}
}

// replacedBy are the runs that end when a tick starts. Those that were triggered, and stand in line behind it, do not.
func (t *term) replacedBy(tick *run, behind []*run) (earlier []*run) {
	for _, other := range tick.entry.runs {
		isBehind := other.record.Trigger != 0 && slices.Contains(behind, other)
		if other != tick && other.stop == nil && !isBehind && t.isReplaced(other, tick) {
			earlier = append(earlier, other)
		}
	}
	return earlier
}

// isOvertaken reports whether a later tick, which replaces this one, has started already: a failover had lost the end of
// this one.
func (t *term) isOvertaken(tick *run) bool {
	if !tick.entry.job.Overlap.Replaces() || tick.record.Trigger != 0 {
		return false
	}
	for _, by := range tick.entry.runs {
		if by.record.Trigger == 0 && by.Phase().HasRoom() && t.isReplaced(tick, by) {
			return true
		}
	}
	return false
}

func (t *term) isReplaced(r, by *run) bool {
	return plan.IsReplaced(r.record, t.clock.Ours(r.record.Claimed), by.record.Tick)
}

// interrupt ends a run early. If a write of the run is under way, it ends as soon as the
// answer is clear.
func (t *term) interrupt(r *run, why error) {
	r.stop = why
	switch {
	case r.away != nil && r.record.State == 0: // it is being claimed
	case r.away != nil:
		t.endThere(r, why)
	case r.attempt != nil:
		r.attempt.cancel(why)
	case r.Phase().Pending():
		t.drop(r)
	}
}

// endThere has a run ended that is away, early: its replica learns of that from the ledger.
func (t *term) endThere(r *run, why error) {
	key, to := r.record.Key, r.away.to
	t.beside(func(v *env) {
		if v.cancel(key) == nil {
			v.log.Info("a run of another replica is to end", zap.String("job", key.Job), zap.Time("tick", key.Tick), zap.String("by", to.Owner), zap.NamedError("why", why))
			v.do(func(t *term) { t.wakeReplica(to) })
		}
	})
}

// cancel asks for the end of a run, unless it has ended.
func (v *env) cancel(key jobs.Key) error {
	return v.retry(v.ctx, "cancel a run", func(ctx context.Context) error {
		err := v.db.Cancel(acting(ctx, v.holder.Owner), v.holder.Group, key)
		if errors.Is(err, jobs.ErrNoRun) {
			return nil
		}
		return err
	})
}

// drop closes a run that was to end before it started.
func (t *term) drop(r *run) {
	if r.record.Shards > 0 {
		t.dropShards(r)
		return
	}
	to := jobs.Cancelled
	if errors.Is(r.stop, jobs.ErrReplacedByTick) && !plan.HasBegun(r.record) {
		to = jobs.Skipped
	}
	t.close(r, to, r.stop.Error())
}

// dropShards ends the shards of a run that is to end and has no attempt, and then the run.
func (t *term) dropShards(r *run) {
	r.shards = jobs.ShardsOf(r.record.Job)
	record, shards := r.record, r.shards
	t.shift(r, plan.Running)
	ctx, cancel := context.WithCancelCause(t.ctx)
	cancel(r.stop)
	t.beside(func(v *env) {
		_ = v.join(ctx, record, shards)
		v.do(func(t *term) {
			if v.ctx.Err() != nil {
				t.forget(r) // it is the next leader's
				return
			}
			t.close(r, jobs.Cancelled, r.stop.Error())
		})
	})
}

// close writes what becomes of a run that is not started.
func (t *term) close(r *run, to jobs.State, why string) {
	t.shift(r, plan.Closing)
	t.tellDropped(r, to, why)
	t.record(r, move(r.record, to, why), 0, func(done bool) {
		if done && plan.IsMissed(why) {
			t.skips.add(r.record.Job, plan.Gap{From: r.record.Tick, To: r.record.Tick, Ticks: 1, Why: why})
		}
		t.forget(r)
	})
}

// forget drops a run, and lets go on what waited for it.
func (t *term) forget(r *run) {
	t.tellDropped(r, jobs.Waiting, "")
	t.shift(r, plan.Gone)
	delete(r.entry.runs, r.record.Key)
	t.over.add(r.record.Key, t.reader.number.Load())
	t.freed(r.entry)
	t.retired(r.entry)
}
