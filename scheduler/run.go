package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// The life of a run: its phases, and the function that moves it from one to the
// next. All of them run in the term's loop. What they write goes out through the
// writer, and the answer comes back into the loop. The code below is in this order.
//
//	from          to        by           when
//	a due tick    running   claimDue     it may start at once; the claim is under way
//	              parking   claimDue     it has to wait; the claim is under way
//	the ledger    waiting   found        an earlier term left it waiting, or it is run again
//	              closing   found        its cancel was requested, or it is not run again
//	parking       waiting   enqueue      the ledger has it as waiting
//	waiting       ready     admit        its time has come, and its job has room
//	ready         running   launch       this replica has a slot; the ledger is being told
//	              waiting   launchReady  it was paused meanwhile
//	running       running   start        the ledger has it as running: an attempt begins
//	              parking   finish       the attempt has ended, and another will follow
//	              closing   finish       the attempt has ended, and it was the last
//	no attempt    closing   close        it is skipped, cancelled, or left to the next leader
//	closing       gone      forget       the ledger has it as over, or as another term's
//	              waiting   enqueue      it was found under this term's token: see reclaim
//
// A claim or start that the ledger refuses ends in forget at once: the run is over,
// or another term has it.

// run is a run of the ledger that the term tracks ("in hand"): from its claim, or
// from when it was found in the ledger, until its outcome is written. Meanwhile the
// ledger's record of it may be out of date, and only a cancel request in it counts.
type run struct {
	entry   *entry
	record  jobs.Record
	phase   phase
	attempt *attempt // the one in progress
	before  jobs.Previous
	stop    error // why it is not to start, or not to go on
}

// phase is how far a run has come. It decides what the run counts towards.
type phase uint8

const (
	gone    phase = iota // not in hand
	parking              // is to wait: the ledger is being told
	held                 // belongs to a backfill, and waits for its turn: see backfill.go
	waiting              // for its time, or for room in its job
	ready                // has the room, and waits for a slot of this replica
	running              // has a slot: an attempt is in progress, or the ledger is being told
	closing              // is not started any more: the ledger is being told
	phases
)

// attempt is an attempt in progress.
type attempt struct {
	jobs.Run
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	log     *zap.Logger
}

// claimDue claims the ticks of a job that are due.
func (t *term) claimDue(e *entry, now time.Time) {
	if e.claiming || e.refused || e.counting > 0 || e.removed || e.changing || e.left != nil || e.next.IsZero() || e.next.After(now) || t.draining || t.ctx.Err() != nil || !t.held.Trusted() {
		return
	}
	if _, ok := jobs.Base(e.job.Schedule).(jobs.FixedDelaySchedule); ok && e.busy() > 0 {
		return // counts from the end of what runs
	}
	if e.parted && e.busy() > e.filling() {
		return // ticks after the pause would be skipped because of ticks before it
	}
	until, paused, ok := t.stretch(e, now)
	if !ok {
		return
	}
	claims := slices.DeleteFunc(e.plan(now, until, paused, t.slot()), func(c store.Claim) bool {
		return e.runs[c.Key] != nil // it is in hand already
	})
	if len(claims) == 0 {
		return
	}
	if c := &claims[0]; c.State == jobs.Skipped && c.Error == e.skipped.why && e.skipped.tick.Equal(e.recorded) {
		c.Extends = e.skipped.tick
	}
	if claims[len(claims)-1].State == jobs.Skipped {
		e.finished(now) // a fixed delay counts from here
	} else if e.job.Overlap == jobs.OverlapReplace && claims[len(claims)-1].Delay == 0 {
		t.replaceAll(e, nil)
	}
	e.parted = !paused && until.Before(now) && e.job.Misfire == jobs.MisfireOnce
	e.claiming, e.asked = true, claims[0].Tick
	for i := range claims {
		c := &claims[i]
		if c.State == jobs.Skipped {
			continue
		}
		r := t.take(e, jobs.Record{Key: c.Key})
		if c.State == jobs.Running && t.slot() {
			t.shift(r, running)
		} else { // those before it took the slots
			c.State = jobs.Waiting
			t.shift(r, parking)
		}
	}
	t.wrote.claim(e, claims)
}

