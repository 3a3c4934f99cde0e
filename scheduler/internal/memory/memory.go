package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

// memory is what this process has seen the ledger have, over all its terms. A
// ledger that lacks some of it has gone back: its tables were restored, or a
// failover lost commits.
type memory struct {
	bound time.Duration // what a failover may lose without a pause
	ttl   time.Duration // of the lease
	kind  Clock

	mu      sync.Mutex
	server  string // that showed what is remembered
	token   uint64 // [jobs.Opened]
	tokenAt time.Time
	jobs    map[string]remembered
	newest  time.Time // tick of any job
	contact time.Time // when the ledger was last known to be as remembered
	looked  time.Time // when the lease was last looked at
	shown   time.Time // by the database's clock, at the last reading
	gone    error     // matches ErrRestored until the group is seen resumed
}

// remembered are ticks of a job that were in the ledger, oldest first.
type remembered struct {
	since time.Time // [jobs.Known.Since]: a job that was made again has another one
	// The first three are at least a bound and a TTL apart, and the last is the newest.
	// So one of the first two was there a bound before the last contact, even if a
	// leader claims ticks on another server until its next heartbeat notices.
	marks [4]mark
	// A TTL apart at least: a leader that claims ticks in restored tables, until
	// a heartbeat tells it of that, does so for less than a TTL. So one of these
	// two was claimed before.
	steps [2]mark
}

func (r remembered) newest() mark { return r.marks[len(r.marks)-1] }

// mark is a tick and when it was known to be in the ledger, by this machine's
// monotonic clock. row is when its row was claimed, by the database's, as the answer to
// a claim tells. The row keeps that instant until it is pruned, even where it moves on to
// later ticks ([store.Claim.Extends]). A reading tells the newest tick alone: then row is
// zero, and all that the tick shows is that the newest one is not earlier.
type mark struct{ tick, at, row time.Time }

// isAmong reports whether the row is among the records of its job.
func (k mark) isAmong(records []jobs.Record) bool {
	return slices.ContainsFunc(records, func(r jobs.Record) bool { return r.Claimed.Equal(k.row) })
}

// ahead is how far in the future a tick may be, by the database's clock, and
// still be remembered. What lies further was claimed under a wrong clock, and may
// be passed over.
const ahead = 5 * time.Second

func newMemory(bound, ttl time.Duration, kind Clock) *memory {
	return &memory{bound: bound, ttl: ttl, kind: kind, jobs: map[string]remembered{}}
}

// look notes a look at the lease. server is the one that answered the previous
// look: which server answered this one is not known yet.
func (m *memory) look(server string, at, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if server == m.server && m.looked.After(m.contact) {
		m.contact = m.looked
	}
	m.looked = at
	m.dropFuture(now)
}

// alive notes that a server has just answered, and reports whether it is the one
// that showed what is remembered.
func (m *memory) alive(server string, at, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropFuture(now)
	if server != m.server {
		return false
	}
	m.contact = at
	return true
}

// opened notes that a term has declared its jobs.
func (m *memory) opened(token uint64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if token > m.token {
		m.token, m.tokenAt, m.contact = token, at, at
	}
}

// claimed notes the row that stands for a claim.
func (m *memory) claimed(since time.Time, row jobs.Record, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(row.Job, since, mark{row.Tick, at, row.Claimed})
}

// remember is called with mu held, as what follows.
func (m *memory) remember(job string, since time.Time, next mark) {
	if m.kind == WorkerClock || next.tick.IsZero() {
		// A replica whose own clock is behind takes the newest ticks out of the
		// schedule: they say nothing about the ledger.
		return
	}
	r := m.jobs[job]
	switch {
	case r.newest().tick.IsZero() || !r.since.Equal(since):
		r = remembered{since: since, marks: [4]mark{{}, {}, next, next}, steps: [2]mark{{}, next}}
	case !next.tick.After(r.newest().tick):
		return
	case next.at.Sub(r.marks[2].at) >= m.bound+m.ttl:
		r.marks = [4]mark{r.marks[1], r.marks[2], next, next}
	default:
		r.marks[3] = next
	}
	if next.at.Sub(r.steps[1].at) >= m.ttl {
		r.steps = [2]mark{r.steps[1], next}
	}
	m.jobs[job], m.newest = r, later(m.newest, next.tick)
}

func (m *memory) dropFuture(now time.Time) {
	if m.newest.Sub(now) <= ahead {
		return
	}
	m.newest = time.Time{}
	for job, r := range m.jobs {
		tick := r.newest().tick
		if tick.Sub(now) > ahead {
			delete(m.jobs, job)
			continue
		}
		m.newest = later(m.newest, tick)
	}
}

