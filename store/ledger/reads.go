package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Reads has those methods of [store.Ledger], [store.Archive] and [store.Replicas] that only read, on the contents of
// groups. It is safe for concurrent use where its [Viewer] is. The zero value is of no use: see [NewReads].
type Reads struct{ view Viewer }

// Viewer shows a group: it calls f once with its content as it is at one instant, later than every write that has
// returned. It returns f's error, or why it did not call it, such as that the context has ended. f leaves the content as
// it is, and keeps nothing of it. The attempts that f sees are those at the runs of these keys; others may be missing. Doing names the call
// in errors.
type Viewer func(ctx context.Context, group, doing string, attempts []jobs.Key, f func(*View) error) error

// NewReads returns the reads of a store that shows its groups like this.
func NewReads(view Viewer) Reads { return Reads{view} }

// View is a group at an instant, as a server shows it.
type View struct {
	*Content
	Now    time.Time // by the database's clock
	Server string    // as in [store.Reading]
}

// Changes implements [store.Ledger].
func (r Reads) Changes(ctx context.Context, group string) (changes store.Changes, err error) {
	err = r.view(ctx, group, "look for requests", nil, func(v *View) error {
		changes = store.Changes{Number: v.Changes, Now: v.Now, Server: v.Server}
		return nil
	})
	return changes, err
}

// Load implements [jobs.Control].
func (r Reads) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return r.load(ctx, group, "load the ledger", "", func(v *View) []string { return slices.Collect(maps.Keys(v.Jobs)) })
}

// Open implements [store.Spreads].
func (r Reads) Open(ctx context.Context, group, owner string) (jobs.Snapshot, error) {
	snapshot, err := r.load(ctx, group, "load open runs", owner, func(*View) []string { return nil })
	snapshot.Jobs, snapshot.Pauses = nil, nil
	return snapshot, err
}

// LoadOf implements [jobs.Archive].
func (r Reads) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	if err := jobs.CheckNames(names); err != nil {
		return jobs.Snapshot{}, err
	}
	return r.load(ctx, group, "load jobs", "", func(*View) []string { return names })
}

func (r Reads) load(ctx context.Context, group, doing, owner string, names func(*View) []string) (snapshot jobs.Snapshot, err error) {
	err = r.view(ctx, group, doing, nil, func(v *View) error {
		var open []jobs.Record
		for _, runs := range v.Runs {
			for _, run := range runs {
				if !run.State.Over() && (owner == "" || run.Owner == owner) {
					open = append(open, run.Record)
				}
			}
		}
		slices.SortFunc(open, func(a, b jobs.Record) int {
			return cmp.Or(a.Tick.Compare(b.Tick), ledgerrows.CompareKeys(a.Key, b.Key))
		})
		snapshot = v.Page(Need{Jobs: names(v)}, v.Now, v.Server).Snapshot(open)
		return nil
	})
	return snapshot, err
}

// Args implements [jobs.Control].
func (r Reads) Args(ctx context.Context, group string, key jobs.Key) (args json.RawMessage, err error) {
	err = r.view(ctx, group, "read arguments", nil, func(v *View) error {
		run := v.Find(key)
		if run == nil {
			return ledgerrows.NoRun(group, key)
		}
		args = slices.Clone(run.Args)
		return nil
	})
	return args, err
}

// Runs implements [jobs.Control].
func (r Reads) Runs(ctx context.Context, group string, filter jobs.Filter) (records []jobs.Record, err error) {
	err = r.view(ctx, group, "list runs", nil, func(v *View) error {
		for name, runs := range v.Runs {
			for _, run := range runs {
				if (filter.Job == "" || filter.Job == name) && (filter.State == 0 || filter.State == run.State) &&
					within(run.Tick, filter.Since, filter.Until) && (filter.Behind == jobs.Key{} || newestFirst(filter.Behind, run.Key) < 0) {
					records = append(records, run.Record)
				}
			}
		}
		slices.SortFunc(records, func(a, b jobs.Record) int { return newestFirst(a.Key, b.Key) })
		records = first(records, filter.Limit)
		return nil
	})
	return records, err
}

// newestFirst is the order of [jobs.Control].Runs.
func newestFirst(a, b jobs.Key) int {
	return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Job, a.Job), cmp.Compare(b.Trigger, a.Trigger))
}

func first[T any](list []T, limit int) []T {
	if limit <= 0 {
		limit = 100
	}
	return list[:min(limit, len(list))]
}

// within reports whether a tick is in a time, of which until does not belong to it.
func within(tick, since, until time.Time) bool {
	return !tick.Before(since) && (until.IsZero() || tick.Before(until))
}

