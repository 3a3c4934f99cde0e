// Package memory is what a process has seen a group's ledger have, over all its terms. A ledger that lacks some of
// it has gone back: its tables were restored, or a failover lost commits.
//
// What counts as gone back: the same server process lacks anything at all of what was there before a reading was
// sent, since nothing but a restore takes that away. Another server may lack what a failover lost: that counts
// only if it was there at least the bound before the last contact with the server that showed it. For that the memory has, of each
// job, the newest tick and a few earlier ones, far enough apart (see trail).
package memory

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

// Memory is safe for concurrent use.
type Memory struct {
	bound time.Duration // what a failover may lose without a pause
	ttl   time.Duration // of the lease
	blind bool          // ticks say nothing of the ledger

	mu      sync.Mutex // guards what follows
	server  string     // that showed what is remembered
	token   uint64     // [jobs.Opened]
	tokenAt time.Time
	jobs    map[string]trail
	ledger  map[string]jobs.Known // of the last reading
	pauses  []jobs.Pause          // of the group, in the last reading
	read    time.Time             // when that was answered
	contact time.Time             // when the ledger was last known to be as remembered
	looked  time.Time             // when the lease was last looked at
	shown   time.Time             // by the database's clock, at the last reading
	gone    error                 // matches ErrRestored until the group is seen resumed
	goneAt  time.Time             // when the group was known to be paused for that
	pause   time.Time             // when that pause began, by the database's clock; zero: it was not read yet
}

// ahead is how far in the future a tick may be, by the database's clock, and
// still be remembered. What lies further was claimed under a wrong clock, and may
// be passed over.
const ahead = 5 * time.Second

// New returns a memory of nothing. A failover may lose what was written within bound before it, and ttl is the
// lease's. blind says that the ticks are those of a replica's own clock: one that is behind takes the newest
// ticks out of the schedule, so they say nothing about the ledger.
func New(bound, ttl time.Duration, blind bool) *Memory {
	return &Memory{bound: bound, ttl: ttl, blind: blind, jobs: map[string]trail{}}
}

// Look notes a look at the lease. server is the one that answered the previous
// look: which server answered this one is not known yet.
func (m *Memory) Look(server string, at, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if server == m.server && m.looked.After(m.contact) {
		m.contact = m.looked
	}
	m.looked = at
	m.dropFuture(now)
}

// Alive notes that a server has just answered, and reports whether it is the one
// that showed what is remembered.
func (m *Memory) Alive(server string, at, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropFuture(now)
	if server != m.server {
		return false
	}
	m.contact = at
	return true
}

// Opened notes that a term has declared its jobs.
func (m *Memory) Opened(token uint64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if token > m.token {
		m.token, m.tokenAt, m.contact = token, at, at
	}
}

// Claimed notes the row that stands for a claim.
func (m *Memory) Claimed(since time.Time, row jobs.Record, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(row.Job, since, Mark{row.Tick, at, row.Claimed})
}

// remember is called with mu held.
func (m *Memory) remember(job string, since time.Time, next Mark) {
	if m.blind || next.Tick.IsZero() {
		return
	}
	r, ok := m.jobs[job]
	if !ok || !r.since.Equal(since) {
		r = newTrail(since, m.bound+m.ttl)
	}
	if r.add(next) {
		m.jobs[job] = r
	}
}

func (m *Memory) dropFuture(now time.Time) {
	maps.DeleteFunc(m.jobs, func(_ string, r trail) bool { return r.newest.Tick.Sub(now) > ahead })
}

// Learn takes in a reading that was answered at an instant.
func (m *Memory) Learn(s jobs.Snapshot, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Server != m.server {
		m.moved(s.Server, at)
	}
	if s.Opened.Token > m.token {
		m.token, m.tokenAt = s.Opened.Token, at
	}
	for name, known := range s.Jobs {
		m.remember(name, known.Since, Mark{Tick: known.Cursor, at: at})
	}
	m.ledger, m.pauses, m.read = s.Jobs, s.Pauses[""], at
	m.contact, m.shown = at, s.Now
	m.dropFuture(s.Now)
	if began := inForce(s); m.gone != nil && m.pause.IsZero() {
		m.pause = began
	}
}

