package sqlledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/ledger"
)

// entryRow are the parameters of an entry of the audit, but for its group.
func entryRow(e jobs.AuditEntry) []any {
	var tick any // NULL
	if !e.Tick.IsZero() {
		tick = e.Tick.UnixMicro()
	}
	return []any{e.Name, string(e.Via), string(e.Action), e.Job, tick, int64(e.Trigger), e.Note, string(e.Result)}
}

// Note writes an entry of the audit, in the transaction of what it is about.
func (l *Ledger) Note(ctx context.Context, c Conn, group string, e jobs.AuditEntry) error {
	return c.Run(ctx, []Statement{{l.q.Note, append([]any{group}, entryRow(e)...)}})
}

// Audit implements [jobs.Archive].
func (l *Ledger) Audit(ctx context.Context, group string, filter jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	before := int64(min(cmp.Or(filter.Before, math.MaxInt64), math.MaxInt64))
	query, args := l.q.Audit, []any{group, before, cmp.Or(max(filter.Limit, 0), defaultLimit)}
	if filter.Job != "" {
		query, args = l.q.AuditOfJob, append(args, filter.Job)
	}
	var all []jobs.AuditEntry
	err := l.query(ctx, "read the audit", query, args, func(rows *sql.Rows) error {
		var e jobs.AuditEntry
		var at int64
		var tick sql.NullInt64
		err := rows.Scan(&e.ID, &at, &e.Name, &e.Via, &e.Action, &e.Job, &tick, (*sqlscan.Uint)(&e.Trigger), &e.Note, &e.Result)
		e.At, e.Tick = Instant(at), instantOrZero(tick)
		all = append(all, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// query runs a query, and f for each row.
func (l *Ledger) query(ctx context.Context, action, query string, args []any, f func(*sql.Rows) error) error {
	return l.db.Read(ctx, action, func(ctx context.Context, c Conn) error {
		return Each(ctx, c, query, args, f)
	})
}

// Terms implements [jobs.Archive].
func (l *Ledger) Terms(ctx context.Context, group string, filter jobs.TermFilter) ([]jobs.Term, error) {
	since, last := window(filter.Since, filter.Until)
	var all []jobs.Term
	err := l.query(ctx, "read the terms", l.q.Terms, []any{group, last, since, cmp.Or(max(filter.Limit, 0), defaultLimit)}, func(rows *sql.Rows) error {
		t, err := scanTerm(rows)
		all = append(all, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func scanTerm(rows *sql.Rows) (t jobs.Term, err error) {
	var began int64
	var ended sql.NullInt64
	err = rows.Scan((*sqlscan.Uint)(&t.Token), &t.Owner, &began, &ended, &t.Early, &t.Why)
	t.Began, t.Ended = Instant(began), instantOrZero(ended)
	return t, err
}

// window is the first and the last microsecond of a time whose end does not belong to it.
func window(since, until time.Time) (first, last int64) {
	first, last = since.Add(time.Microsecond-1).UnixMicro(), math.MaxInt64
	if !until.IsZero() {
		last = until.Add(time.Microsecond-1).UnixMicro() - 1
	}
	return first, last
}

// Attempts implements [jobs.Archive].
func (l *Ledger) Attempts(ctx context.Context, group string, key jobs.Key) ([]jobs.Attempt, error) {
	if !ledgerrows.CanBe(key) {
		return nil, ledgerrows.NoRun(group, key) // the table cannot have it
	}
	args := []any{group, key.Job, key.Tick.UnixMicro(), int64(key.Trigger)}
	var kept []jobs.Attempt
	var record *jobs.Record
	err := l.db.ReadOnce(ctx, "read the attempts", func(ctx context.Context, c Conn) error {
		if err := eachRun(ctx, c, l.q.Run, args, func(r ledger.Run) { record = &r.Record }); err != nil {
			return err
		}
		return Each(ctx, c, l.q.Attempts, args, func(rows *sql.Rows) error {
			var a jobs.Attempt
			var started, finished sql.NullInt64
			var output []byte
			err := rows.Scan((*sqlscan.Count)(&a.Number), &a.State, &a.Owner, (*sqlscan.Uint)(&a.Token), &started, &finished, &a.Error, &output)
			a.Started, a.Finished = instantOrZero(started), instantOrZero(finished)
			if len(output) > 0 {
				a.Output = output
			}
			kept = append(kept, a)
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case record == nil:
		return nil, ledgerrows.NoRun(group, key)
	}
	return ledgerrows.Attempts(*record, kept), nil
}

// Names implements [jobs.Archive].
func (l *Ledger) Names(ctx context.Context, group string) (jobs.Names, error) {
	var names jobs.Names
	err := l.query(ctx, "read the names", l.q.Names, []any{group}, func(rows *sql.Rows) error {
		var name string
		var paused bool
		err := rows.Scan(&name, &paused)
		names.All = append(names.All, name)
		if paused {
			names.Paused++
		}
		return err
	})
	if err != nil {
		return jobs.Names{}, err
	}
	return names, nil
}

// LoadOf implements [jobs.Archive].
func (l *Ledger) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	if err := jobs.CheckNames(names); err != nil {
		return jobs.Snapshot{}, err
	}
	list, err := json.Marshal(append([]string{}, names...)) // nil is no list in JSON
	if err != nil {
		return jobs.Snapshot{}, err
	}
	return l.load(ctx, group, "", l.q.JobsOf, group, string(list))
}

// Newest implements [jobs.Archive].
func (l *Ledger) Newest(ctx context.Context, group string, of jobs.Newest) (map[string][]jobs.Record, error) {
	if err := of.Check(); err != nil {
		return nil, err
	}
	since, last := window(of.Since, of.Until)
	above := 0
	if of.Over {
		above = int(jobs.Waiting)
	}
	newest := map[string][]jobs.Record{}
	err := l.db.Read(ctx, "read the newest runs", func(ctx context.Context, c Conn) error {
		for _, job := range of.Jobs {
			all, err := records(ctx, c, l.q.Newest, group, job, since, last, above, max(1, of.Limit))
			if err != nil {
				return err
			}
			if len(all) > 0 {
				newest[job] = all
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newest, nil
}

// Counts implements [jobs.Archive]. It reads about twice as many entries of an index as
// it counts runs.
func (l *Ledger) Counts(ctx context.Context, group string, filter jobs.CountFilter) (jobs.Counts, error) {
	if err := filter.Check(); err != nil {
		return jobs.Counts{}, err
	}
	start := filter.Since.UTC()
	since, last := window(start, filter.Until)
	counts := jobs.Counts{Cut: map[string]time.Time{}}
	err := l.db.Read(ctx, "count the runs", func(ctx context.Context, c Conn) error {
		// one counts the runs of jobs or in states; those of one name begin at one tick.
		one := func(name, cut, count string, of []any, most int) error {
			from := since
			for _, which := range of {
				err := Each(ctx, c, cut, []any{group, which, since, last, most}, func(rows *sql.Rows) error {
					var tick int64
					err := rows.Scan(&tick)
					from = max(from, tick+1)
					counts.Cut[name] = Instant(from)
					return err
				})
				if err != nil {
					return err
				}
			}
			for _, which := range of {
				err := Each(ctx, c, count, []any{group, which, from, last, start.UnixMicro(), filter.Every.Microseconds()}, func(rows *sql.Rows) error {
					n := jobs.Count{Job: name}
					var bucket int64
					err := rows.Scan(&bucket, &n.State, (*sqlscan.Count)(&n.Runs))
					n.From = start.Add(time.Duration(bucket) * filter.Every)
					counts.List = append(counts.List, n)
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		}
		for _, job := range filter.Jobs {
			if err := one(job, l.q.CutOf, l.q.CountOf, []any{job}, l.Counted/len(filter.Jobs)); err != nil {
				return err
			}
		}
		if len(filter.Jobs) > 0 {
			return nil
		}
		var states []any
		for state := jobs.Running; state <= jobs.Interrupted; state++ {
			states = append(states, int(state))
		}
		return one("", l.q.CutAll, l.q.CountAll, states, l.Counted)
	})
	if err != nil {
		return jobs.Counts{}, err
	}
	slices.SortFunc(counts.List, func(a, b jobs.Count) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), a.From.Compare(b.From), cmp.Compare(a.State, b.State))
	})
	return counts, nil
}