// Audit implements [jobs.Archive].
func (r Reads) Audit(ctx context.Context, group string, filter jobs.AuditFilter) (entries []jobs.AuditEntry, err error) {
	err = r.view(ctx, group, "read the audit", nil, func(v *View) error {
		for _, e := range slices.Backward(v.Audit) {
			if (filter.Job == "" || filter.Job == e.Job) && (filter.Before == 0 || e.ID < filter.Before) {
				entries = append(entries, e)
			}
		}
		entries = first(entries, filter.Limit)
		return nil
	})
	return entries, err
}

// Terms implements [jobs.Archive].
func (r Reads) Terms(ctx context.Context, group string, filter jobs.TermFilter) (terms []jobs.Term, err error) {
	err = r.view(ctx, group, "read the terms", nil, func(v *View) error {
		for _, t := range slices.Backward(v.Terms) {
			if (filter.Until.IsZero() || t.Began.Before(filter.Until)) && (t.Ended.IsZero() || !t.Ended.Before(filter.Since)) {
				terms = append(terms, t)
			}
		}
		terms = first(terms, filter.Limit)
		return nil
	})
	return terms, err
}

// Attempts implements [jobs.Archive].
func (r Reads) Attempts(ctx context.Context, group string, key jobs.Key) (attempts []jobs.Attempt, err error) {
	err = r.view(ctx, group, "read attempts", []jobs.Key{key}, func(v *View) error {
		run := v.Find(key)
		if run == nil {
			return ledgerrows.NoRun(group, key)
		}
		kept := slices.Clone(run.Attempts)
		for i := range kept {
			kept[i].Output = slices.Clone(kept[i].Output)
		}
		attempts = ledgerrows.Attempts(run.Record, kept)
		return nil
	})
	return attempts, err
}

// Names implements [jobs.Archive].
func (r Reads) Names(ctx context.Context, group string) (names jobs.Names, err error) {
	err = r.view(ctx, group, "read the names of jobs", nil, func(v *View) error {
		names = jobs.Names{All: slices.Sorted(maps.Keys(v.Jobs))}
		for _, known := range v.Jobs {
			if known.Paused {
				names.Paused++
			}
		}
		return nil
	})
	return names, err
}

// GoneSince implements [jobs.Registry].
func (r Reads) GoneSince(ctx context.Context, group, job string) (gone time.Time, err error) {
	err = r.view(ctx, group, "read whether the job is gone", nil, func(v *View) error {
		gone = v.Jobs[job].Gone
		return nil
	})
	return gone, err
}

// Newest implements [jobs.Archive].
func (r Reads) Newest(ctx context.Context, group string, of jobs.Newest) (newest map[string][]jobs.Record, err error) {
	if err := of.Check(); err != nil {
		return nil, err
	}
	err = r.view(ctx, group, "list runs", nil, func(v *View) error {
		newest = map[string][]jobs.Record{}
		for _, job := range of.Jobs {
			var records []jobs.Record
			for _, run := range slices.Backward(v.Runs[job]) {
				if len(records) < max(1, of.Limit) && within(run.Tick, of.Since, of.Until) && (!of.Over || run.State.Over()) {
					records = append(records, run.Record)
				}
			}
			if records != nil {
				newest[job] = records
			}
		}
		return nil
	})
	return newest, err
}

// Counts implements [jobs.Archive].
func (r Reads) Counts(ctx context.Context, group string, filter jobs.CountFilter) (counts jobs.Counts, err error) {
	if err := filter.Check(); err != nil {
		return jobs.Counts{}, err
	}
	err = r.view(ctx, group, "count runs", nil, func(v *View) error {
		counts = jobs.Counts{Cut: map[string]time.Time{}}
		if len(filter.Jobs) == 0 {
			var all []*KeptRun
			for _, runs := range v.Runs {
				all = append(all, runs...)
			}
			count(&counts, "", all, filter, func(r *KeptRun) jobs.State { return r.State }, jobs.MaxCounted)
		}
		for _, job := range filter.Jobs {
			count(&counts, job, v.Runs[job], filter, func(*KeptRun) jobs.State { return 0 }, jobs.MaxCounted/len(filter.Jobs))
		}
		slices.SortFunc(counts.List, func(a, b jobs.Count) int {
			return cmp.Or(cmp.Compare(a.Job, b.Job), a.From.Compare(b.From), cmp.Compare(a.State, b.State))
		})
		return nil
	})
	return counts, err
}

// count counts the runs of a job: of each kind the newest, up to most.
func count(into *jobs.Counts, job string, runs []*KeptRun, filter jobs.CountFilter, kind func(*KeptRun) jobs.State, most int) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r *KeptRun) bool { return !within(r.Tick, filter.Since, filter.Until) })
	slices.SortFunc(runs, func(a, b *KeptRun) int { return b.Tick.Compare(a.Tick) })
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