// moved makes the memory one of another server. What that one may lack is
// forgotten: the little that it does lack is accepted.
func (m *Memory) moved(server string, at time.Time) {
	if !m.counts(m.tokenAt, server, at) {
		m.token = 0
	}
	for job, r := range m.jobs {
		if !r.keep(func(k Mark) bool { return m.counts(k.at, server, at) }) {
			delete(m.jobs, job)
			continue
		}
		m.jobs[job] = r
	}
	m.server = server
}

// IsOf reports whether a server is the one that showed what is remembered.
func (m *Memory) IsOf(server string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return server == m.server
}

// Lacks says what the ledger lacks of what was there before a reading was sent;
// empty: nothing that counts. What the same server process lacks was put back
// under it. Another one may lack what a failover lost, and that only counts from
// a bound on.
func (m *Memory) Lacks(s jobs.Snapshot, sent time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropFuture(s.Now)
	switch began := inForce(s); {
	case m.gone == nil:
	case sent.Before(m.goneAt), !began.IsZero() && (m.pause.IsZero() || began.Equal(m.pause)):
		return "" // the group is paused for what it lacks
	default: // Answered has seen no answer
		return "it was paused until an operator says how to go on, and is not"
	}
	// A release that did not know of it leaves a ledger with jobs and no token.
	if known := s.Opened.Token > 0 || len(s.Jobs) == 0; known && s.Opened.Token < m.token && m.counts(m.tokenAt, s.Server, sent) {
		return fmt.Sprintf("it had term %d, and has %d as its last", m.token, s.Opened.Token)
	}
	for name, r := range m.jobs {
		known, ok := s.Jobs[name]
		if !ok || !known.Since.Equal(r.since) {
			continue // the job was removed, or made again
		}
		for _, k := range r.all() {
			if known.Cursor.Before(k.Tick) && !k.Tick.After(s.Now) && m.counts(k.at, s.Server, sent) {
				return fmt.Sprintf("it had tick %v of job %q, and has %v as its newest", k.Tick, name, known.Cursor)
			}
		}
	}
	return ""
}

// Behind is what another server lacks of the jobs and the newest ticks that were there before an instant, after
// [Memory.Lacks] has said that it is accepted.
func (m *Memory) Behind(s jobs.Snapshot, before time.Time) (lost event.WritesLost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Server == m.server {
		return lost
	}
	for _, name := range slices.Sorted(maps.Keys(m.ledger)) {
		had, has := m.ledger[name].Since, s.Jobs[name]
		if m.isAddedLost(name, has, before) {
			lost.Added++
		} else if had = m.newest(name, has, s.Now, before); !has.Cursor.Before(had) {
			continue
		}
		if lost.Jobs++; lost.Jobs == 1 {
			lost.Job, lost.Had, lost.Has = name, had, has.Cursor
		}
	}
	return lost
}

// isAddedLost reports whether a failover may have lost a job: it is missing, or has another beginning, and it had been
// declared within the bound before the last contact. One that was forgotten, and declared again, has another beginning
// too, but not so soon.
func (m *Memory) isAddedLost(name string, is jobs.Known, before time.Time) bool {
	since := m.ledger[name].Since
	age := m.shown.Sub(since) + m.contact.Sub(m.read)
	return m.read.Before(before) && !is.Since.Equal(since) && age < m.bound
}

// newest is the newest tick of a job that was there before an instant; zero: none.
func (m *Memory) newest(name string, is jobs.Known, now, before time.Time) (newest time.Time) {
	r := m.jobs[name]
	if !is.Since.Equal(r.since) {
		return newest
	}
	for _, k := range r.all() {
		if k.at.Before(before) && !k.Tick.After(now) && k.Tick.After(newest) {
			newest = k.Tick
		}
	}
	return newest
}

// counts reports whether it matters that what was there then is not any more.
func (m *Memory) counts(at time.Time, server string, sent time.Time) bool {
	return at.Before(sent) && (server == m.server || m.contact.Sub(at) >= m.bound)
}

