package scheduler

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/crew"
	"github.com/cronlease/cronlease/store"
)

// choice is what a leader chooses replicas by.
type choice struct {
	members []crew.Member
	most    int               // of their slots, 1 at least
	runs    map[string]int    // that are away, by owner
	stuck   map[string]bool   // jobs whose runs no replica can have
	last    store.Assignee    // the replica that was chosen last
	count   int               // how many choices were made
	given   map[string]int    // by owner, the number of the last choice that fell on the replica
	late    map[string]uint64 // replicas that did not begin what they were given, or may have died, with the heartbeat that they had
	slow    map[string]bool   // these, and replicas that the database does not see: they get runs only if there are no others
	full    bool              // no replica may have one more run, by the last choice
	walked  time.Time         // when the runs that wait were last tried
	looked  time.Time         // when the crew was last asked to look at slow replicas
}

func newChoice() choice {
	return choice{runs: map[string]int{}, stuck: map[string]bool{}, given: map[string]int{}, late: map[string]uint64{}, slow: map[string]bool{}}
}

// mayAssign reports whether the term may assign runs now.
func (t *term) mayAssign() bool {
	return t.mayStart() && t.stage != gathering && !time.Now().Before(t.spread.quiet)
}

// choose is the replica that a run is given to; false: none can have it now. Of those that can, it is the one with the
// most labels that the job prefers, then the one that a sticky job has, then the one with the fewest runs for its
// slots, then rather another one than the leader, and then the one that got its last run longest ago. One that does not
// begin what it has comes last, and before it the one on which the run has failed. While many ticks are being claimed,
// the replica that got the last run gets more, up to its share of them: so that few statements and few signals concern
// each.
func (t *term) choose(r *run) (to store.Assignee, ok bool) {
	t.spread.full = true
	if !t.mayAssign() {
		return to, false
	}
	var best rank
	e, last := r.entry, math.MaxInt
	can := t.canHave(e)
	only, isBound := t.only(r, can)
	for _, m := range t.spread.members {
		hasRoom := t.spread.hasRoom(m)
		t.spread.full = t.spread.full && !hasRoom
		if !hasRoom || !can(m) || isBound && m.Owner != only {
			continue
		}
		load := t.spread.runs[m.Owner] * t.spread.most / cmp.Or(m.Told.MaxRuns, t.spread.most)
		is := rank{
			slow: one(t.spread.slow[m.Owner]), failed: one(m.Owner == r.record.FailedOn), lacks: len(e.job.Prefer) - e.job.Prefer.Count(m.Told.Labels),
			place: placeOf(e.job, m.Owner), load: load, leads: one(m.Owner == t.holder.Owner), given: t.spread.given[m.Owner],
		}
		if !ok || is.compare(best) < 0 {
			to, best, ok = m.Assignee, is, true
		}
		if m.Assignee == t.spread.last && is.slow+is.failed+is.lacks == 0 && !e.job.Sticky {
			last = load
		}
	}
	t.tellNone(e, ok || slices.ContainsFunc(t.spread.members, can))
	if !ok {
		return to, false
	}
	if share := len(t.wrote.claims.Fresh()) / len(t.spread.members); last-best.load < share {
		to = t.spread.last
	}
	t.spread.last = to
	t.spread.count++
	t.spread.given[to.Owner] = t.spread.count
	return to, true
}

// rank is how well a replica suits a run: the lower the better, and the first difference decides.
type rank struct {
	slow, failed int // 1: it is slow; the run failed there
	lacks, place int // how many labels of Prefer; its place for a sticky job
	load, leads  int // its runs for its slots; 1: it leads
	given        int // when it was chosen last
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.slow, o.slow), cmp.Compare(r.failed, o.failed), cmp.Compare(r.lacks, o.lacks), cmp.Compare(r.place, o.place),
		cmp.Compare(r.load, o.load), cmp.Compare(r.leads, o.leads), cmp.Compare(r.given, o.given))
}

// placeOf is the place of a replica among those that may have the runs of a sticky job; else zero. It depends on the two names alone,
// so that each leader finds the same, and each job has an order of its own (rendezvous hashing).
func placeOf(job *declared, owner string) int {
	if !job.Sticky {
		return 0
	}
	sum := sha256.Sum256([]byte(job.Name + "\x00" + owner))
	return int(binary.BigEndian.Uint32(sum[:]))
}

// one is 1 for true.
func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// only is the owner of the one replica that may have a run, if it is bound to one. A shard that is for one replica is. So is the next
// run of a job that may overlap and is told of: whether a run recovers its job is judged by the order of their ends, which one replica
// knows.
func (t *term) only(r *run, can func(crew.Member) bool) (owner string, isBound bool) {
	e := r.entry
	if to, is := t.isFor(r); is {
		return to.Owner, true
	}
	if e.job.Overlap != jobs.OverlapAllow || len(t.followers.Telling(e.job.Name)) == 0 {
		return "", false
	}
	for _, o := range e.runs {
		if o.away != nil && slices.ContainsFunc(t.spread.members, func(m crew.Member) bool { return m.Assignee == o.away.to && can(m) }) {
			return o.away.to.Owner, true
		}
	}
	return "", false
}

