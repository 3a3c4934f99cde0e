package sqlledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// rows are those of the ledger.
type rows struct{ *Ledger }

// Do implements [ledger.Rows].
func (l rows) Do(ctx context.Context, group string, need ledger.Need, f func(*ledger.Tx)) error {
	return l.db.Write(ctx, group, need, func(ctx context.Context, c Conn) error {
		page, err := l.read(ctx, c, group, need)
		if err != nil {
			return err
		}
		was := page.Group
		f(page)
		return c.Run(ctx, l.put(group, was, page))
	})
}

// read returns a page with what is needed.
func (l rows) read(ctx context.Context, c Conn, group string, need ledger.Need) (*ledger.Tx, error) {
	page, err := l.readGroup(ctx, c, group)
	if err != nil {
		return nil, err
	}
	if need.By.Session != "" {
		if page.Fence, err = l.readFence(ctx, c, need.By.Session); err != nil {
			return nil, err
		}
	}
	run := func(r ledger.Run) { page.Runs[r.Key] = r }
	if len(need.Jobs) > 0 {
		names, err := json.Marshal(need.Jobs)
		if err != nil {
			return nil, err
		}
		if err := readJobs(ctx, c, page, l.q.JobsOf, group, string(names)); err != nil {
			return nil, err
		}
	}
	if len(need.Runs) > 0 {
		keys := make([][3]any, len(need.Runs))
		for i, k := range need.Runs {
			keys[i] = [3]any{k.Job, k.Tick.UnixMicro(), k.Trigger}
		}
		list, err := json.Marshal(keys)
		if err != nil {
			return nil, err
		}
		if err := eachRun(ctx, c, l.q.ReadRuns, []any{group, string(list)}, run); err != nil {
			return nil, err
		}
	}
	for key, one := range page.Runs {
		if !need.Args || !one.HasArgs {
			continue
		}
		if one.Args, err = l.readArgs(ctx, c, group, key); err != nil {
			return nil, err
		}
		page.Runs[key] = one
	}
	if need.Requests != "" {
		if err := c.QueryRowContext(ctx, l.q.CountOpen, group, need.Requests).Scan(&page.Open); err != nil {
			return nil, err
		}
		at := cmp.Or(need.At, page.Now).UnixMicro()
		if err := eachRun(ctx, c, l.q.RunsAt, []any{group, need.Requests, at}, run); err != nil {
			return nil, err
		}
	}
	if need.Later != "" {
		later := func(r ledger.Run) { page.Later = append(page.Later, r) }
		if err := eachRun(ctx, c, l.q.RunsLater, []any{group, need.Later, need.After.UnixMicro()}, later); err != nil {
			return nil, err
		}
	}
	return page, errors.Join(l.readTerms(ctx, c, page, group, need), l.readOldest(ctx, c, page, group, need))
}

func (l rows) readFence(ctx context.Context, c Conn, group string) (*store.Fence, error) {
	var f store.Fence
	err := c.QueryRowContext(ctx, l.q.Fence, group).Scan(&f.Owner, (*sqlscan.Uint)(&f.Token))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &f, err
}

func (l rows) readTerms(ctx context.Context, c Conn, page *ledger.Tx, group string, need ledger.Need) error {
	if need.Term == 0 {
		return nil
	}
	return Each(ctx, c, l.q.OpenTerms, []any{group, Number(need.Term)}, func(rows *sql.Rows) error {
		t, err := scanTerm(rows)
		page.Terms[t.Token] = t
		return err
	})
}

func (l rows) readOldest(ctx context.Context, c Conn, page *ledger.Tx, group string, need ledger.Need) error {
	if need.Oldest == 0 {
		return nil
	}
	if err := c.QueryRowContext(ctx, l.q.Had, group).Scan(&page.Entries, &page.TermsInAll); err != nil {
		return err
	}
	err := Each(ctx, c, l.q.Oldest, []any{group, need.Oldest}, func(rows *sql.Rows) error {
		var e jobs.AuditEntry
		var at int64
		err := rows.Scan(&e.ID, &at)
		e.At = Instant(at)
		page.OldestEntries = append(page.OldestEntries, e)
		return err
	})
	return errors.Join(err, Each(ctx, c, l.q.FirstTerms, []any{group, need.Oldest}, func(rows *sql.Rows) error {
		t, err := scanTerm(rows)
		page.OldestTerms = append(page.OldestTerms, t)
		return err
	}))
}

