package scheduler

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

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
	since uint64    // the reader's number when the ledger was known to have it like that
	sure  bool      // it is known to; else the ledger is being told
	began time.Time // when it was seen to run; zero: it was not
}

// spread is what a leader needs to assign runs.
type spread struct {
	db      store.Spreads
	crew    *crew.Crew
	changed signal // the crew has
	members []crew.Member
	runs    map[string]int    // that are away, by owner
	last    store.Assignee    // that was chosen last
	count   int               // of the choices
	given   map[string]int    // by owner, the number of the last choice that it was
	late    map[string]uint64 // replicas that did not begin what they were given, or may have died, with their heartbeat then
	slow    map[string]bool   // these, and those that the database does not see: they are given runs only if there are no others
	looked  time.Time         // when the crew was asked for these last
	wake    map[string]bool   // the replicas that are to look at what they were given
	waking  map[string]bool   // those that are being woken
	quiet   time.Time         // nothing is assigned until then: another server may have lost what replicas still trust
	polls   bool              // a look at the ledger is planned
	polled  time.Time         // when the last one was
	gathers bool              // the group is not to be spread any more: nothing is assigned
}

func newSpread(t *term) *spread {
	m, changed := t.sessions, make(signal, 1)
	m.s.crew.OnChange(changed.give)
	s := &spread{db: m.db, crew: m.s.crew, changed: changed, runs: map[string]int{}, given: map[string]int{}, late: map[string]uint64{}, slow: map[string]bool{}, wake: map[string]bool{}, waking: map[string]bool{}}
	s.doubt(keeper.HeldOf(t.ctx))
	return s
}

// crewChanged takes in that replicas have come, leave, or are gone.
func (t *term) crewChanged() {
	t.seeCrew()
	t.reader.soon()
	t.launchReady()
}

// mayAssign reports whether the term may assign runs now.
func (t *term) mayAssign() bool {
	return t.mayStart() && !t.spread.gathers && !time.Now().Before(t.spread.quiet)
}

// assign gives a run to a replica. False: no replica can have it now.
func (t *term) assign(r *run) bool {
	to, ok := t.choose(r.entry)
	if !ok || !t.mayAssign() {
		return false
	}
	t.shift(r, plan.Running)
	t.give(r, to)
	return true
}

// give has the ledger assign a run to a replica, or to none. A run that another one was given keeps its room meanwhile: that one may start it still.
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
// is stamped with the instant of its token, or a later one, and the ledger keeps the latest start of each job.
func (t *term) nextFencing(e *entry) uint64 {
	e.tokens = max(e.tokens+1, uint64(t.clock.Theirs(t.now()).UnixMicro()))
	return e.tokens
}

// knowFencing takes in what the ledger says of the fencing tokens of a job.
func (e *entry) knowFencing(started time.Time, given uint64) {
	e.tokens = max(e.tokens, uint64(max(0, started.UnixMicro())), given)
}

// choose is the replica that a run is given to: of those that can have it, the one with the fewest runs for its slots, then rather another
// one than the leader, and the one that got its last run longest ago; one that does not begin what it has only if none does. While many ticks are being claimed, the replica that got the last run gets
// more, up to its share of them: so that few statements and few signals concern each.
func (t *term) choose(e *entry) (to store.Assignee, ok bool) {
	best, last := []int(nil), math.MaxInt
	only, most := t.together(e), 1
	for _, m := range t.spread.members {
		most = max(most, m.Told.MaxRuns)
	}
	for _, m := range t.spread.members {
		slots, n := cmp.Or(m.Told.MaxRuns, most), t.spread.runs[m.Owner]
		if n >= slots && m.Told.MaxRuns > 0 || !t.canHave(m, e) || only != (store.Assignee{}) && m.Assignee != only {
			continue
		}
		load := n * most / slots
		if t.spread.slow[m.Owner] {
			load += math.MaxInt / 2
		}
		rank := []int{load, 0, t.spread.given[m.Owner]}
		if m.Owner == t.holder.Owner {
			rank[1] = 1
		}
		if !ok || slices.Compare(rank, best) < 0 {
			to, best, ok = m.Assignee, rank, true
		}
		if m.Assignee == t.spread.last {
			last = load
		}
	}
	if share := len(t.wrote.claims.Fresh()) / max(1, len(t.spread.members)); ok && last-best[0] < share {
		to = t.spread.last
	}
	if ok {
		t.spread.last = to
		t.spread.count++
		t.spread.given[to.Owner] = t.spread.count
	}
	t.tellNone(e, ok)
	return to, ok
}