// canHave is whether a replica may be given runs of a job: it has the job, those that follow it and those that tell of it, as they are
// here, and the labels. It does not divide the runs of a job that this leader does not divide.
func (t *term) canHave(e *entry) func(crew.Member) bool {
	needs := map[string]jobs.ScheduleHash{}
	for _, name := range t.followers.Of(e.job.Name) {
		if other := t.roll.entries[name]; other != nil {
			needs[name] = other.job.hash
		}
	}
	return func(m crew.Member) bool {
		if m.Leaving || !m.Told.Labels.Has(e.job.On) {
			return false
		}
		if m.Owner == t.holder.Owner {
			return !e.IsRemoved() && !e.job.borrowed
		}
		_, has := m.Told.Jobs[e.job.Name]
		if _, divides := m.Told.Jobs[jobs.ShardsOf(e.job.Name)]; !has || divides {
			return false
		}
		for name, hash := range needs {
			if m.Told.Jobs[name] != hash {
				return false
			}
		}
		return true
	}
}

// goneFrom says why a run is not to begin any more: it is for a replica that is gone, or cannot have it any more. Empty: it is not.
func (t *term) goneFrom(r *run) string {
	to, _ := t.isFor(r)
	if to.Owner == "" || !t.mayAssign() {
		return ""
	}
	at := slices.IndexFunc(t.spread.members, func(m crew.Member) bool { return m.Owner == to.Owner })
	switch {
	case at < 0 && !t.spread.crew.IsOver(to), at >= 0 && t.canHave(r.entry)(t.spread.members[at]):
		return ""
	case at >= 0 && t.spread.members[at].Told.Owner == "": // what it has was not read yet
		t.lookAround()
		return ""
	}
	return to.Owner + " is gone, or does not have the job any more"
}

// seeEach notes which replicas can have a shard of each job that runs everywhere: their sessions, as [jobs.Details].Each has them.
func (t *term) seeEach() {
	for _, whole := range t.roll.order {
		if whole.job.shards == nil || !whole.job.shards.onEach {
			continue
		}
		whole.each = nil
		e := t.roll.entries[whole.job.shards.Name]
		if e == nil {
			continue // until the ledger has been told of it
		}
		can := t.canHave(e)
		for _, m := range t.spread.members {
			if can(m) {
				whole.each = append(whole.each, fmt.Sprintf("%s=%d", m.Owner, m.Token))
			}
		}
	}
}

// tellNone tells, once, that no replica can have the runs of a job, be it busy or not, and when one can again.
func (t *term) tellNone(e *entry, found bool) {
	if name := e.job.Name; found == t.spread.stuck[name] {
		t.spread.stuck[name] = !found
		t.stream.Emit(event.NoReplica{Header: t.head(), Job: name, On: e.job.On, Replicas: len(t.spread.members), Over: found})
	}
}

// unstick tells of jobs that have no runs any more which wait for a replica.
func (t *term) unstick() {
	for name, is := range t.spread.stuck {
		e := t.roll.entries[name]
		if e != nil && (e.HasReady() || e.hasUnbegun()) {
			continue
		}
		var on jobs.Labels
		if e != nil {
			on = e.job.On
		}
		if delete(t.spread.stuck, name); is {
			t.stream.Emit(event.NoReplica{Header: t.head(), Job: name, On: on, Replicas: len(t.spread.members), Over: true})
		}
	}
}

// hasUnbegun reports whether a run of the job is away, or is being taken back, and has not begun.
func (e *entry) hasUnbegun() bool {
	for _, r := range e.runs {
		if r.away != nil && r.record.State == jobs.Waiting {
			return true
		}
	}
	return false
}

// isToMove reports whether a run that a replica has not begun goes to another one: that one leaves, does not have the job, or does not
// begin it while others are free; or the run was assigned on another server.
func (t *term) isToMove(r *run) bool {
	if r.record.Cluster != t.wrote.home {
		return true
	}
	lost, isFree, can := false, false, t.canHave(r.entry)
	_, isBound := t.isFor(r)
	for _, m := range t.spread.members {
		switch {
		case m.Assignee == r.away.to:
			lost = !can(m)
		case !isBound && can(m) && !t.spread.slow[m.Owner] && t.spread.hasRoom(m):
			isFree = true
		}
	}
	return lost || isFree && t.spread.slow[r.away.to.Owner]
}

// hasRoom reports whether a replica may have one more run at a time.
func (c *choice) hasRoom(m crew.Member) bool {
	return m.Told.MaxRuns == 0 || c.runs[m.Owner] < m.Told.MaxRuns
}

// beginsWithin is how long a replica may take to begin what it was given, until it counts as slow.
const beginsWithin = time.Second

// seeCrew takes in which replicas there are, and which of them are slow. A replica is, until it has renewed its lease and has begun
// what it was given.
func (t *term) seeCrew() {
	s := t.spread
	s.members, s.most = s.crew.Members(), 1
	beats, waits := map[string]uint64{}, map[string]bool{}
	for _, m := range s.members {
		beats[m.Owner], s.most = m.Beat, max(s.most, m.Told.MaxRuns)
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
	t.seeEach()
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