// replaceAll ends the runs of a job but for the one that takes their place, for which
// nil stands before it is in hand.
func (t *term) replaceAll(e *entry, by *run) {
	for _, r := range e.runs {
		if r != by && !triggers.IsBackfill(r.record.Trigger) {
			t.end(r, jobs.ErrReplacedByTick)
		}
	}
}

// claimed takes in the answer to a claim: err says that there is none, and
// that the term is over.
func (t *term) claimed(e *entry, claims []store.Claim, result []store.Claimed, err error) {
	e.claiming = false
	refused := false
	for i, c := range claims {
		log := t.log.With(zap.String("job", e.job.Name), zap.Time("tick", c.Tick))
		mine := err == nil && t.gained(e, c, result[i])
		switch {
		case err != nil:
		case result[i].Refused():
			refused = true
			e.noteRefused(c.Key)
		default:
			e.recorded = later(e.recorded, c.Tick)
			t.memory.claimed(e.job.Name, e.known.Since, c.Tick, t.clock.own().Mono)
			if !mine {
				log.Info("a tick was claimed before", zap.String("by", result[i].Owner))
			}
		}
		e.skipped.tick, e.skipped.why = time.Time{}, ""
		if mine && c.State == jobs.Skipped {
			e.skipped.tick, e.skipped.why = c.Tick, c.Error
		}
		if i == 0 && mine && e.gap.ticks > 0 {
			t.skips.add(e.job.Name, e.gap)
		}
		if c.State == jobs.Skipped {
			continue
		}
		r := e.runs[c.Key]
		if !mine {
			t.forget(r)
			continue
		}
		r.record = result[i].Record
		switch {
		case r.record.State == jobs.Waiting:
			t.enqueue(r, e.putOff(c.Tick, t.now()))
		case e.tooLate(c.Tick, t.now()): // the answer was long in coming
			t.close(r, jobs.Skipped, tooLate)
		default:
			t.start(r)
		}
	}
	if refused {
		t.refused(e)
	}
	t.freed(e)
	t.claimDue(e, t.now()) // what became due meanwhile
	t.retired(e)
}

// gained reports whether a claim has got its tick for this term. So has one that
// finds the run open under the term's own token: then an earlier claim, which was
// refused while the job was paused, has arrived late once more.
func (t *term) gained(e *entry, c store.Claim, result store.Claimed) bool {
	own := result.Owner == t.holder.Owner && result.Token == t.holder.Token && !result.Refused() && !result.State.Over()
	if own && !result.Mine && c.State == jobs.Skipped && e.runs[c.Key] == nil {
		t.close(t.take(e, result.Record), jobs.Skipped, c.Error)
	}
	if result.Mine || own {
		e.forgetRefused(c.Key)
		return true
	}
	return false
}

// found takes in a run that the ledger has as open, in a snapshot of that instant.
func (t *term) found(e *entry, record jobs.Record, now time.Time) {
	switch r := e.runs[record.Key]; {
	case r != nil && record.CancelAsked:
		t.end(r, jobs.ErrCancelled)
	case r != nil:
	case e.removed: // and something else of it is under way: see retire
	case t.leave(e, record):
	case record.CancelAsked:
		t.close(t.take(e, record), jobs.Cancelled, jobs.ErrCancelled.Error())
	case record.State == jobs.Waiting && record.Attempt == 0 && triggers.IsAfter(record.Trigger):
		t.lineUp(t.take(e, record))
	case record.State == jobs.Waiting && isHeld(record):
		t.hold(t.take(e, record), now)
	case record.State == jobs.Waiting:
		r := t.take(e, record)
		if record.Attempt > 0 {
			r.before = jobs.ParsePrevious(record.Error)
		}
		t.enqueue(r, min(record.Due.Sub(now), e.longestWait(record.Attempt)))
	case record.Token != t.holder.Token:
		t.recover(t.take(e, record))
	default:
		t.reclaim(t.take(e, record))
	}
}

