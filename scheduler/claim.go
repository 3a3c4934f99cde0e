package scheduler

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// claimDue claims the ticks of a job that are due.
func (t *term) claimDue(e *entry, now time.Time) {
	if e.claiming || e.refused || e.counting > 0 || e.removed || e.changing || e.left != nil || e.next.IsZero() || e.next.After(now) || t.stage >= draining || t.ctx.Err() != nil || !t.held.Trusted() {
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
	claims := slices.DeleteFunc(e.plan(now, until, paused, t.slots.free()), func(c store.Claim) bool {
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
		if c.State == jobs.Running && t.slots.free() {
			t.shift(r, running)
		} else { // those before it took the slots
			c.State = jobs.Waiting
			t.shift(r, parking)
		}
	}
	for i := range claims {
		claims[i].Then = t.notices.ofClaim(claims[i])
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
		if err == nil {
			t.answered(result[i].Record, c.Then, result[i].Mine)
		}
		switch {
		case err != nil:
		case result[i].Refused():
			refused = true
			e.noteRefused(c.Key)
		default:
			e.recorded = later(e.recorded, c.Tick)
			t.memory.claimed(e.known.Since, result[i].Record, t.clock.own().Mono)
			if !mine {
				log.Info("a tick was claimed before", zap.String("by", result[i].Owner))
			}
		}
		e.skipped.tick, e.skipped.why = time.Time{}, ""
		if mine && c.State == jobs.Skipped && len(c.Then) == 0 { // what was told of keeps its row
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
		r.told = true
		t.stream.Emit(event.RunClaimed{Header: t.head(), Key: c.Key, Waiting: r.record.State == jobs.Waiting, Missed: c.Missed})
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