// together is the replica that has the runs of a job which go on, if the next one has to go there: whether a run recovers its job is
// judged by the order of their ends, which one replica knows. The zero value: any replica.
func (t *term) together(e *entry) (at store.Assignee) {
	if e.job.Overlap != jobs.OverlapAllow || len(t.followers.Telling(e.job.Name)) == 0 {
		return at
	}
	for _, r := range e.runs {
		if r.away != nil && slices.ContainsFunc(t.spread.members, func(m crew.Member) bool { return m.Assignee == r.away.to && t.canHave(m, e) }) {
			return r.away.to
		}
	}
	return at
}

// canHave reports whether a replica may be given runs of a job: it has the job, those that follow it and those that tell of it, as they are
// here, and the labels.
func (t *term) canHave(m crew.Member, e *entry) bool {
	if m.Leaving || !m.Told.Labels.Has(e.job.On) {
		return false
	}
	if m.Owner == t.holder.Owner {
		return !e.IsRemoved()
	}
	if _, has := m.Told.Jobs[e.job.Name]; !has {
		return false
	}
	for _, name := range t.followers.Of(e.job.Name) {
		if other := t.roll.entries[name]; other != nil && m.Told.Jobs[name] != jobs.HashSchedule(other.job.text) {
			return false
		}
	}
	return true
}

// tellNone tells, once, that no replica can have the runs of a job, be it busy or not, and when one can again.
func (t *term) tellNone(e *entry, found bool) {
	none := !found && !slices.ContainsFunc(t.spread.members, func(m crew.Member) bool { return t.canHave(m, e) })
	switch {
	case none && !e.isStuck:
		t.log.Warn("the runs of a job wait for a replica that can have them: none that stays has the job, and the labels that it wants",
			zap.String("job", e.job.Name), zap.Stringer("on", e.job.On), zap.Int("replicas", len(t.spread.members)))
	case !none && e.isStuck:
		t.log.Info("there is a replica again that can have the runs of a job", zap.String("job", e.job.Name))
	}
	e.isStuck = none
}

// isToMove reports whether a run that a replica has not begun goes to another one: that one leaves, does not have the job, or does not begin it while
// others are free; or the run was assigned on another server.
func (t *term) isToMove(r *run) bool {
	if r.record.Cluster != t.wrote.home {
		return true
	}
	lost, isFree := false, false
	for _, m := range t.spread.members {
		switch can := t.canHave(m, r.entry); {
		case m.Assignee == r.away.to:
			lost = !can
		case can && !t.spread.slow[m.Owner] && (m.Told.MaxRuns == 0 || t.spread.runs[m.Owner] < m.Told.MaxRuns):
			isFree = true
		}
	}
	return lost || isFree && t.spread.slow[r.away.to.Owner]
}

// beginsWithin is how long a replica may take to begin what it was given, until it counts as slow.
const beginsWithin = time.Second

// seeCrew takes in which replicas there are, and which of them are slow: until they have renewed their leases, and have begun what they have.
func (t *term) seeCrew() {
	s := t.spread
	s.members = s.crew.Members()
	beats, waits := map[string]uint64{}, map[string]bool{}
	for _, m := range s.members {
		beats[m.Owner] = m.Beat
	}
	for _, e := range t.roll.entries {
		for _, r := range e.runs {
			if r.away != nil && r.record.State == jobs.Waiting && time.Since(r.away.given) > beginsWithin {
				waits[r.away.to.Owner] = true
			}
		}
	}
	for owner := range waits {
		if _, is := s.late[owner]; !is {
			s.late[owner] = beats[owner]
		}
	}
	clear(s.slow)
	for owner, then := range s.late {
		if beats[owner] != then && !waits[owner] {
			delete(s.late, owner)
		} else {
			s.slow[owner] = true
		}
	}
	for _, m := range s.members {
		if m.Absent {
			s.slow[m.Owner] = true
		}
	}
	if len(s.slow) > 0 && time.Since(s.looked) > time.Second {
		s.looked = time.Now()
		s.crew.Look()
	}
}

