package redisstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var _ store.Archive = (*Store)(nil)

var (
	auditScript    = newLedgerScript("audit")
	termsScript    = newLedgerScript("terms")
	attemptsScript = newLedgerScript("attempts")
	statesScript   = newLedgerScript("states")
)

// Audit implements [jobs.Archive]. It looks at all entries for those of a job, some hundred in each script.
func (s *Store) Audit(ctx context.Context, group string, filter jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	limit, before := cmp.Or(max(filter.Limit, 0), defaultLimit), filter.Before
	var all []jobs.AuditEntry
	for {
		f, err := s.fieldsOf(ctx, "read the audit", auditScript, group, filter.Job, before, limit-len(all), lookMost)
		if err != nil {
			return nil, err
		}
		all = append(all, rowsOf(f, entryColumns)...)
		if before = f.number(); before == 0 || f.err != nil {
			return all, f.err
		}
	}
}

// Terms implements [jobs.Archive].
func (s *Store) Terms(ctx context.Context, group string, filter jobs.TermFilter) ([]jobs.Term, error) {
	limit, below := cmp.Or(max(filter.Limit, 0), defaultLimit), "+"
	var all []jobs.Term
	for {
		answer, err := s.run(ctx, "read the terms", termsScript, group, below, lookMost)
		if err != nil {
			return nil, err
		}
		f := &fields{doing: "read the terms", values: []any{answer}}
		terms := rowsOf(f, termColumns)
		for _, t := range terms {
			if (filter.Until.IsZero() || t.Began.Before(filter.Until)) && (t.Ended.IsZero() || !t.Ended.Before(filter.Since)) && len(all) < limit {
				all = append(all, t)
			}
		}
		if len(terms) < lookMost || len(all) == limit || f.err != nil {
			return all, f.err
		}
		below = "(" + triggerText(terms[len(terms)-1].Token)
	}
}

// Attempts implements [jobs.Archive].
func (s *Store) Attempts(ctx context.Context, group string, key jobs.Key) ([]jobs.Attempt, error) {
	if checkKey(key) != nil {
		return nil, ledgerrows.NoRun(group, key) // no run has it
	}
	answer, err := s.run(ctx, "read the attempts", attemptsScript, append([]any{group}, keyArgs(key)...)...)
	switch {
	case err != nil:
		return nil, err
	case answer == nil:
		return nil, ledgerrows.NoRun(group, key)
	}
	f := &fields{doing: "read the attempts"}
	f.values = f.array(answer)
	var r ledger.Run
	f.row(runColumns(&r))
	kept := rowsOf(f, attemptColumns)
	slices.SortFunc(kept, func(a, b jobs.Attempt) int { return cmp.Compare(a.Number, b.Number) })
	return ledgerrows.Attempts(r.Record, kept), f.err
}

// Names implements [jobs.Archive]. It reads the jobs as they are, since a script would have to copy them.
func (s *Store) Names(ctx context.Context, group string) (jobs.Names, error) {
	all, err := ask(ctx, s, func(c redis.UniversalClient) (map[string]string, error) {
		return c.HGetAll(ctx, s.key("jobs", group)).Result()
	})
	if err != nil {
		return jobs.Names{}, s.failed(ctx, "read the names", err)
	}
	names, f := jobs.Names{All: slices.Sorted(maps.Keys(all))}, &fields{doing: "read the names"}
	for _, text := range all {
		f.values = []any{text}
		if f.job().Paused {
			names.Paused++
		}
	}
	return names, f.err
}

// Newest implements [jobs.Archive]. Each job is a script of its own.
func (s *Store) Newest(ctx context.Context, group string, of jobs.Newest) (map[string][]jobs.Record, error) {
	if err := of.Check(); err != nil {
		return nil, err
	}
	most, least := bounds(of.Since, of.Until)
	newest := map[string][]jobs.Record{}
	for _, job := range of.Jobs {
		if job == "" || newest[job] != nil {
			continue
		}
		records, err := s.list(ctx, group, selection{job: job, over: of.Over, max: most, min: least, limit: max(1, of.Limit)})
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			newest[job] = records
		}
	}
	return newest, ctx.Err()
}

