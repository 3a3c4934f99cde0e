package scheduler

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// wakes are the signals of a leader to the replicas that are to look at what they were given. A signal may be lost.
type wakes struct {
	wake   map[string]bool // those that are to look
	waking map[string]bool // those that are being woken
	polls  bool            // a look at the ledger is planned
	polled time.Time       // when the last one was
	asks   int             // how often replicas are woken still that have jobs which this leader lacks
	judges spaced          // looks at which jobs fail
}

// spaced is what is done at most once in a while.
type spaced struct {
	planned bool
	last    time.Time
}

// atMost has f called by the loop, once the last call is that long ago.
func (t *term) atMost(s *spaced, every time.Duration, f func()) {
	if s.planned {
		return
	}
	s.planned = true
	t.after(every-time.Since(s.last), func() {
		s.planned, s.last = false, time.Now()
		f()
	})
}

func newWakes() wakes { return wakes{wake: map[string]bool{}, waking: map[string]bool{}} }

// wakeLeader has the leader look at what is open, and at the sessions. It looks by itself, too.
func (m *sessions) wakeLeader() {
	if v := m.s.current.Load(); v != nil && v.role == assigns { // it is in this process
		v.do(func(t *term) {
			t.reader.glance.give()
			t.lookAround()
		})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.s.election.Timing().AttemptTimeout)
	defer cancel()
	_ = m.db.Wake(ctx, m.s.group)
}

// wakeReplica has a replica look at what it was given, once the loop has done what it does now.
func (t *term) wakeReplica(to store.Assignee) {
	if to.Owner != "" {
		t.spread.wake[to.Owner] = true
	}
}

// wakeReplicas wakes the replicas that are to look, each by one signal at a time. They look by themselves, too.
func (t *term) wakeReplicas() {
	db := t.spread.db
	for owner := range t.spread.wake {
		if t.spread.waking[owner] {
			continue
		}
		delete(t.spread.wake, owner)
		if owner == t.holder.Owner {
			t.sessions.assigned.give()
			continue
		}
		t.spread.waking[owner] = true
		t.beside(func(v *env) {
			ctx, cancel := context.WithTimeout(v.ctx, v.timing.AttemptTimeout)
			_ = db.Wake(ctx, store.SessionGroup(owner))
			cancel()
			v.do(func(t *term) { delete(t.spread.waking, owner) })
		})
	}
}

// borrow takes in what other replicas lend, and wakes those that have jobs which this leader lacks and do not lend them
// yet, three times within two seconds: a replica that is woken for nothing reads which jobs the leader has. It does so
// by itself, too, every few minutes.
func (t *term) borrow() {
	t.sessions.s.borrow()
	asking := t.spread.asks > 0
	if t.spread.asks = 3; !asking {
		t.askLenders()
	}
}

func (t *term) askLenders() {
	if t.spread.asks--; t.stage.ends() || !t.wakeLenders() {
		t.spread.asks = 0
	}
	if t.spread.asks > 0 {
		t.after(time.Second, t.askLenders)
	}
}

// wakeLenders reports whether there are any.
func (t *term) wakeLenders() (found bool) {
	own := map[string]bool{}
	for _, d := range t.roll.list.jobs() {
		own[d.Name] = true
	}
	for _, m := range t.spread.members {
		for name := range m.Told.Jobs {
			if !own[name] && !m.Told.Lends(name) && !m.Leaving {
				t.wakeReplica(m.Assignee)
				found = true
				break
			}
		}
	}
	return found
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

// lookAround has the roster read, once a second at most: a signal came, and it may be that of a replica that has come, or is
// about to go, or of a leader that lacks jobs of this one.
func (t *term) lookAround() {
	t.atMost(&t.around, time.Second, t.sessions.s.roster.Poke)
}

// judge has the jobs read, twice a minute at most: other replicas have ended runs of some, and the ledger says which fail.
func (t *term) judge() {
	t.atMost(&t.spread.judges, 30*time.Second, t.reader.soon)
}

// tellFails tells whether a job fails, if that has changed.
func (t *term) tellFails(e *entry) {
	if fails := e.Known().Failing; fails != e.failsTold {
		e.failsTold = fails
		t.stream.Emit(event.JobFails{Header: t.head(), Job: e.job.Name, Fails: fails})
	}
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

// isAway reports whether any run is away.
func (s *spread) isAway() bool {
	for _, n := range s.runs {
		if n > 0 {
			return true
		}
	}
	return false
}