// doubt takes the leader before for late if its lease was taken because it seems to have died: its session may be as dead.
func (s *spread) doubt(h *keeper.Held) {
	if h.PreviousStands() <= 0 {
		return
	}
	for _, m := range s.crew.Members() {
		if m.Owner == h.Previous().Owner {
			s.late[m.Owner] = m.Beat
		}
	}
}

func (t *term) goAway(r *run, a *away) {
	t.comeBack(r)
	r.away = a
	t.spread.runs[a.to.Owner]++
}

// wakeReplicas wakes the replicas that are to look, each by one signal at a time. They look by themselves, too.
func (t *term) wakeReplicas() {
	db := t.spread.db
	for owner := range t.spread.wake {
		if t.spread.waking[owner] {
			continue
		}
		delete(t.spread.wake, owner)
		t.spread.waking[owner] = true
		t.beside(func(v *env) {
			ctx, cancel := context.WithTimeout(v.ctx, v.timing.AttemptTimeout)
			_ = db.Wake(ctx, store.SessionGroup(owner))
			cancel()
			v.do(func(t *term) { delete(t.spread.waking, owner) })
		})
	}
}

// poll has the ledger read for as long as runs are away: a signal may be lost, of a replica that has ended some, or to one that is to
// begin some.
func (t *term) poll() {
	if t.spread.polls || t.stage.ends() {
		return
	}
	t.spread.polls = true
	t.after(soonAgain, func() {
		t.spread.polls = false
		if !t.spread.isAway() {
			return
		}
		if time.Since(t.spread.polled) > time.Second || t.areLate() {
			t.spread.polled = time.Now()
			t.reader.glance.give()
		}
		t.poll()
	})
}

// soonAgain is after what time a replica is woken again that has not begun a run, at first.
const soonAgain = 250 * time.Millisecond

// isLate reports whether the replica of a run that it has not begun is to be woken again.
func (r *run) isLate() bool {
	a := r.away
	if a == nil || r.record.State != jobs.Waiting {
		return false
	}
	if a.woken.IsZero() {
		return time.Since(a.given) > soonAgain
	}
	return time.Since(a.woken) > time.Second
}

func (t *term) areLate() bool {
	for _, e := range t.roll.entries {
		for _, r := range e.runs {
			if r.isLate() {
				return true
			}
		}
	}
	return false
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
	if record.Owner == "" || t.spread.crew.IsOver(of) {
		if r != nil {
			t.dropAway(r)
		}
		return false
	}
	if r == nil {
		r = t.take(e, record)
		t.shift(r, plan.Running)
	}
	if r.away == nil || r.away.to != of {
		t.goAway(r, &away{to: of, given: time.Now(), since: t.readAt, sure: true})
	}
	r.record = record
	if record.State == jobs.Running && r.away.began.IsZero() {
		r.away.began = record.Started
	}
	switch {
	case record.State != jobs.Waiting || !t.mayStart():
	case t.spread.gathers, t.paused(r) && !e.IsCounting():
		t.give(r, store.Assignee{}) // it has not begun
	case t.mayAssign() && t.isToMove(r):
		if to, ok := t.choose(e); ok {
			t.give(r, to)
		}
	}
	if record.CancelAsked || r.isLate() {
		r.away.woken = time.Now()
		t.wakeReplica(r.away.to) // the signal may have been lost
	}
	t.poll()
	return true
}

// dropAway takes a run out of hand that is away.
func (t *term) dropAway(r *run) {
	t.shift(r, plan.Gone)
	delete(r.entry.runs, r.record.Key)
}

// isNews reports whether the reading that is being taken in was sent after the ledger was known to have a run as it is.
func (t *term) isNews(r *run) bool { return r.away.sure && t.readAt > r.away.since }

// switched reports whether this replica stops leading because the group has another mode now. One that assigns runs first
// waits until none is away.
func (t *term) switched(snapshot jobs.Snapshot) bool {
	isOther := snapshot.Opened.Spread != t.holder.Assigns
	if t.role == assigns {
		t.spread.gathers = isOther
		isOther = isOther && !t.spread.isAway()
	}
	if isOther {
		t.stepDown()
	}
	return isOther
}

// stepDown ends the term, after its drain.
func (t *term) stepDown() {
	t.beside(func(v *env) { _ = v.mode.resign(v.ctx) })
}

// isAway reports whether any run is away.
func (s *spread) isAway() bool {
	for _, n := range s.runs {
		if n > 0 {
			return true
		}
	}
	return false
}
