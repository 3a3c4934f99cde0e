package memdb

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Group is what a database has of one group, as a plain value. A store whose database knows no more than nodes keeps it there: it carries out
// a call on a database that has the group alone ([Of]), looks what has become of it ([Store.Group]), and writes the difference.
type Group struct {
	Lease   *store.Lease
	Fence   *store.Fence
	Changes uint64 // as [store.Changes] has it
	Paused  bool
	Opened  jobs.Opened
	Jobs    map[string]jobs.Known
	Pauses  map[string][]jobs.Pause // by job; the group's own under ""
	Runs    map[string][]Run        // by job, in the order of their keys
	Audit   []jobs.AuditEntry       // the oldest first
	Audits  uint64                  // how many there ever were
	Terms   []jobs.Term             // by token
}

// Run is a run of a group.
type Run struct {
	jobs.Record
	ID       store.ClaimID
	Args     json.RawMessage
	Attempts []jobs.Attempt
	// Number is the caller's. It stays with the run, also when its key changes, and is zero in a new one.
	Number uint64
}

// stillness is a clock that stands, and the identity of a server.
type stillness struct {
	now    time.Time
	server string
}

// Of returns a database that has one group, at one instant on one server. It changes nothing of g.
func Of(group string, g Group, now time.Time, server string) *Store {
	s := New()
	s.still = &stillness{now, server}
	if g.Lease != nil {
		s.leases[group] = *g.Lease
	}
	if g.Fence != nil {
		s.fences[group] = *g.Fence
	}
	l := s.ledger(group)
	l.changes, l.paused, l.opened = g.Changes, g.Paused, g.Opened
	for name, known := range g.Jobs {
		l.jobs[name] = &known
	}
	for name, pauses := range g.Pauses {
		l.pauses[name] = slices.Clone(pauses)
	}
	for name, of := range g.Runs {
		runs, pointers := make([]run, len(of)), make([]*run, len(of))
		for i, r := range of {
			runs[i] = run{Record: r.Record, id: r.ID, args: r.Args, attempts: slices.Clone(r.Attempts), number: r.Number}
			pointers[i] = &runs[i]
		}
		l.runs[name] = pointers
	}
	l.archive = archive{audit: slices.Clip(g.Audit), audits: g.Audits, terms: slices.Clone(g.Terms)}
	return s
}

// Group returns what the database has of a group. The database must not be used any more.
func (s *Store) Group(group string) Group {
	l := s.ledger(group)
	g := Group{
		Changes: l.changes, Paused: l.paused, Opened: l.opened, Jobs: map[string]jobs.Known{}, Pauses: l.pauses, Runs: map[string][]Run{},
		Audit: l.audit, Audits: l.audits, Terms: l.terms,
	}
	if lease, ok := s.leases[group]; ok {
		g.Lease = &lease
	}
	if fence, ok := s.fences[group]; ok {
		g.Fence = &fence
	}
	for name, known := range l.jobs {
		g.Jobs[name] = *known
	}
	for name, runs := range l.runs {
		of := make([]Run, len(runs))
		for i, r := range runs {
			of[i] = Run{Record: r.Record, ID: r.id, Args: r.args, Attempts: r.attempts, Number: r.number}
		}
		g.Runs[name] = of
	}
	return g
}

// CompareKeys is the order of the runs of a job.
func CompareKeys(a, b jobs.Key) int { return compare(a, b) }
