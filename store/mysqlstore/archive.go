package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	rule "github.com/cronlease/cronlease/store/ledger"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// unionMost is how many queries one statement joins.
const unionMost = 100

// archive is what people look at later. It uses the connections of the ledger, and
// never those of heartbeats.
type archive struct {
	ledger  *ledger
	sql     *archiveQueries
	counted int // how many runs are counted for sure
}

// note is the statement that records an action.
func (a *archive) note(group string, e jobs.AuditEntry) string {
	tick := sqltext.Raw("NULL")
	if !e.Tick.IsZero() {
		tick = sqltext.Raw(strconv.FormatInt(e.Tick.UnixMicro(), 10))
	}
	return a.sql.note.Render(group, e.Name, string(e.Via), string(e.Action), e.Job, tick, e.Trigger, e.Note, string(e.Result))
}

// noteResign records that the holder of a term was asked to resign.
func (a *archive) noteResign(ctx context.Context, group string, token uint64, result jobs.Result) error {
	entry := ledgerrows.Entry(ctx, jobs.ActionResign, jobs.Key{}, fmt.Sprintf("token %d", token))
	entry.Result = result
	return a.ledger.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Write, "record the request", func(ctx context.Context, c *conn) error {
		return c.Exec(ctx, a.note(group, entry))
	})
}

// Audit implements [jobs.Archive].
func (a *archive) Audit(ctx context.Context, group string, filter jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	before, limit := cmp.Or(filter.Before, 1<<63), cmp.Or(max(0, filter.Limit), defaultLimit)
	query := a.sql.audit.Render(group, before, limit)
	if filter.Job != "" {
		query = a.sql.auditOfJob.Render(group, filter.Job, before, limit)
	}
	return readAll(ctx, a, "read the audit", query, entryFields.row)
}

// readAll runs a query and returns its rows.
func readAll[T any](ctx context.Context, a *archive, op, query string, scan func(*sql.Rows) (T, error)) (all []T, err error) {
	err = a.ledger.do(ctx, mysqlconn.Read, op, func(ctx context.Context, c *conn) (err error) {
		all, err = rowsOf(ctx, c, query, scan)
		return err
	})
	return all, err
}

// Terms implements [jobs.Archive].
func (a *archive) Terms(ctx context.Context, group string, filter jobs.TermFilter) ([]jobs.Term, error) {
	limit := cmp.Or(max(0, filter.Limit), defaultLimit)
	bound := func(at time.Time) (has bool, micros int64) {
		if at.IsZero() {
			return false, 0
		}
		return true, at.Add(time.Microsecond - 1).UnixMicro()
	}
	hasUntil, until := bound(filter.Until)
	hasSince, since := bound(filter.Since)
	query := a.sql.terms.Render(group, hasUntil, until, hasSince, since, limit)
	return readAll(ctx, a, "read the terms", query, termFields.row)
}

// Attempts implements [jobs.Archive].
func (a *archive) Attempts(ctx context.Context, group string, key jobs.Key) ([]jobs.Attempt, error) {
	if ledgerrows.CheckKey("mysqlstore", key) != nil {
		return nil, ledgerrows.NoRun(group, key) // the table cannot have it
	}
	query := a.sql.attempts.Render(group, key.Job, key.Tick.UnixMicro(), key.Trigger)
	var of rule.Run
	kept, err := readAll(ctx, a, "read the attempts", query, func(rows *sql.Rows) (jobs.Attempt, error) {
		at, _, err := attemptFields.scanOuter(rows, runFields.into(&of)...)
		if len(at.Output) == 0 {
			at.Output = nil
		}
		return at, err
	})
	switch {
	case err != nil:
		return nil, err
	case len(kept) == 0:
		return nil, ledgerrows.NoRun(group, key)
	}
	kept = slices.DeleteFunc(kept, func(at jobs.Attempt) bool { return at.Number == 0 }) // the run has none
	return ledgerrows.Attempts(of.Record, kept), nil
}

// Names implements [jobs.Archive].
func (a *archive) Names(ctx context.Context, group string) (jobs.Names, error) {
	type listed struct {
		name   string
		paused bool
	}
	list, err := readAll(ctx, a, "read the names", a.sql.names.Render(group), func(rows *sql.Rows) (l listed, err error) {
		err = rows.Scan(&l.name, (*sqlscan.Bool)(&l.paused))
		return l, err
	})
	var names jobs.Names
	for _, l := range list {
		names.All = append(names.All, l.name)
		if l.paused {
			names.Paused++
		}
	}
	return names, err
}

// LoadOf implements [jobs.Archive].
func (a *archive) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	if err := jobs.CheckNames(names); err != nil {
		return jobs.Snapshot{}, err
	}
	list := sqltext.List{""} // which no job is named, but the list must not be empty
	for _, name := range names {
		list = append(list, name)
	}
	query := a.ledger.sql.jobs.Render(group) + a.sql.ofNames.Render(list)
	var snapshot jobs.Snapshot
	err := a.ledger.do(ctx, mysqlconn.Read, "load jobs", func(ctx context.Context, c *conn) (err error) {
		snapshot, err = a.ledger.loadWith(ctx, c, group, query)
		return err
	})
	return snapshot, err
}

