package memdb

import (
	"cmp"
	"context"
	"slices"

	"github.com/cronlease/cronlease/jobs"
)

// Prune implements [store.Ledger].
func (s *Store) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if batch <= 0 {
		batch = 500
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now := s.ledger(group), s.now()
	runs := l.runs[job]
	newest := -1
	for i, r := range runs {
		if r.Trigger == 0 {
			newest = i
		}
	}
	kept, deleted := runs[:0:0], 0
	for i, r := range runs {
		old := history.For > 0 && now.Sub(r.Finished) > history.For
		many := history.Keep > 0 && len(runs)-i > history.Keep
		if (old || many) && deleted < batch && i != newest && r.State.Over() {
			deleted++
			continue
		}
		kept = append(kept, r)
	}
	l.runs[job] = kept
	return deleted, nil
}

// Runs implements [jobs.Control].
func (s *Store) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []jobs.Record
	for name, runs := range s.ledger(group).runs {
		for _, r := range runs {
			if (filter.Job == "" || filter.Job == name) && (filter.State == 0 || filter.State == r.State) &&
				within(r.Tick, filter.Since, filter.Until) && (filter.Behind == jobs.Key{} || newestFirst(filter.Behind, r.Key) < 0) {
				records = append(records, r.Record)
			}
		}
	}
	slices.SortFunc(records, func(a, b jobs.Record) int { return newestFirst(a.Key, b.Key) })
	return first(records, filter.Limit), nil
}

// newestFirst is the order of [jobs.Control].Runs.
func newestFirst(a, b jobs.Key) int {
	return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Job, a.Job), cmp.Compare(b.Trigger, a.Trigger))
}
