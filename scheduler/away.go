package scheduler

import (
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/crew"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// In a group whose runs are spread, the leader assigns a run instead of starting it. From then on the run is away: in the
// phase running, without an attempt, until the ledger says that it is over, or that its replica's session is.

// away is a run that was assigned to a replica.
type away struct {
	to    store.Assignee
	given time.Time // when it was, as far as this term knows
	woken time.Time // when its replica was woken again; zero: it was not
	since uint64    // the reader's number when the ledger had confirmed the assignment, or had shown it
	sure  bool      // the ledger has; else it is being told
	told  bool      // observers know of it
	began time.Time // when it was seen to run; zero: it was not
}

// spread is what a leader needs to assign runs.
type spread struct {
	choice
	wakes
	db      store.Spreads
	crew    *crew.Crew
	changed signal    // the crew has
	quiet   time.Time // nothing is assigned until then: another server may have lost what replicas still trust
}

func newSpread(t *term) *spread {
	m, changed := t.sessions, make(signal, 1)
	m.s.crew.OnChange(changed.give)
	m.s.borrow()
	s := &spread{choice: newChoice(), wakes: newWakes(), db: m.db, crew: m.s.crew, changed: changed}
	s.doubt(keeper.HeldOf(t.ctx))
	return s
}

// crewChanged takes in that replicas have come, leave, or are gone.
func (t *term) crewChanged() {
	t.seeCrew()
	t.borrow()
	t.reader.soon()
	t.launchReady()
}

// assign gives a run to a replica. False: no replica can have it now. One that still stands under a replica which is
// gone is taken from it, so that the ledger says that nobody has it.
func (t *term) assign(r *run) bool {
	if r.lacksReplicas() {
		t.tellNone(r.entry, false)
		return false
	}
	if why := t.goneFrom(r); why != "" {
		t.close(r, jobs.Skipped, why)
		return true
	}
	to, ok := t.choose(r)
	if !ok && (r.record.Owner == "" || !t.mayAssign()) {
		return false
	}
	t.shift(r, plan.Running)
	t.give(r, to)
	return true
}

// give has the ledger assign a run to a replica, or to none. A run that another one was given keeps its room meanwhile:
// that one may start it still.
func (t *term) give(r *run, to store.Assignee) {
	t.goAway(r, &away{to: to, given: time.Now()})
	m := move(r.record, jobs.Waiting, r.record.Error)
	m.For, m.Details = to, t.assignment(r)
	attempt := r.record.Attempt
	if r.record.State == jobs.Waiting && r.record.Owner != "" { // the ledger counts it
		attempt++
		m.Unbegun++
	}
	t.wrote.move(m, func(done bool) {
		r.away.since, r.away.sure = t.reader.number.Load(), true
		if !done {
			t.reader.soon() // the row tells what has become of it
			return
		}
		r.record.State, r.record.Attempt, r.record.Owner, r.record.Token, r.record.Details = jobs.Waiting, attempt, to.Owner, to.Token, m.Details
		t.tellDropped(r, jobs.Waiting, "")
		t.tellAway(r)
		t.wakeReplica(to)
		t.poll()
	}, nil)
}

// assignment is what the row of a run says that is assigned.
func (t *term) assignment(r *run) jobs.Details {
	d := r.record.Details
	d.Fencing, d.Cluster, d.Failing = t.nextFencing(r.entry), t.wrote.home, r.entry.Known().Failing
	if !r.entry.judged.IsZero() {
		d.Judged = r.entry.judged.UnixMicro()
	}
	return d
}

// placed takes in that a run was claimed and assigned, in one.
func (t *term) placed(r *run) {
	to := store.Assignee{Owner: r.record.Owner, Token: r.record.Token}
	t.shift(r, plan.Running)
	t.goAway(r, &away{to: to, given: time.Now(), since: t.reader.number.Load(), sure: true})
	t.tellDropped(r, jobs.Waiting, "")
	if r.stop != nil {
		t.endThere(r, r.stop)
	}
	if r.record.State != jobs.Waiting { // this answers a repetition
		t.reader.soon()
	}
	t.wakeReplica(to)
	t.poll()
}

// nextFencing is a fencing token for a run of a job: greater than all that runs of it were given before, under any leader. A start
// is stamped with the instant of its token, or a later one, and the ledger keeps the latest start of each job. Leaders that ran all
// jobs gave them the tokens of their terms, which are below that of this one.
func (t *term) nextFencing(e *entry) uint64 {
	e.tokens = max(e.tokens+1, uint64(t.clock.Theirs(t.now()).UnixMicro()), t.holder.Token)
	return e.tokens
}

// knowFencing takes in what the ledger says of the fencing tokens of a job.
func (e *entry) knowFencing(started time.Time, given uint64) {
	e.tokens = max(e.tokens, uint64(max(0, started.UnixMicro())), given)
}

func (t *term) goAway(r *run, a *away) {
	t.comeBack(r)
	r.away = a
	t.spread.runs[a.to.Owner]++
	if a.sure {
		t.tellAway(r)
	}
}

// tellAway tells that a replica has a run, by the ledger.
func (t *term) tellAway(r *run) {
	if to := r.away.to.Owner; to != "" {
		r.away.told = true
		t.stream.Emit(event.RunAssigned{Header: t.head(), Key: r.record.Key, To: to})
	}
}

// foundAway takes in a run that the ledger has under a replica's session. False: that session is over, and the run is the
// leader's to deal with.
func (t *term) foundAway(e *entry, record jobs.Record) bool {
	e.knowFencing(record.Started, record.Fencing)
	of := store.Assignee{Owner: record.Owner, Token: record.Token}
	r := e.runs[record.Key]
	switch {
	case r != nil && r.away == nil:
		return record.Owner != "" // the reading is older
	case r != nil && !t.isNews(r):
		return true
	}
	isAssigned := record.Owner != "" && (record.State == jobs.Running || record.Fencing > 0) // else it waits under a leader that ran all jobs
	if !isAssigned || t.spread.crew.IsOver(of) {
		if r != nil {
			t.dropAway(r, record.Begun() > r.record.Begun())
			t.retired(e) // if it was removed, nothing takes the run up
		}
		return false
	}
	if r == nil {
		r = t.take(e, record)
		t.shift(r, plan.Running)
		if record.State == jobs.Running { // opening the term has counted it
			t.slots.awaited(r)
		}
	}
	if r.away == nil || r.away.to != of {
		t.goAway(r, &away{to: of, given: time.Now(), since: t.readAt, sure: true})
	}
	r.record = record
	if record.State == jobs.Running && r.away.began.IsZero() {
		r.away.began = record.Started
		t.began(r, time.Now().Add(-max(0, t.clock.Theirs(t.now()).Sub(record.Started))))
	}
	switch {
	case record.State != jobs.Waiting || !t.mayStart():
	case t.stage == gathering, e.IsCrowded(), e.job.shards != nil, t.paused(r) && !e.IsCounting():
		t.give(r, store.Assignee{}) // it has not begun
	case t.mayAssign() && t.isToMove(r):
		to, _ := t.choose(r) // to none: it waits here until one can have it
		t.give(r, to)
	}
	if record.CancelAsked || r.isLate() {
		r.away.woken = time.Now()
		t.wakeReplica(r.away.to) // the signal may have been lost
	}
	t.poll()
	return true
}

// dropAway takes a run out of hand that is away; begun says that it may have begun since the ledger was read.
func (t *term) dropAway(r *run, begun bool) {
	if begun {
		t.slots.begun(r, time.Now())
	}
	t.shift(r, plan.Gone)
	delete(r.entry.runs, r.record.Key)
}

// isNews reports whether the reading that is being taken in was sent after the ledger was known to have a run as it is.
func (t *term) isNews(r *run) bool { return r.away.sure && t.readAt > r.away.since }
