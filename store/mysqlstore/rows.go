package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	rule "github.com/cronlease/cronlease/store/ledger"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// rules are the methods that write to a ledger. Some are hidden by those that are by hand: Claim and Move, which are hot;
// Declare and Trigger, for which a new leader and a user wait; PassOver and Prune, for which these would read all runs of a
// job.
type rules = rule.Ledger

// ledgerRows are the rows of the ledger for those rules that are not hidden.
type ledgerRows struct{ *Store }

// insertTries bounds how often a transaction is repeated because another one has inserted a row that it had found absent.
// The next time the row is there.
const insertTries = 5

// Do implements [rule.Rows]. What may change stays locked from when it is read: the fence, runs in the order of their keys,
// terms, and last the jobs in the order of their names, of which the group's own row is the first.
func (r ledgerRows) Do(ctx context.Context, group string, need rule.Need, f func(*rule.Tx)) error {
	access := mysqlconn.Write
	if need.Term != 0 || need.Oldest != 0 {
		access = mysqlconn.Unfenced // rows of the archive that others have locked hold up no claim
	}
	var p *page
	err := r.do(ctx, access, need.Doing, func(ctx context.Context, c *conn) (err error) {
		for range insertTries {
			_, err = together(ctx, c, func() (done mysqlconn.Change, err error) {
				if p, err = r.read(ctx, c, group, need); err != nil {
					return done, err
				}
				f(p.Tx)
				return done, r.put(ctx, c, p)
			})
			if !errors.Is(err, store.ErrChanged) {
				break
			}
		}
		return err
	})
	if err == nil && slices.ContainsFunc(p.NewEntries, func(e jobs.AuditEntry) bool { return e.Result != jobs.Refused }) {
		r.ledger.wake(ctx, mysqlconn.Ledger, group)
	}
	return err
}

// page is what the rules read and put, and what was there before.
type page struct {
	*rule.Tx
	group string
	was   rule.Group
	own   jobRow          // the group's own row
	jobs  map[string]bool // that were there, and the group's own row
	terms map[uint64]jobs.Term
}

// read returns a page with what is needed.
func (r ledgerRows) read(ctx context.Context, c *conn, group string, need rule.Need) (*page, error) {
	p := &page{Tx: rule.NewTx(time.Time{}, c.Server.Identity), group: group, jobs: map[string]bool{}}
	if err := r.readFence(ctx, c, p, need.By); err != nil {
		return nil, err
	}
	for _, k := range slices.SortedFunc(slices.Values(need.Runs), ledgerrows.CompareKeys) {
		runs, err := rowsOf(ctx, c, r.ledger.sql.lockRun.Render(group, k.Job, k.Tick.UnixMicro(), k.Trigger), runFields.row)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			p.Runs[run.Key] = run
		}
	}
	if need.Term != 0 {
		terms, err := rowsOf(ctx, c, r.archive.sql.lockTerms.Render(group, need.Term, need.Term), termFields.row)
		if err != nil {
			return nil, err
		}
		for _, t := range terms {
			p.Terms[t.Token] = t
		}
		p.terms = maps.Clone(p.Terms)
	}
	if err := r.readOldest(ctx, c, p, need); err != nil {
		return nil, err
	}
	return p, r.readJobs(ctx, c, p, need.Jobs)
}

// readFence reads the fence row if a term compares it: see [ledger.guarded].
func (r ledgerRows) readFence(ctx context.Context, c *conn, p *page, h store.Holder) error {
	if h == (store.Holder{}) {
		return nil
	}
	if c.Server.ManyWriters() {
		if err := c.Exec(ctx, r.ledger.sql.writeFence.Render(h.Group, h.Owner, h.Token)); err != nil {
			return err
		}
	}
	fences, err := rowsOf(ctx, c, r.ledger.sql.lockFence.Render(h.Group), func(rows *sql.Rows) (f store.Fence, err error) {
		return f, rows.Scan(&f.Owner, &f.Token)
	})
	if len(fences) > 0 {
		p.Fence = &fences[0]
	}
	return err
}

// readOldest reads without locks: what need not be kept need not be later, and rows that are inserted meanwhile are newer. The
// rows are read before their number, which others that prune lower.
func (r ledgerRows) readOldest(ctx context.Context, c *conn, p *page, need rule.Need) (err error) {
	if need.Oldest == 0 {
		return nil
	}
	if p.OldestEntries, err = rowsOf(ctx, c, r.archive.sql.oldestEntries.Render(p.group, need.Oldest), entryFields.row); err != nil {
		return err
	}
	if p.OldestTerms, err = rowsOf(ctx, c, r.archive.sql.oldestTerms.Render(p.group, need.Oldest), termFields.row); err != nil {
		return err
	}
	return c.QueryRow(ctx, r.archive.sql.inAll.Render(p.group, p.group)).Scan(&p.Entries, &p.TermsInAll)
}

