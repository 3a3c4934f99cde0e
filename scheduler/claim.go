package scheduler

import (
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// claimDue claims the ticks of a job that are due.
func (t *term) claimDue(e *entry, now time.Time) {
	if t.role == serves || e.Hold(now) != plan.Due || !t.mayStart() {
		return
	}
	claims := e.Claim(now, t.roll.pauses, t.startsAtOnce(e), e.hasRun)
	if len(claims.Rows) == 0 {
		return
	}
	for i := range claims.Rows {
		c := &claims.Rows[i]
		if c.State == jobs.Skipped {
			continue
		}
		r := t.take(e, jobs.Record{Key: c.Key})
		if c.State == jobs.Running {
			t.shift(r, plan.Running)
		} else {
			t.shift(r, plan.Parking)
		}
	}
	for i := range claims.Rows {
		claims.Rows[i].Then = t.leftOut(t.followers.OfClaim(claims.Rows[i], time.Now()))
	}
	t.wrote.claim(e.job.Name, claims, follow{
		send:  func(write) { t.place(e, claims) },
		aside: func(write) { t.standAside(e, claims) },
	}, func(result []store.Claimed, err error) { t.claimed(e, claims, result, err) })
}

// startsAtOnce is how many runs of a job may be claimed as running, or as assigned.
func (t *term) startsAtOnce(e *entry) int {
	if t.stage == gathering || t.role == assigns && !t.mayAssign() || e.job.shards != nil { // these start with a move, which inserts their shards
		return 0
	}
	return min(t.slots.left(), t.poolLeft(e))
}

// place assigns the runs of claims that may start, right before these are sent.
func (t *term) place(e *entry, claims plan.Claims) {
	if t.role != assigns {
		return
	}
	for i := range claims.Rows {
		c := &claims.Rows[i]
		r := e.runs[c.Key]
		if c.State == jobs.Skipped || r.Phase() != plan.Running {
			continue
		}
		c.State, c.For, c.Details = jobs.Waiting, store.Assignee{}, jobs.Details{}
		t.comeBack(r)
		if to, ok := t.choose(r); ok {
			t.goAway(r, &away{to: to, given: time.Now()})
			c.For, c.Details = to, t.assignment(r)
		}
	}
}

// standAside gives the slots back that claims have which were set aside. They are claimed as waiting from then on.
func (t *term) standAside(e *entry, claims plan.Claims) {
	for i := range claims.Rows {
		if c := &claims.Rows[i]; c.State == jobs.Running {
			c.State = jobs.Waiting
			t.giveBack(e.runs[c.Key])
		} else if r := e.runs[c.Key]; r != nil {
			t.comeBack(r) // it takes no slot of the replica that it would have gone to
		}
	}
}

// claimed takes in the answer to a claim: err says that there is none, and
// that the term is over.
func (t *term) claimed(e *entry, claims plan.Claims, result []store.Claimed, err error) {
	refused := false
	for i, c := range claims.Rows {
		mine := err == nil && t.gained(e, c, result[i])
		if err == nil {
			t.answered(result[i].Record, c.Then, result[i].Mine)
			e.Answer(c, result[i], mine)
			if result[i].Refused() {
				refused = true
			} else {
				t.memory.Claimed(e.Known().Since, result[i].Record, t.clock.Own().Mono)
				if !mine {
					t.log.Info("a tick was claimed before", zap.String("job", e.job.Name), zap.Time("tick", c.Tick), zap.String("by", result[i].Owner))
				}
			}
		}
		if i == 0 && mine && claims.Skips.Ticks > 0 {
			t.skips.add(e.job.Name, claims.Skips)
		}
		if c.State == jobs.Skipped {
			continue
		}
		r := e.runs[c.Key]
		if !mine {
			t.forget(r)
			if t.role == assigns {
				t.reader.soon() // it may be this term's, by a copy of the claim that came late
			}
			continue
		}
		r.record = result[i].Record
		r.told = true
		claimed := event.RunClaimed{Header: t.head(), Key: c.Key, Waiting: r.record.State == jobs.Waiting, Missed: c.Missed}
		if claimed.Waiting {
			claimed.PutOff = e.PutOff(c.Tick, t.now())
		}
		t.stream.Emit(claimed)
		if r.record.Owner != "" && t.role == assigns {
			t.placed(r)
			continue
		}
		if r.record.State == jobs.Running {
			t.began(r, time.Now())
		}
		why := e.LateAnswer(c.Tick, t.clock.Ours(r.record.Claimed), t.now())
		switch {
		case why != "":
			t.close(r, jobs.Skipped, why)
		case r.record.State == jobs.Waiting:
			t.enqueue(r, e.PutOff(c.Tick, t.now()))
		default:
			t.startIn(r)
		}
	}
	e.Answered(refused)
	if refused {
		t.reader.soon()
	}
	t.freed(e)
	t.claimDue(e, t.now()) // what became due meanwhile
	t.retired(e)
}

// gained reports whether a claim has got its tick for this term. So has one that
// finds the run open under the term's own token: then an earlier claim, which was
// refused while the job was paused, has arrived late once more.
func (t *term) gained(e *entry, c store.Claim, result store.Claimed) bool {
	own := t.isOurs(result.Record) && !result.Refused() && !result.State.Over()
	if own && !result.Mine && c.State == jobs.Skipped && e.runs[c.Key] == nil {
		t.close(t.take(e, result.Record), jobs.Skipped, c.Error)
	}
	return result.Mine || own
}
