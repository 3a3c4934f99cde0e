package memdb

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Archive = (*Store)(nil)

// archive is what a group keeps for people.
type archive struct {
	audit  []jobs.AuditEntry // the oldest first
	audits uint64            // how many there ever were
	terms  []jobs.Term       // by token
}

func (a archive) clone() archive {
	return archive{audit: slices.Clone(a.audit), audits: a.audits, terms: slices.Clone(a.terms)}
}

// note records an action. It is called with mu held.
func (s *Store) note(ctx context.Context, group string, result jobs.Result, action jobs.Action, key jobs.Key, note string) {
	l := s.ledger(group)
	entry := ledgerrows.Entry(ctx, action, key, note)
	l.audits++
	entry.ID, entry.At, entry.Result = l.audits, s.now(), result
	l.audit = append(l.audit, entry)
}

// Audit implements [jobs.Archive].
func (s *Store) Audit(ctx context.Context, group string, filter jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var entries []jobs.AuditEntry
	for _, e := range slices.Backward(s.ledger(group).audit) {
		if (filter.Job == "" || filter.Job == e.Job) && (filter.Before == 0 || e.ID < filter.Before) {
			entries = append(entries, e)
		}
	}
	return first(entries, filter.Limit), nil
}

func first[T any](list []T, limit int) []T {
	if limit <= 0 {
		limit = 100
	}
	return list[:min(limit, len(list))]
}

// NoteTerm implements [store.Archive].
func (s *Store) NoteTerm(ctx context.Context, note store.TermNote) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now := s.ledger(note.Group), s.now()
	i, ok := slices.BinarySearchFunc(l.terms, note.Token, func(t jobs.Term, token uint64) int { return cmp.Compare(t.Token, token) })
	if !ok {
		l.terms = slices.Insert(l.terms, i, jobs.Term{Token: note.Token, Owner: note.Owner, Began: now.Add(-note.Began.Truncate(time.Microsecond)), Early: note.Early})
	}
	if note.Over {
		l.terms[i].Ended, l.terms[i].Why = now.Add(-note.Ended.Truncate(time.Microsecond)), ledgerrows.CutWhy(note.Why)
		if l.terms[i].Ended.Before(l.terms[i].Began) {
			l.terms[i].Ended = l.terms[i].Began
		}
	}
	if note.Before.IsZero() {
		return nil
	}
	for before := range l.terms[:i] {
		if t := &l.terms[before]; t.Ended.IsZero() {
			t.Ended, t.Why = note.Before, store.WhyUntold
			if t.Began.After(t.Ended) {
				t.Ended = t.Began
			}
		}
	}
	return nil
}

// Terms implements [jobs.Archive].
func (s *Store) Terms(ctx context.Context, group string, filter jobs.TermFilter) ([]jobs.Term, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var terms []jobs.Term
	for _, t := range slices.Backward(s.ledger(group).terms) {
		if (filter.Until.IsZero() || t.Began.Before(filter.Until)) && (t.Ended.IsZero() || !t.Ended.Before(filter.Since)) {
			terms = append(terms, t)
		}
	}
	return first(terms, filter.Limit), nil
}

