package scheduler

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// claimDue claims the ticks of a job that are due.
func (t *term) claimDue(e *entry, now time.Time) {
	if e.claiming || e.refused || e.next.IsZero() || e.next.After(now) || t.ctx.Err() != nil || !t.held.Trusted() {
		return
	}
	if _, ok := e.job.Schedule.(jobs.FixedDelaySchedule); ok && e.busy() > 0 {
		return // counts from the end of what runs
	}
	if e.parted && e.busy() > 0 {
		return // ticks after the pause would be skipped because of ticks before it
	}
	until, paused, ok := t.stretch(e, now)
	if !ok {
		return
	}
	claims := slices.DeleteFunc(e.plan(now, until, paused, t.slot()), func(c jobs.Claim) bool {
		return e.rows[c.Key] != nil // it is in hand already
	})
	if len(claims) == 0 {
		return
	}
	if claims[len(claims)-1].State == jobs.Skipped {
		e.finished(now) // a fixed delay counts from here
	} else if e.job.Overlap == jobs.OverlapReplace {
		for _, r := range e.rows {
			t.end(r, jobs.ErrReplacedByTick)
		}
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
			t.shift(r, asked)
		}
	}
	t.wrote.claim(e, claims)
}

// slot reports whether another run may start on this replica.
func (t *term) slot() bool { return t.most == 0 || t.running < t.most }

// claimed takes in the answer to a claim: err says that there is none, and
// that the term is over.
func (t *term) claimed(e *entry, claims []jobs.Claim, result []jobs.Claimed, err error) {
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
			e.settled = later(e.settled, c.Tick)
			t.memory.claimed(e.job.Name, e.known.Since, c.Tick, t.clock.own().Mono)
			if !mine {
				log.Info("a tick was claimed before", zap.String("by", result[i].Owner))
			}
		}
		if i == 0 && mine && e.gap.ticks > 0 {
			t.skips.add(e.job.Name, e.gap)
		}
		if c.State == jobs.Skipped {
			continue
		}
		r := e.rows[c.Key]
		if !mine {
			t.forget(r)
			continue
		}
		r.record = result[i].Record
		switch {
		case r.record.State == jobs.Waiting:
			t.enqueue(r, c.Delay)
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
}

// gained reports whether a claim has got its tick for this term. So has one that
// finds the row open under the term's own token: then an earlier claim, which was
// refused while the job was paused, has arrived late once more.
func (t *term) gained(e *entry, c jobs.Claim, result jobs.Claimed) bool {
	own := result.Owner == t.holder.Owner && result.Token == t.holder.Token && !result.Refused() && !result.State.Over()
	if own && !result.Mine && c.State == jobs.Skipped && e.rows[c.Key] == nil {
		t.close(t.take(e, result.Record), jobs.Skipped, c.Error)
	}
	if result.Mine || own {
		e.forgetRefused(c.Key)
		return true
	}
	return false
}

// enqueue starts a row once its time has come, its job has room and this
// replica has a slot.
func (t *term) enqueue(r *row, wait time.Duration) {
	t.shift(r, waiting)
	join := func() {
		r.entry.blocked = append(r.entry.blocked, r)
		t.freed(r.entry)
	}
	switch {
	case r.stop != nil:
		t.drop(r)
	case wait > 0:
		t.after(wait, join)
	default:
		join()
	}
}

// freed lets runs that waited for room or for a slot go on, first come first
// served, and plans the next tick of a schedule that counts from the end of runs.
func (t *term) freed(e *entry) {
	if t.stopping {
		return // it is the next leader's
	}
	for at := 0; at < len(e.blocked) && e.room(); {
		r := e.blocked[at]
		if r.phase == waiting && t.holds(r) {
			at++
			continue
		}
		e.blocked = slices.Delete(e.blocked, at, at+1)
		if r.phase == waiting { // it was not dropped
			t.shift(r, ready)
			t.ready = append(t.ready, r)
		}
	}
	for len(t.ready) > 0 && t.slot() {
		r := t.ready[0]
		t.ready = t.ready[1:]
		switch {
		case r.phase != ready:
		case t.holds(r): // it was paused while it waited for a slot
			t.shift(r, waiting)
			r.entry.blocked = slices.Insert(r.entry.blocked, 0, r)
		default:
			t.launch(r)
		}
	}
	if _, ok := e.job.Schedule.(jobs.Relative); ok && e.busy() == 0 {
		last := e.next
		e.resolve(t.now())
		if !e.next.IsZero() && !e.next.Equal(last) {
			t.after(e.next.Sub(t.now()), func() { t.claimDue(e, t.now()) })
		}
	}
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

// launch tells the ledger that a row starts, and starts it.
func (t *term) launch(r *row) {
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
