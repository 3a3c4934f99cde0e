package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// rules are the methods that write to a ledger.
type rules = ledger.Ledger

// rows are those of the ledger.
type rows struct{ *Store }

// Do implements [ledger.Rows].
func (r rows) Do(ctx context.Context, group string, need ledger.Need, f func(*ledger.Tx)) error {
	return r.write(ctx, need.Doing, func(ctx context.Context, c *sql.Conn, of opened) error {
		return inTx(ctx, c, func(tx *sql.Tx) error {
			// From here on nothing is waited for. To watch a context takes as long as to write a row.
			ctx := context.WithoutCancel(ctx)
			page, err := r.read(ctx, tx, of, group, need)
			if err != nil {
				return err
			}
			was := page.Group
			f(page)
			return r.put(ctx, tx, group, was, page)
		})
	})
}

// read returns a page with what is needed.
func (r rows) read(ctx context.Context, tx *sql.Tx, of opened, group string, need ledger.Need) (*ledger.Tx, error) {
	page, err := r.readGroup(ctx, tx, of, group)
	if err != nil {
		return nil, err
	}
	if need.By.Session != "" {
		if page.Fence, err = r.readFence(ctx, tx, need.By.Session); err != nil {
			return nil, err
		}
	}
	run := func(r ledger.Run) { page.Runs[r.Key] = r }
	if len(need.Jobs) > 0 {
		names, err := json.Marshal(need.Jobs)
		if err != nil {
			return nil, err
		}
		if err := readJobs(ctx, tx, page, r.runs.jobsOf, group, string(names)); err != nil {
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
		if err := eachRun(ctx, tx, r.runs.readRuns, []any{string(list), group}, run); err != nil {
			return nil, err
		}
	}
	for key, one := range page.Runs {
		if !need.Args || !one.HasArgs {
			continue
		}
		if one.Args, err = r.readArgs(ctx, tx, group, key); err != nil {
			return nil, err
		}
		page.Runs[key] = one
	}
	if need.Requests != "" {
		if err := tx.QueryRowContext(ctx, r.runs.countOpen, group, need.Requests).Scan(&page.Open); err != nil {
			return nil, err
		}
		at := cmp.Or(need.At, page.Now).UnixMicro()
		if err := eachRun(ctx, tx, r.runs.runsAt, []any{group, need.Requests, at}, run); err != nil {
			return nil, err
		}
	}
	if need.Later != "" {
		later := func(r ledger.Run) { page.Later = append(page.Later, r) }
		if err := eachRun(ctx, tx, r.runs.runsLater, []any{group, need.Later, need.After.UnixMicro()}, later); err != nil {
			return nil, err
		}
	}
	return page, errors.Join(r.readTerms(ctx, tx, page, group, need), r.readOldest(ctx, tx, page, group, need))
}

func (r rows) readFence(ctx context.Context, tx *sql.Tx, group string) (*store.Fence, error) {
	var f store.Fence
	err := tx.QueryRowContext(ctx, r.runs.fence, group).Scan(&f.Owner, (*sqlscan.Uint)(&f.Token))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &f, err
}

func (r rows) readTerms(ctx context.Context, tx *sql.Tx, page *ledger.Tx, group string, need ledger.Need) error {
	if need.Term == 0 {
		return nil
	}
	return each(ctx, tx, r.archive.openTerms, []any{group, number(need.Term)}, func(rows *sql.Rows) error {
		t, err := scanTerm(rows)
		page.Terms[t.Token] = t
		return err
	})
}

func (r rows) readOldest(ctx context.Context, tx *sql.Tx, page *ledger.Tx, group string, need ledger.Need) error {
	if need.Oldest == 0 {
		return nil
	}
	if err := tx.QueryRowContext(ctx, r.archive.had, group).Scan(&page.Entries, &page.TermsInAll); err != nil {
		return err
	}
	err := each(ctx, tx, r.archive.oldest, []any{group, need.Oldest}, func(rows *sql.Rows) error {
		var e jobs.AuditEntry
		var at int64
		err := rows.Scan(&e.ID, &at)
		e.At = instant(at)
		page.OldestEntries = append(page.OldestEntries, e)
		return err
	})
	return errors.Join(err, each(ctx, tx, r.archive.firstTerms, []any{group, need.Oldest}, func(rows *sql.Rows) error {
		t, err := scanTerm(rows)
		page.OldestTerms = append(page.OldestTerms, t)
		return err
	}))
}

// put writes what was put. Triggers of the tables write what the end of a run says of its job. They count changes, too,
// so the group's own row comes last.
func (r rows) put(ctx context.Context, tx *sql.Tx, group string, was ledger.Group, page *ledger.Tx) error {
	w := writer{ctx: ctx, tx: tx, group: group}
	for _, one := range page.Rekeyed {
		w.run(r.runs.rekey, key(one.Was), one.Tick.UnixMicro(), number(one.Trigger), one.ID[:], micros(one.Finished), one.Missed)
		w.run(r.runs.rewind, one.Job, int64(math.MinInt64))
		w.run(r.runs.dropCursor, one.Job, int64(math.MinInt64))
	}
	for _, k := range page.PutRuns() {
		w.run(r.runs.putRun, runRow(page.Runs[k])...)
	}
	for _, a := range page.Attempts {
		w.run(r.archive.keep, key(a.Key), a.Number, int(a.State), a.Owner, number(a.Token), micros(a.Started), micros(a.Finished), a.Error, orEmpty(a.Output))
		w.run(r.archive.drop, key(a.Key), a.Number-jobs.MaxAttempts)
	}
	for _, name := range page.PutJobs() {
		k := page.Jobs[name]
		w.run(r.runs.putJob, name, k.Schedule, k.Since.UnixMicro(), k.ScheduleSince.UnixMicro(), micros(k.Gone))
		if page.Group.Changes != was.Changes {
			w.run(r.runs.setPaused, name, k.Paused, ledgerrows.FormatPauses(k.Pauses))
		}
	}
	if page.Forgotten != "" {
		w.run(r.runs.forget, page.Forgotten)
	}
	if g := page.Group; g.Opened != was.Opened {
		at := g.Opened.At.UnixMicro()
		w.run(r.runs.putJob, "", ledgerrows.FormatOpened(g.Opened), at, at, nil)
	}
	if g := page.Group; g.Changes != was.Changes {
		w.run(r.runs.putGroup, int64(g.Changes), g.Paused, ledgerrows.FormatPauses(g.Pauses))
	}
	for _, e := range page.NewEntries {
		w.run(r.archive.note, entryRow(e)...)
	}
	for _, token := range page.PutTerms() {
		t := page.Terms[token]
		w.run(r.archive.putTerm, number(t.Token), t.Owner, t.Began.UnixMicro(), micros(t.Ended), t.Early, t.Why)
	}
	for _, e := range page.OldestEntries[:page.DroppedEntries] {
		w.run(r.archive.dropEntry, number(e.ID))
	}
	for _, t := range page.OldestTerms[:page.DroppedTerms] {
		w.run(r.archive.dropTerm, number(t.Token))
	}
	return w.err
}

// writer runs statements about a group until one fails.
type writer struct {
	ctx   context.Context
	tx    *sql.Tx
	group string
	err   error
}

// run runs a statement whose first parameter is the group. A key among the others is three of them.
func (w *writer) run(statement string, args ...any) {
	if w.err != nil {
		return
	}
	all := make([]any, 1, len(args)+3)
	all[0] = w.group
	for _, arg := range args {
		if k, ok := arg.(key); ok {
			all = append(all, k.Job, k.Tick.UnixMicro(), number(k.Trigger))
		} else {
			all = append(all, arg)
		}
	}
	_, w.err = w.tx.ExecContext(w.ctx, statement, all...)
}

type key jobs.Key

// runRow are the parameters of putRun.
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
		key(r.Key), id, int(r.State), r.Owner, number(r.Token), r.Attempt, r.Claimed.UnixMicro(), micros(r.Started), micros(r.Finished), micros(r.Due),
		r.Missed, r.Error, r.CancelAsked, verdict, args, backfill, details,
	}
}

// orEmpty is a value of a column that takes no NULL.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// micros is an instant as the tables have it, or NULL.
func micros(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UnixMicro()
}