// PruneArchive implements [store.Archive].
func (s *Store) PruneArchive(ctx context.Context, group string, batch int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if batch <= 0 {
		batch = 500
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, oldest := s.ledger(group), s.now().Add(-store.KeepArchive)
	audits, terms := 0, 0
	for audits < min(batch, len(l.audit)) && (len(l.audit)-audits > store.MaxAudit || l.audit[audits].At.Before(oldest)) {
		audits++
	}
	for terms < min(batch, len(l.terms)) {
		t := l.terms[terms]
		at := t.Ended
		if at.IsZero() {
			at = t.Began
		}
		if len(l.terms)-terms <= store.MaxTerms && !at.Before(oldest) {
			break
		}
		terms++
	}
	l.audit, l.terms = slices.Clone(l.audit[audits:]), slices.Clone(l.terms[terms:])
	return audits + terms, nil
}

// leave keeps the attempt that a move ends, before the run is changed.
func (r *run) leave(m store.Move, now time.Time) {
	a, ok := store.AttemptOf(m)
	if !ok {
		return
	}
	a.Started, a.Finished, a.Error, a.Output = r.Started, now, ledgerrows.CutError(a.Error), slices.Clone(a.Output)
	if a.State == jobs.Interrupted {
		a.Finished = time.Time{}
	}
	r.attempts = slices.DeleteFunc(r.attempts, func(b jobs.Attempt) bool {
		return b.Number == a.Number || b.Number <= a.Number-jobs.MaxAttempts
	})
	r.attempts = append(r.attempts, a)
}

// Attempts implements [jobs.Archive].
func (s *Store) Attempts(ctx context.Context, group string, key jobs.Key) ([]jobs.Attempt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.ledger(group).get(key)
	if r == nil {
		return nil, noRun(group, key)
	}
	kept := slices.Clone(r.attempts)
	for i := range kept {
		kept[i].Output = slices.Clone(kept[i].Output)
	}
	return ledgerrows.Attempts(r.Record, kept), nil
}

// Names implements [jobs.Archive].
func (s *Store) Names(ctx context.Context, group string) (jobs.Names, error) {
	if err := ctx.Err(); err != nil {
		return jobs.Names{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger(group)
	names := jobs.Names{All: slices.Sorted(maps.Keys(l.jobs))}
	for _, known := range l.jobs {
		if known.Paused {
			names.Paused++
		}
	}
	return names, nil
}

// LoadOf implements [jobs.Archive].
func (s *Store) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	if err := cmp.Or(ctx.Err(), jobs.CheckNames(names)); err != nil {
		return jobs.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(group, func(name string) bool { return slices.Contains(names, name) }), nil
}

// Newest implements [jobs.Archive].
func (s *Store) Newest(ctx context.Context, group string, of jobs.Newest) (map[string][]jobs.Record, error) {
	if err := cmp.Or(ctx.Err(), of.Check()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := map[string][]jobs.Record{}
	for _, job := range of.Jobs {
		var records []jobs.Record
		for _, r := range slices.Backward(s.ledger(group).runs[job]) {
			if len(records) < max(1, of.Limit) && within(r.Tick, of.Since, of.Until) && (!of.Over || r.State.Over()) {
				records = append(records, r.Record)
			}
		}
		if records != nil {
			newest[job] = records
		}
	}
	return newest, nil
}

// within reports whether a tick is in a time, of which until does not belong to it.
func within(tick, since, until time.Time) bool {
	return !tick.Before(since) && (until.IsZero() || tick.Before(until))
}

// Counts implements [jobs.Archive].
func (s *Store) Counts(ctx context.Context, group string, filter jobs.CountFilter) (jobs.Counts, error) {
	if err := cmp.Or(ctx.Err(), filter.Check()); err != nil {
		return jobs.Counts{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, counts := s.ledger(group), jobs.Counts{Cut: map[string]time.Time{}}
	if len(filter.Jobs) == 0 {
		var all []*run
		for _, runs := range l.runs {
			all = append(all, runs...)
		}
		count(&counts, "", all, filter, func(r *run) jobs.State { return r.State }, jobs.MaxCounted)
	}
	for _, job := range filter.Jobs {
		count(&counts, job, l.runs[job], filter, func(*run) jobs.State { return 0 }, jobs.MaxCounted/len(filter.Jobs))
	}
	slices.SortFunc(counts.List, func(a, b jobs.Count) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), a.From.Compare(b.From), cmp.Compare(a.State, b.State))
	})
	return counts, nil
}

// count counts the runs of a job: of each kind the newest, up to most.
func count(into *jobs.Counts, job string, runs []*run, filter jobs.CountFilter, kind func(*run) jobs.State, most int) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return !within(r.Tick, filter.Since, filter.Until) })
	slices.SortFunc(runs, func(a, b *run) int { return b.Tick.Compare(a.Tick) })
	of, since := map[jobs.State]int{}, filter.Since
	for _, r := range runs {
		if of[kind(r)]++; of[kind(r)] == most+1 {
			if from := r.Tick.Add(time.Microsecond); from.After(since) {
				since, into.Cut[job] = from, from
			}
		}
	}
	found := map[jobs.Count]int{}
	for _, r := range runs {
		if !r.Tick.Before(since) {
			found[jobs.Count{Job: job, From: filter.Since.Add(r.Tick.Sub(filter.Since).Truncate(filter.Every)), State: r.State}]++
		}
	}
	for c, n := range found {
		c.Runs = n
		into.List = append(into.List, c)
	}
}