// Witnesses are ticks, oldest first, of a few of the jobs, whose rows have to be in
// the ledger: of those that were claimed last, which a restore can hide.
func (m *Memory) Witnesses(names []string, s jobs.Snapshot, sent time.Time) map[string][]Mark {
	return m.marks(names, s, func(k Mark) bool { return m.counts(k.at, s.Server, sent) })
}

// Marks are Witnesses whose rows may have been lost, since that would be accepted.
func (m *Memory) Marks(names []string, s jobs.Snapshot, sent time.Time) map[string][]Mark {
	return m.marks(names, s, func(k Mark) bool { return k.at.Before(sent) })
}

func (m *Memory) marks(names []string, s jobs.Snapshot, counts func(Mark) bool) map[string][]Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	const most = 3
	slices.SortStableFunc(names, func(a, b string) int { return m.jobs[b].newest.at.Compare(m.jobs[a].newest.at) })
	found := map[string][]Mark{}
	for _, name := range names[:min(most, len(names))] {
		r := m.jobs[name]
		for _, k := range r.all() {
			if !k.row.IsZero() && !k.Tick.After(s.Now) && s.Jobs[name].Since.Equal(r.since) && counts(k) {
				found[name] = append(found[name], k)
			}
		}
		slices.SortFunc(found[name], func(a, b Mark) int { return a.Tick.Compare(b.Tick) })
	}
	return found
}

// IsAnswered reports whether the group was resumed since the memory last saw the
// ledger: the operator has said how to go on.
func (m *Memory) IsAnswered(s jobs.Snapshot) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !s.Paused && m.wasResumed(s)
}

// Answer takes in whether the pause that the memory holds on to was answered. The answer is in the ledger: without one, a pause that is
// not there was lost with what the ledger lacks.
func (m *Memory) Answer(s jobs.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone != nil && m.wasResumed(s) {
		m.gone, m.pause = nil, time.Time{}
	}
}

// wasResumed reports whether the pause that the memory holds on to has ended, or a pause of the group since that began;
// where the memory holds on to none, since the ledger was read last: the reading may be later than the end by the
// database's clock, since that is stamped before it is committed. A pause that was resumed with skipping has no
// beginning, as a memory has that holds on to none: these are not the same pause. Its end is not before the beginning that it
// had, and is that beginning where the clock was set back. And an end that the ledger was last
// seen to have is none since, although it can be later than that reading: the servers of a cluster have several clocks.
// It is called with mu held.
func (m *Memory) wasResumed(s jobs.Snapshot) bool {
	since := m.shown
	if !m.pause.IsZero() {
		since = m.pause
	}
	for _, p := range s.Pauses[""] {
		isNew := !p.Ended.Before(since) && !slices.ContainsFunc(m.pauses, func(of jobs.Pause) bool { return of.Ended.Equal(p.Ended) })
		if isHeld := !m.pause.IsZero() && p.Began.Equal(m.pause); !p.Ended.IsZero() && (isNew || isHeld) {
			return true
		}
	}
	return false
}

// inForce is when the pause of the group began; zero: it is not paused.
func inForce(s jobs.Snapshot) (began time.Time) {
	if n := len(s.Pauses[""]); s.Paused && n > 0 {
		return s.Pauses[""][n-1].Began
	}
	return began
}

// Forget makes the memory start over with a ledger that has gone back, and lacks nothing now: the group was paused for
// that by then, or gone is nil.
func (m *Memory) Forget(gone error, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token, m.jobs, m.gone, m.goneAt, m.pause = 0, map[string]trail{}, gone, at, time.Time{}
}

// Heed takes in that another process has paused the group because the ledger had gone back, as a reading shows: a process that has not seen
// what was there before holds on to that pause, too.
func (m *Memory) Heed(gone error, s jobs.Snapshot, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone, m.goneAt, m.pause = gone, at, inForce(s)
}

// Last is the newest term that the ledger has been seen to have.
func (m *Memory) Last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.token
}

// Restored says that the ledger has gone back, until the group is seen resumed; nil: it has not.
func (m *Memory) Restored() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}
