package memdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Ledger = (*Store)(nil)

// ledger is a group's jobs and runs.
type ledger struct {
	changes uint64
	paused  bool
	opened  jobs.Opened
	jobs    map[string]*jobs.Known
	pauses  map[string][]jobs.Pause // by job; the group's own under ""
	runs    map[string][]*run       // by job, in the order of their keys
	archive
}

// run is a record with the claim that wrote it, and its arguments, which never change.
type run struct {
	jobs.Record
	id       store.ClaimID
	args     json.RawMessage
	attempts []jobs.Attempt // as store.Archive says, but for the last one
	number   uint64         // see [Run]
}

func newLedger() *ledger {
	return &ledger{jobs: map[string]*jobs.Known{}, pauses: map[string][]jobs.Pause{}, runs: map[string][]*run{}}
}

func cloneLedgers(ledgers map[string]*ledger) map[string]*ledger {
	clones := make(map[string]*ledger, len(ledgers))
	for group, l := range ledgers {
		clone := newLedger()
		clone.changes, clone.paused, clone.opened, clone.archive = l.changes, l.paused, l.opened, l.clone()
		for name, pauses := range l.pauses {
			clone.pauses[name] = slices.Clone(pauses)
		}
		for name, known := range l.jobs {
			k := *known
			clone.jobs[name] = &k
		}
		for name, runs := range l.runs {
			for _, r := range runs {
				c := *r
				c.attempts = slices.Clone(r.attempts)
				clone.runs[name] = append(clone.runs[name], &c)
			}
		}
		clones[group] = clone
	}
	return clones
}

// compare orders the runs of a job.
func compare(a, b jobs.Key) int {
	return cmp.Or(a.Tick.Compare(b.Tick), cmp.Compare(a.Trigger, b.Trigger))
}

// find returns where the run of the key is, or belongs.
func (l *ledger) find(key jobs.Key) (int, bool) {
	return slices.BinarySearchFunc(l.runs[key.Job], key, func(r *run, k jobs.Key) int { return compare(r.Key, k) })
}

// noRun is the error about a run that does not exist, or is over and was to be cancelled.
func noRun(group string, key jobs.Key) error {
	return fmt.Errorf("%w: %s of %q in group %q", jobs.ErrNoRun, key.Tick.Format(time.RFC3339Nano), key.Job, group)
}

// open counts the runs of a job that are not over.
func (l *ledger) open(job string) (n int) {
	for _, r := range l.runs[job] {
		if !r.State.Over() {
			n++
		}
	}
	return n
}

func (l *ledger) get(key jobs.Key) *run {
	if i, ok := l.find(key); ok {
		return l.runs[key.Job][i]
	}
	return nil
}

func (l *ledger) insert(r *run) {
	i, _ := l.find(r.Key)
	l.runs[r.Job] = slices.Insert(l.runs[r.Job], i, r)
}

// ledger returns the group's ledger; called with mu held.
func (s *Store) ledger(group string) *ledger {
	l, ok := s.ledgers[group]
	if !ok {
		l = newLedger()
		s.ledgers[group] = l
	}
	return l
}

// current reports whether h is the group's holder; called with mu held.
func (s *Store) current(h store.Holder) bool {
	f, ok := s.fences[h.Group]
	return ok && f.Owner == h.Owner && f.Token == h.Token
}

// elsewhere reports whether h's server is another one than this; called with mu held.
func (s *Store) elsewhere(h store.Holder) bool { return h.Server != "" && h.Server != s.identity() }

// Declare implements [store.Ledger].
func (s *Store) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current(h) {
		return store.ErrReplaced
	}
	l, now := s.ledger(h.Group), s.now()
	for _, d := range declared {
		known, ok := l.jobs[d.Name]
		switch {
		case !ok:
			l.jobs[d.Name] = &jobs.Known{Schedule: d.Schedule, Since: now, ScheduleSince: now}
		case known.Schedule != d.Schedule, known.ScheduleSince.After(now):
			from := now
			if !d.From.IsZero() && d.From.Before(now) {
				from = d.From
			}
			known.Schedule = d.Schedule
			if from.After(known.ScheduleSince) || known.ScheduleSince.After(now) {
				known.ScheduleSince = from
			}
		}
		l.jobs[d.Name].Gone = time.Time{}
	}
	if l.opened.Token != h.Token {
		l.opened = jobs.Opened{Token: h.Token, At: now}
	}
	return nil
}

// Load implements [store.Ledger].
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return jobs.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(group, func(string) bool { return true }), nil
}

// load loads those jobs whose names has is true for. It is called with mu held.
func (s *Store) load(group string, has func(name string) bool) jobs.Snapshot {
	l := s.ledger(group)
	snapshot := jobs.Snapshot{
		Now: s.now(), Server: s.identity(), Changes: l.changes, Paused: l.paused, Opened: l.opened,
		Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{},
	}
	for name, pauses := range l.pauses {
		if name == "" || has(name) {
			snapshot.Pauses[name] = slices.Clone(pauses)
		}
	}
	for name, known := range l.jobs {
		if has(name) {
			k := *known
			k.Cursor = l.newest(name)
			snapshot.Jobs[name] = k
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.runs)) {
		for _, r := range l.runs[name] {
			if !r.State.Over() {
				snapshot.Open = append(snapshot.Open, r.Record)
			}
		}
	}
	slices.SortStableFunc(snapshot.Open, func(a, b jobs.Record) int { return a.Tick.Compare(b.Tick) })
	ledgerrows.CountStarts(snapshot)
	return snapshot
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (store.Changes, error) {
	if err := ctx.Err(); err != nil {
		return store.Changes{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Changes{Number: s.ledger(group).changes, Now: s.now(), Server: s.identity()}, nil
}

// PassOver implements [store.Ledger].
func (s *Store) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current(h) {
		return 0, store.ErrReplaced
	}
	passed := 0
	for _, r := range s.ledger(h.Group).runs[job] {
		if r.Trigger == 0 && r.Tick.After(after) && r.Token != h.Token {
			r.Trigger = h.Token
			passed++
		}
	}
	slices.SortFunc(s.ledger(h.Group).runs[job], func(a, b *run) int { return compare(a.Key, b.Key) })
	return passed, nil
}