// readJobs reads the clock, the group's own row and jobs. Their newest ticks are for claims.
func (r ledgerRows) readJobs(ctx context.Context, c *conn, p *page, names []string) error {
	names = append(slices.Clone(names), "")
	slices.Sort(names)
	var list sqltext.Values
	for _, name := range slices.Compact(names) {
		list = append(list, sqltext.Row{name})
	}
	rows, err := c.Query(ctx, r.ledger.sql.lockJobs.Render(list, p.group))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		j, there, err := jobFields.scanOuter(rows, (*at)(&p.Now))
		if err != nil {
			return err
		}
		if there {
			p.jobs[j.name], p.Jobs[j.name] = true, j.Job
		}
		if there && j.name == "" {
			p.own, p.was = j, rule.Group{Changes: j.changes, Paused: j.Paused, Pauses: j.Pauses, Opened: j.opened()}
			delete(p.Jobs, "")
		}
	}
	p.Group = p.was
	return rows.Err()
}

// put writes what those rules put that are not hidden: no new runs, say, and no attempts.
func (r ledgerRows) put(ctx context.Context, c *conn, p *page) error {
	var all []string
	for _, k := range p.PutRuns() {
		all = append(all, r.ledger.sql.putRun.Render(p.Runs[k].CancelAsked, p.group, k.Job, k.Tick.UnixMicro(), k.Trigger))
	}
	known, absent := p.changed()
	size := func(j jobRow) int { return len(j.Schedule) + len(j.Pauses)*ledgerrows.PausesWidth }
	for part := range pieces(known, claimChunk, size) {
		all = append(all, r.ledger.sql.updateJobs.Render(jobValues(part), p.group))
	}
	for part := range pieces(absent, claimChunk, size) {
		all = append(all, r.ledger.sql.insertJobs.Render(jobValues(part), p.group))
	}
	if p.Forgotten != "" {
		all = append(all, r.ledger.sql.forget.Render(p.group, p.Forgotten), r.ledger.sql.forgetAttempts.Render(p.group, p.Forgotten))
	}
	for _, token := range p.PutTerms() {
		t := p.Terms[token]
		if _, known := p.terms[token]; !known {
			all = append(all, r.archive.sql.insertTerm.Render(p.group, t.Token, t.Owner, t.Began.UnixMicro(), t.Early))
		}
		if !t.Ended.IsZero() {
			all = append(all, r.archive.sql.endTerm.Render(t.Ended.UnixMicro(), t.Why, p.group, t.Token))
		}
	}
	for _, e := range p.NewEntries {
		all = append(all, r.archive.note(p.group, e))
	}
	if n := p.DroppedEntries; n > 0 {
		all = append(all, r.archive.sql.pruneAudit.Render(p.group, p.OldestEntries[n-1].ID))
	}
	if n := p.DroppedTerms; n > 0 {
		all = append(all, r.archive.sql.pruneTerms.Render(p.group, p.OldestTerms[n-1].Token))
	}
	err := c.ExecAll(ctx, all...)
	if mysqlerr.Number(err) == mysqlerr.DuplicateKey {
		return fmt.Errorf("%w: %w", store.ErrChanged, err)
	}
	return err
}

// changed are the jobs that were put, and the group's own row if that has become another one: those whose rows are known, and
// those that have none.
func (p *page) changed() (known, absent []jobRow) {
	var all []jobRow
	if g, own := p.Group, p.own; g.Changes != p.was.Changes || g.Opened != p.was.Opened {
		own.Paused, own.Pauses, own.changes = g.Paused, g.Pauses, g.Changes
		if !p.jobs[""] {
			own.Since, own.ScheduleSince = p.Now, p.Now
		}
		if g.Opened != p.was.Opened {
			own.Schedule, own.ScheduleSince = ledgerrows.FormatOpened(g.Opened), g.Opened.At
		}
		all = append(all, own)
	}
	for _, name := range p.PutJobs() {
		all = append(all, jobRow{Job: p.Jobs[name], name: name})
	}
	for _, j := range all {
		if p.jobs[j.name] {
			known = append(known, j)
		} else {
			absent = append(absent, j)
		}
	}
	return known, absent
}

// jobValues are rows of jobs as the statements that write them take them.
func jobValues(rows []jobRow) sqltext.Values {
	list := make(sqltext.Values, len(rows))
	for i, j := range rows {
		gone := int64(0)
		if !j.Gone.IsZero() {
			gone = j.Gone.UnixMicro()
		}
		list[i] = sqltext.Row{
			j.name, j.Schedule, j.Since.UnixMicro(), j.ScheduleSince.UnixMicro(), j.Paused, j.changes, ledgerrows.FormatPauses(j.Pauses), gone,
		}
	}
	return list
}

// rowsOf runs a query and returns its rows, each as scan reads it.
func rowsOf[T any](ctx context.Context, c *conn, query string, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