// recover decides what becomes of a run that an earlier term did not finish.
func (t *term) recover(r *run) {
	log := t.log.With(zap.String("job", r.record.Job), zap.Time("tick", r.record.Tick), zap.String("by", r.record.Owner), zap.Int("attempt", r.record.Attempt))
	if r.entry.rerun(r.record.Attempt) {
		log.Warn("an interrupted run is run again")
		r.before = jobs.Previous{State: jobs.Interrupted, Error: "not finished by " + r.record.Owner}
		t.enqueue(r, 0)
		return
	}
	why := "not finished by " + r.record.Owner
	if r.entry.job.Recover == jobs.RecoverRerun {
		why += ", and interrupted too often to be run again"
	}
	log.Warn("a run was interrupted and is not run again", zap.String("why", why))
	t.close(r, jobs.Interrupted, why)
}

// reclaim deals with a run that is under this term's token and not in hand, as a
// restored table may have it, or a claim that was refused and arrived late once
// more. The run of such a claim never began, so it is run whatever [jobs.Recover]
// says. What the ledger has said may be old: until it has taken the change, the
// run counts for nothing.
func (t *term) reclaim(r *run) {
	began := !r.entry.wasRefused(r.record.Key)
	if !began && r.entry.tooLate(r.record.Tick, t.now()) {
		t.close(r, jobs.Skipped, tooLate)
		return
	}
	if began && !r.entry.rerun(r.record.Attempt) {
		t.close(r, jobs.Interrupted, "not in hand of its holder")
		return
	}
	t.shift(r, closing)
	t.wrote.move(move(r.record, jobs.Waiting, ""), func(done bool) {
		if !done {
			t.forget(r)
			return
		}
		r.record.State = jobs.Waiting
		if began {
			r.before = jobs.Previous{State: jobs.Interrupted, Error: "not in hand of its holder"}
		}
		t.enqueue(r, 0)
	})
}

// enqueue starts a run once its time has come, its job has room and this
// replica has a slot.
func (t *term) enqueue(r *run, wait time.Duration) {
	t.shift(r, waiting)
	join := func() {
		if wait > 0 && r.entry.job.Overlap == jobs.OverlapReplace && r.record.Attempt == 0 && r.phase == waiting {
			t.replaceAll(r.entry, r) // what its tick left running meanwhile
		}
		r.entry.blocked = append(r.entry.blocked, r)
		t.freed(r.entry)
	}
	switch {
	case r.stop != nil:
		t.drop(r)
	case r.entry.removed:
		t.letGo(r)
		t.retired(r.entry)
	case wait > 0:
		t.after(wait, join)
	default:
		join()
	}
}

// freed lets runs that waited for room or for a slot go on, first come first
// served, and plans the next tick of a schedule that counts from the end of runs.
func (t *term) freed(e *entry) {
	if t.draining {
		return // it is the next leader's
	}
	t.admit(e)
	t.admitHeld(e)
	t.launchReady()
	if _, ok := e.job.Schedule.(jobs.Relative); ok && e.busy() == 0 && !e.removed {
		last := e.next
		e.resolve()
		if !e.next.IsZero() && !e.next.Equal(last) {
			t.after(e.next.Sub(t.now()), func() { t.claimDue(e, t.now()) })
		}
	}
}

// admit lets runs that wait into the room that their job has.
func (t *term) admit(e *entry) {
	for at := 0; at < len(e.blocked) && e.room(); {
		r := e.blocked[at]
		if r.phase == waiting && t.paused(r) {
			at++
			continue
		}
		e.blocked = slices.Delete(e.blocked, at, at+1)
		if r.phase == waiting { // it was not dropped
			t.shift(r, ready)
			t.ready = append(t.ready, r)
		}
	}
}

// launchReady launches runs of all jobs into the slots that this replica has.
func (t *term) launchReady() {
	for len(t.ready) > 0 && t.slot() {
		r := t.ready[0]
		t.ready = t.ready[1:]
		switch {
		case r.phase != ready:
		case t.paused(r) && isHeld(r.record):
			t.shift(r, held)
			r.entry.backlog = slices.Insert(r.entry.backlog, 0, r)
		case t.paused(r): // while it waited for a slot
			t.shift(r, waiting)
			r.entry.blocked = slices.Insert(r.entry.blocked, 0, r)
		default:
			t.launch(r)
		}
	}
}