// put returns the statements that write what was put. The group's own row comes last: triggers may have counted changes.
func (l rows) put(group string, was ledger.Group, page *ledger.Tx) []Statement {
	w := writes{group: group}
	for _, one := range page.Rekeyed {
		w.add(l.q.Rekey, key(one.Was), one.Tick.UnixMicro(), Number(one.Trigger), one.ID[:], micros(one.Finished), one.Missed)
		w.add(l.q.Rewind, one.Job, int64(math.MinInt64))
		w.add(l.q.DropCursor, one.Job, int64(math.MinInt64))
	}
	for _, k := range page.PutRuns() {
		w.add(l.q.PutRun, runRow(page.Runs[k])...)
	}
	for _, a := range page.Attempts {
		w.add(l.q.Keep, key(a.Key), a.Number, int(a.State), a.Owner, Number(a.Token), micros(a.Started), micros(a.Finished), []byte(a.Error), orEmpty(a.Output))
		w.add(l.q.Drop, key(a.Key), a.Number-jobs.MaxAttempts)
	}
	for _, name := range page.PutJobs() {
		k := page.Jobs[name]
		w.add(l.q.PutJob, name, k.Schedule, k.Since.UnixMicro(), k.ScheduleSince.UnixMicro(), micros(k.Gone))
		if page.Group.Changes != was.Changes {
			w.add(l.q.SetPaused, name, k.Paused, ledgerrows.FormatPauses(k.Pauses))
		}
	}
	for _, name := range page.Judged() {
		k := page.Jobs[name]
		w.add(l.q.Judge, name, micros(k.Started), micros(k.Finished), k.Failing)
	}
	if page.Forgotten != "" {
		w.add(l.q.Forget, page.Forgotten)
	}
	if g := page.Group; g.Opened != was.Opened {
		at := g.Opened.At.UnixMicro()
		w.add(l.q.PutJob, "", ledgerrows.FormatOpened(g.Opened), at, at, nil)
	}
	if g := page.Group; g.Changes != was.Changes {
		w.add(l.q.PutGroup, int64(g.Changes), g.Paused, ledgerrows.FormatPauses(g.Pauses))
	}
	for _, e := range page.NewEntries {
		w.add(l.q.Note, entryRow(e)...)
	}
	for _, token := range page.PutTerms() {
		t := page.Terms[token]
		w.add(l.q.PutTerm, Number(t.Token), t.Owner, t.Began.UnixMicro(), micros(t.Ended), t.Early, t.Why)
	}
	for _, e := range page.OldestEntries[:page.DroppedEntries] {
		w.add(l.q.DropEntry, Number(e.ID))
	}
	for _, t := range page.OldestTerms[:page.DroppedTerms] {
		w.add(l.q.DropTerm, Number(t.Token))
	}
	return w.all
}

// writes are statements about a group.
type writes struct {
	group string
	all   []Statement
}

// add adds a statement whose first parameter is the group. A key among the others is three of them.
func (w *writes) add(text string, args ...any) {
	if text == "" {
		return // the tables do it
	}
	all := append(make([]any, 0, len(args)+3), w.group)
	for _, arg := range args {
		if k, ok := arg.(key); ok {
			all = append(all, k.Job, k.Tick.UnixMicro(), Number(k.Trigger))
		} else {
			all = append(all, arg)
		}
	}
	w.all = append(w.all, Statement{text, all})
}

type key jobs.Key

// runRow are the parameters of PutRun. Errors are of any bytes.
func runRow(r ledger.Run) []any {
	id := r.ID[:]
	if r.ID == (store.ClaimID{}) {
		id = []byte{} // as all rows that no claim has written
	}
	var verdict, args, backfill, details any // NULL
	if r.Verdict != store.NoVerdict {
		verdict = int(r.Verdict)
	}
	if r.Args != nil {
		args = []byte(r.Args)
	}
	if r.Backfill != "" {
		backfill = r.Backfill
	}
	if text := ledgerrows.FormatDetails(r.Details); text != "" {
		details = text
	}
	return []any{
		key(r.Key), id, int(r.State), r.Owner, Number(r.Token), r.Attempt, r.Claimed.UnixMicro(), micros(r.Started), micros(r.Finished), micros(r.Due),
		r.Missed, []byte(r.Error), r.CancelAsked, verdict, args, backfill, details,
	}
}