// Newest implements [jobs.Archive]. It reads the rows that it returns, and where only
// runs count that are over, those that are newer and open.
func (a *archive) Newest(ctx context.Context, group string, of jobs.Newest) (map[string][]jobs.Record, error) {
	if err := of.Check(); err != nil {
		return nil, err
	}
	above := 0
	if of.Over {
		above = int(jobs.Waiting)
	}
	since, last := window(of.Since, of.Until)
	all, err := union(ctx, a, "read the newest runs", distinctNames(of.Jobs), func(job string) string {
		return a.sql.newestOf.Render(group, job, since, last, above, max(1, of.Limit))
	}, func(rows *sql.Rows) (jobs.Record, error) {
		one, err := runFields.row(rows)
		return one.Record, err
	})
	if err != nil {
		return nil, err
	}
	newest := map[string][]jobs.Record{}
	for _, r := range all {
		newest[r.Job] = append(newest[r.Job], r)
	}
	for _, records := range newest { // a server may change the order of a UNION
		slices.SortFunc(records, func(a, b jobs.Record) int { return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Trigger, a.Trigger)) })
	}
	return newest, nil
}

// distinctNames leaves out names that come twice.
func distinctNames(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// window is the first and the last tick of a time whose end does not belong to it, in
// microseconds.
func window(since, until time.Time) (first, last int64) {
	first, last = since.Add(time.Microsecond-1).UnixMicro(), math.MaxInt64
	if !until.IsZero() {
		last = until.Add(time.Microsecond-1).UnixMicro() - 1
	}
	return first, last
}

// union runs a query for each element, several in one statement, and returns their rows.
func union[T any](ctx context.Context, a *archive, op string, of []string, query func(string) string, scan func(*sql.Rows) (T, error)) ([]T, error) {
	var all []T
	for chunk := range slices.Chunk(of, unionMost) {
		queries := make([]string, len(chunk))
		for i, one := range chunk {
			queries[i] = query(one)
		}
		part, err := readAll(ctx, a, op, strings.Join(queries, "\nUNION ALL\n"), scan)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

// Counts implements [jobs.Archive]. If jobs have more runs than are counted for sure, it
// reads about three times as many entries of an index as it counts.
func (a *archive) Counts(ctx context.Context, group string, filter jobs.CountFilter) (jobs.Counts, error) {
	if err := filter.Check(); err != nil {
		return jobs.Counts{}, err
	}
	q := counting{archive: a, group: group, start: filter.Since.UTC(), every: filter.Every, of: distinctNames(filter.Jobs)}
	q.since, q.last = window(filter.Since, filter.Until)
	q.most = a.counted / max(1, len(q.of))
	if len(q.of) == 0 {
		q.together = true
		for state := jobs.Running; state <= jobs.Interrupted; state++ {
			q.of = append(q.of, strconv.Itoa(int(state)))
		}
	}
	counts := jobs.Counts{Cut: map[string]time.Time{}}
	if !q.together {
		few, ok, err := q.countFew(ctx)
		if err != nil || ok {
			counts.List = few
			return counts, err
		}
	}
	from, err := q.from(ctx)
	if err != nil {
		return jobs.Counts{}, err
	}
	for job, micros := range from {
		counts.Cut[job] = time.UnixMicro(micros).UTC()
	}
	if counts.List, err = q.count(ctx, from); err != nil {
		return jobs.Counts{}, err
	}
	return counts, nil
}

func sortCounts(list []jobs.Count) {
	slices.SortFunc(list, func(a, b jobs.Count) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), a.From.Compare(b.From), cmp.Compare(a.State, b.State))
	})
}

// counting is one call of Counts. It counts the runs of each job or, where all are counted
// together, those in each state, which an index has.
type counting struct {
	*archive
	group       string
	start       time.Time
	every       time.Duration
	since, last int64
	of          []string // names, or states
	together    bool
	most        int // runs of each
}

// from returns from which tick on the counts of those jobs are complete that have too
// many.
func (q counting) from(ctx context.Context) (map[string]int64, error) {
	type cut struct {
		job  string
		tick int64
	}
	cuts, err := union(ctx, q.archive, "count the runs", q.of, func(one string) string {
		if q.together {
			return q.sql.cutIn.Render(q.group, sqltext.Raw(one), q.since, q.last, q.most)
		}
		return q.sql.cutOf.Render(q.group, one, q.since, q.last, q.most)
	}, func(rows *sql.Rows) (c cut, err error) {
		err = rows.Scan(&c.job, &c.tick)
		return c, err
	})
	from := map[string]int64{}
	for _, c := range cuts {
		from[c.job] = max(from[c.job], c.tick+1)
	}
	return from, err
}

// countFew counts the runs of all jobs by one statement, and reports whether they are few
// enough for that.
func (q counting) countFew(ctx context.Context) (list []jobs.Count, ok bool, err error) {
	names := make(sqltext.List, len(q.of))
	for i, name := range q.of {
		names[i] = name
	}
	query := q.sql.countFew.Render(q.start.UnixMicro(), q.every.Microseconds(), q.group, names, q.since, q.last, q.counted+1)
	list, err = readAll(ctx, q.archive, "count the runs", query, q.scan)
	total := 0
	for _, c := range list {
		total += c.Runs
	}
	sortCounts(list)
	return list, total <= q.counted, err
}

func (q counting) scan(rows *sql.Rows) (c jobs.Count, err error) {
	var bucket int64
	err = rows.Scan(&c.Job, &bucket, &c.State, (*sqlscan.Count)(&c.Runs))
	c.From = q.start.Add(time.Duration(bucket) * q.every)
	return c, err
}

func (q counting) count(ctx context.Context, from map[string]int64) ([]jobs.Count, error) {
	start, every := q.start.UnixMicro(), q.every.Microseconds()
	since := func(job string) int64 {
		if micros, ok := from[job]; ok {
			return micros
		}
		return q.since
	}
	list, err := union(ctx, q.archive, "count the runs", q.of, func(one string) string {
		if q.together {
			return q.sql.countIn.Render(start, every, q.group, sqltext.Raw(one), since(""), q.last)
		}
		return q.sql.countOf.Render(start, every, q.group, one, since(one), q.last)
	}, q.scan)
	sortCounts(list)
	return list, err
}