// Counts implements [jobs.Archive]. It reads an entry of an index for each run that it counts, some hundred at a time: a run that
// changes its state in between may be counted twice, or not at all.
func (s *Store) Counts(ctx context.Context, group string, filter jobs.CountFilter) (jobs.Counts, error) {
	if err := filter.Check(); err != nil {
		return jobs.Counts{}, err
	}
	c := &counting{store: s, group: group, filter: filter, found: map[jobs.Count]int{}, cut: map[string]time.Time{}}
	c.filter.Since = filter.Since.UTC()
	for _, job := range filter.Jobs {
		if err := c.ofJob(ctx, job, jobs.MaxCounted/len(filter.Jobs)); err != nil {
			return jobs.Counts{}, err
		}
	}
	if len(filter.Jobs) == 0 {
		if err := c.ofAll(ctx); err != nil {
			return jobs.Counts{}, err
		}
	}
	return c.counts(), nil
}

// counting is one call of Counts.
type counting struct {
	store  *Store
	group  string
	filter jobs.CountFilter
	found  map[jobs.Count]int
	cut    map[string]time.Time
}

// entries reads the entries of an index in the time of the filter, the newest first, and calls add with some hundred of
// them at a time. There are most of them at most; if there are more, those of name are cut from the tick after the
// first one that is left out.
func (c *counting) entries(ctx context.Context, name, index string, most int, add func([]string) error) error {
	above, least := bounds(c.filter.Since, c.filter.Until)
	for left := most; ; {
		by := &redis.ZRangeBy{Max: "(" + above, Min: "[" + least, Count: int64(min(left+1, lookMost))}
		entries, err := ask(ctx, c.store, func(server redis.UniversalClient) ([]string, error) {
			return server.ZRevRangeByLex(ctx, index, by).Result()
		})
		if err != nil {
			return c.store.failed(ctx, "count runs", err)
		}
		end := len(entries) < int(by.Count)
		if len(entries) > left {
			f := &fields{doing: "count runs"}
			from := f.entryTick(entries[left]).Add(time.Microsecond)
			if f.err != nil {
				return f.err
			}
			if c.cut[name].Before(from) {
				c.cut[name] = from
			}
			entries, end = entries[:left], true
		}
		if left -= len(entries); len(entries) > 0 {
			above = entries[len(entries)-1]
			if err := add(entries); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

// add counts the run of an entry.
func (c *counting) add(name, entry string, state jobs.State) error {
	f := &fields{doing: "count runs"}
	tick := f.entryTick(entry)
	// Those of a tick of which some are left out go too, when all are counted.
	c.found[jobs.Count{Job: name, From: tick, State: state}]++
	return f.err
}

func (c *counting) ofJob(ctx context.Context, job string, most int) error {
	if job == "" {
		return nil
	}
	return c.entries(ctx, job, c.store.key("runs", c.group+" "+job), most, func(entries []string) error {
		f, err := c.store.fieldsOf(ctx, "count runs", statesScript, append([]any{c.group, job}, texts(entries)...)...)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			state := jobs.State(f.number())
			if state == 0 {
				continue // it is not there any more
			}
			if err := c.add(job, entry, state); err != nil {
				return err
			}
		}
		return f.err
	})
}

func (c *counting) ofAll(ctx context.Context) error {
	for state := jobs.Running; state <= jobs.Interrupted; state++ {
		index := c.store.key("in", c.group+" "+strconv.Itoa(int(state)))
		err := c.entries(ctx, "", index, jobs.MaxCounted, func(entries []string) error {
			for _, entry := range entries {
				if err := c.add("", entry, state); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// counts puts the ticks into their buckets.
func (c *counting) counts() jobs.Counts {
	buckets := map[jobs.Count]int{}
	for count, n := range c.found {
		if count.From.Before(c.cut[count.Job]) {
			continue
		}
		count.From = c.filter.Since.Add(count.From.Sub(c.filter.Since).Truncate(c.filter.Every))
		buckets[count] += n
	}
	counts := jobs.Counts{Cut: c.cut}
	for count, n := range buckets {
		count.Runs = n
		counts.List = append(counts.List, count)
	}
	slices.SortFunc(counts.List, func(a, b jobs.Count) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), a.From.Compare(b.From), cmp.Compare(a.State, b.State))
	})
	return counts
}
