package scheduler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/crew"
	"github.com/cronlease/cronlease/store"
)

// choice is what a leader chooses replicas by.
type choice struct {
	members []crew.Member
	runs    map[string]int    // that are away, by owner
	last    store.Assignee    // that was chosen last
	count   int               // of the choices
	given   map[string]int    // by owner, the number of the last choice that it was
	late    map[string]uint64 // replicas that did not begin what they were given, or may have died, with their heartbeat then
	slow    map[string]bool   // these, and those that the database does not see: they are given runs only if there are no others
	looked  time.Time         // when the crew was asked for these last
}

func newChoice() choice {
	return choice{runs: map[string]int{}, given: map[string]int{}, late: map[string]uint64{}, slow: map[string]bool{}}
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