// slot reports whether another run may start on this replica.
func (t *term) slot() bool { return t.most == 0 || t.running < t.most }

// launch tells the ledger that a run starts, and starts it.
func (t *term) launch(r *run) {
	if r.record.Attempt == 0 && r.record.Trigger == 0 && r.entry.tooLate(r.record.Tick, t.now()) {
		t.close(r, jobs.Skipped, tooLate)
		return
	}
	t.shift(r, running)
	t.wrote.move(move(r.record, jobs.Running, ""), func(done bool) {
		if !done {
			t.forget(r) // it is over, or another term has it
			return
		}
		r.record.State = jobs.Running
		r.record.Attempt++
		r.record.Owner, r.record.Token = t.holder.Owner, t.holder.Token
		t.start(r)
	})
}

// start starts an attempt of a run that the ledger says is ours.
func (t *term) start(r *run) {
	log := t.log.With(zap.String("job", r.record.Job), zap.Time("tick", r.record.Tick), zap.Int("attempt", r.record.Attempt))
	if r.stop != nil {
		t.drop(r)
		return
	}
	// Here a log that is blocked is noticed: see watchdog. The term may be over when
	// it goes on, so the line comes before the check.
	log.Info("run started")
	// The deadline itself, not only the context: see election.Term.Trusted.
	if t.draining || t.ctx.Err() != nil || !t.held.Trusted() {
		log.Info("not started: the term is over, or ends; it is left to the next")
		t.close(r, jobs.Waiting, "")
		return
	}
	job, record := r.entry.job, r.record
	a := &attempt{started: time.Now(), log: log}
	a.Run = jobs.Run{
		Group: t.holder.Group, Job: record.Job, Tick: record.Tick, Trigger: record.Trigger,
		Owner: t.holder.Owner, Token: t.holder.Token, Attempt: record.Attempt, Missed: record.Missed,
		Previous: r.before,
	}
	_, again := job.Retry.After(record.Attempt)
	a.LastAttempt = !again
	ctx, stop := t.ctx, context.CancelFunc(func() {})
	if job.Timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, job.Timeout, jobs.ErrTimeout)
	}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	r.attempt = a
	t.registry.add(a)
	go func() {
		defer stop()
		defer a.cancel(nil)
		var err error
		if record.HasArgs {
			if err = t.readArgs(a); err != nil && t.ctx.Err() != nil {
				t.do(func() { t.unbegun(r) })
				return
			}
		}
		if err == nil {
			err = job.Call(a.ctx, a.Run)
		}
		state, why := outcome(a.ctx, err)
		t.do(func() { t.finish(r, state, why, err) })
	}()
}

// outcome is the state that an attempt ended in, and why: for a context that has
// ended, the cause comes first.
func outcome(ctx context.Context, err error) (state jobs.State, why string) {
	if err == nil {
		return jobs.Succeeded, ""
	}
	cause := context.Cause(ctx)
	why = err.Error()
	if cause != nil && !errors.Is(err, cause) {
		why = fmt.Sprintf("%v: %v", cause, err)
	}
	var panicked *jobs.PanicError
	switch {
	case errors.As(err, &panicked):
		return jobs.Panicked, why
	case cause == nil:
		return jobs.Failed, why
	case errors.Is(cause, jobs.ErrTimeout):
		return jobs.TimedOut, why
	default:
		return jobs.Cancelled, why
	}
}