// learn takes in a reading that was answered at an instant.
func (m *memory) learn(s jobs.Snapshot, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Server != m.server {
		m.moved(s.Server, at)
	}
	if s.Opened.Token > m.token {
		m.token, m.tokenAt = s.Opened.Token, at
	}
	for name, known := range s.Jobs {
		m.remember(name, known.Since, mark{tick: known.Cursor, at: at})
	}
	m.contact, m.shown = at, s.Now
	m.dropFuture(s.Now)
	if !s.Paused {
		m.gone = nil
	}
}

// moved makes the memory one of another server. What that one may lack is
// forgotten: the little that it does lack is accepted.
func (m *memory) moved(server string, at time.Time) {
	keeps := func(k mark) bool { return !k.tick.IsZero() && m.counts(k.at, server, at) }
	if !m.counts(m.tokenAt, server, at) {
		m.token = 0
	}
	m.newest = time.Time{}
	for job, r := range m.jobs {
		for !keeps(r.newest()) && !r.newest().tick.IsZero() {
			r.marks = [4]mark{{}, r.marks[0], r.marks[1], r.marks[2]}
		}
		for !keeps(r.steps[1]) && !r.steps[1].tick.IsZero() {
			r.steps = [2]mark{{}, r.steps[0]}
		}
		if r.newest().tick.IsZero() {
			delete(m.jobs, job)
			continue
		}
		if r.marks[2].tick.IsZero() {
			r.marks[2] = r.newest()
		}
		m.jobs[job], m.newest = r, later(m.newest, r.newest().tick)
	}
	m.server = server
}

// isOf reports whether a server is the one that showed what is remembered.
func (m *memory) isOf(server string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return server == m.server
}

// lacks says what the ledger lacks of what was there before a reading was sent;
// empty: nothing that counts. What the same server process lacks was put back
// under it. Another one may lack what a failover lost, and that only counts from
// a bound on.
func (m *memory) lacks(s jobs.Snapshot, sent time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropFuture(s.Now)
	if m.gone != nil && s.Server != m.server && !s.Paused && !m.isAnswered(s) {
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
		for _, mark := range r.marks {
			if known.Cursor.Before(mark.tick) && !mark.tick.After(s.Now) && m.counts(mark.at, s.Server, sent) {
				return fmt.Sprintf("it had tick %v of job %q, and has %v as its newest", mark.tick, name, known.Cursor)
			}
		}
	}
	return ""
}

// behind is what another server lacks of the newest ticks, after [memory.lacks] has said
// that it is accepted.
func (m *memory) behind(s jobs.Snapshot) (lost event.WritesLost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Server == m.server {
		return lost
	}
	for name, r := range m.jobs {
		known, ok := s.Jobs[name]
		had := r.newest().tick
		if !ok || !known.Since.Equal(r.since) || !known.Cursor.Before(had) || had.After(s.Now) {
			continue
		}
		lost.Jobs++
		if lost.Job == "" || name < lost.Job {
			lost.Job, lost.Had, lost.Has = name, had, known.Cursor
		}
	}
	return lost
}

// counts reports whether it matters that what was there then is not any more.
func (m *memory) counts(at time.Time, server string, sent time.Time) bool {
	return at.Before(sent) && (server == m.server || m.contact.Sub(at) >= m.bound)
}

// witnesses are ticks, oldest first, of a few of the jobs, whose rows have to be in
// the ledger: of those that were claimed last, which a restore can hide.
func (m *memory) witnesses(names []string, s jobs.Snapshot, sent time.Time) map[string][]mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	const most = 3
	slices.SortStableFunc(names, func(a, b string) int { return m.jobs[b].newest().at.Compare(m.jobs[a].newest().at) })
	found := map[string][]mark{}
	for _, name := range names[:min(most, len(names))] {
		r := m.jobs[name]
		for _, mark := range append(r.marks[:], r.steps[:]...) {
			if !mark.row.IsZero() && !mark.tick.After(s.Now) && s.Jobs[name].Since.Equal(r.since) && m.counts(mark.at, s.Server, sent) {
				found[name] = append(found[name], mark)
			}
		}
		slices.SortFunc(found[name], func(a, b mark) int { return a.tick.Compare(b.tick) })
	}
	return found
}

// answered reports whether the group was resumed since the memory last saw the
// ledger: the operator has said how to go on.
func (m *memory) answered(s jobs.Snapshot) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isAnswered(s)
}

func (m *memory) isAnswered(s jobs.Snapshot) bool {
	if s.Paused {
		return false
	}
	for _, p := range s.Pauses[""] {
		if p.Ended.After(m.shown) {
			return true
		}
	}
	return false
}

// forget makes the memory start over with a ledger that has gone back.
func (m *memory) forget(gone error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token, m.newest, m.jobs, m.gone = 0, time.Time{}, map[string]remembered{}, gone
}

// last is the newest term that the ledger has been seen to have.
func (m *memory) last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.token
}

func (m *memory) restored() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}