// finish records how an attempt ended, and what follows.
func (t *term) finish(r *run, state jobs.State, why string, err error) {
	e, a := r.entry, r.attempt
	r.attempt = nil
	t.registry.remove(a)
	e.finished(t.now())
	e.ended++
	m := move(r.record, state, why)
	switch state {
	case jobs.Failed, jobs.TimedOut, jobs.Panicked:
		if wait, again := e.job.Retry.After(a.Attempt); again && !jobs.IsPermanent(err) {
			m.To, m.Delay = jobs.Waiting, wait
		}
	case jobs.Cancelled:
		if r.stop == nil && e.rerun(a.Attempt) {
			m.To = jobs.Waiting // for the next leader
		}
	}
	if m.To == jobs.Waiting {
		r.before = jobs.Previous{State: state, Error: ledgerrows.CutError(why)} // as after a takeover
		m.Error = r.before.String()
	}
	counts := e.job.PauseAfter > 0 && isFailure(m.To)
	if counts {
		e.counting++
	}
	m.Then = t.then(r, m.To, time.Since(a.started))
	a.report(state, m, err)
	if m.To == jobs.Waiting {
		t.shift(r, parking)
	} else {
		t.shift(r, closing)
	}
	t.wrote.move(m, func(done bool) {
		switch {
		case done && m.To == jobs.Waiting:
			r.record.State, r.record.Owner, r.record.Token = jobs.Waiting, t.holder.Owner, t.holder.Token
			t.enqueue(r, m.Delay)
			return
		case !done && !t.stopping:
			a.log.Warn("the ledger refused the run's outcome: the run was taken over")
		}
		if done {
			t.followed(r.record, m.Then)
		}
		t.forget(r)
		if counts {
			t.helpers.Go(t.countFailures(e))
		}
	})
	t.rest(e, e.job.LockAtLeastFor-time.Since(a.started))
	t.freed(e)
}

// rest keeps a job occupied for so long, if at all, although nothing of it runs.
func (t *term) rest(e *entry, wait time.Duration) {
	if wait <= 0 {
		return
	}
	e.resting++
	t.after(wait, func() {
		e.resting--
		t.freed(e)
		t.claimDue(e, t.now()) // what was not claimed meanwhile
	})
}

// end ends a run early. If a write of the run is under way, it ends as soon as the
// answer is clear.
func (t *term) end(r *run, why error) {
	r.stop = why
	switch {
	case r.attempt != nil:
		r.attempt.cancel(why)
	case r.phase == held || r.phase == waiting || r.phase == ready:
		t.drop(r)
	}
}

// drop closes a run that was to end before it started.
func (t *term) drop(r *run) {
	to := jobs.Cancelled
	if errors.Is(r.stop, jobs.ErrReplacedByTick) && r.record.Attempt == 0 {
		to = jobs.Skipped
	}
	t.close(r, to, r.stop.Error())
}

// close writes what becomes of a run that is not started.
func (t *term) close(r *run, to jobs.State, why string) {
	t.shift(r, closing)
	m := move(r.record, to, why)
	m.Then = t.then(r, to, 0)
	t.wrote.move(m, func(done bool) {
		if done {
			t.followed(r.record, m.Then)
		}
		if done && why == tooLate {
			t.skips.add(r.record.Job, gap{r.record.Tick, r.record.Tick, 1, why})
		}
		t.forget(r)
	})
}

// move is the change of a run from what its record says.
func move(r jobs.Record, to jobs.State, why string) store.Move {
	return store.Move{Key: r.Key, From: r.State, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token, To: to, Error: why}
}

// take takes a run in hand that is not yet.
func (t *term) take(e *entry, record jobs.Record) *run {
	r := &run{entry: e, record: record}
	e.runs[record.Key] = r
	return r
}

// shift moves a run to another phase: the only place that counts.
func (t *term) shift(r *run, to phase) {
	r.entry.count[r.phase]--
	r.entry.count[to]++
	if triggers.IsBackfill(r.record.Trigger) {
		r.entry.backfilled[r.phase]--
		r.entry.backfilled[to]++
	}
	if r.phase == running {
		t.running--
	}
	if to == running {
		t.running++
	}
	r.phase = to
}

// forget drops a run, and lets go on what waited for it.
func (t *term) forget(r *run) {
	t.shift(r, gone)
	delete(r.entry.runs, r.record.Key)
	t.freed(r.entry)
	t.retired(r.entry)
}
