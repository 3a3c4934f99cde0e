package sqlledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// Load implements [jobs.Control]. All that it reads is of one instant.
func (l *Ledger) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return l.load(ctx, group, "", l.q.Jobs, group)
}

// Open implements [store.Spreads].
func (l *Ledger) Open(ctx context.Context, group, owner string) (jobs.Snapshot, error) {
	snapshot, err := l.load(ctx, group, owner, "")
	snapshot.Jobs, snapshot.Pauses = nil, nil
	return snapshot, err
}

// load runs a query of jobs, if there is one, and reads what else there is to know of the group. With an owner, it reads
// the open runs of that one alone.
func (l *Ledger) load(ctx context.Context, group, owner, query string, args ...any) (jobs.Snapshot, error) {
	var snapshot jobs.Snapshot
	err := l.db.ReadOnce(ctx, "load ledger", func(ctx context.Context, c Conn) error {
		page, err := l.readGroup(ctx, c, group)
		if err != nil {
			return err
		}
		if query != "" {
			if err := readJobs(ctx, c, page, query, args...); err != nil {
				return err
			}
		}
		runs, of := l.q.OpenRuns, []any{group}
		if owner != "" {
			runs, of = l.q.OpenRunsOf, append(of, owner)
		}
		open, err := records(ctx, c, runs, of...)
		snapshot = page.Snapshot(open)
		return err
	})
	if err != nil {
		return jobs.Snapshot{}, err
	}
	return snapshot, nil
}

// readGroup begins a page with the group's own row.
func (l *Ledger) readGroup(ctx context.Context, c Conn, group string) (*ledger.Tx, error) {
	var (
		now                int64
		server, pauses     string
		g                  ledger.Group
		owner, opened      sql.NullString
		token, openedSince sql.NullInt64
	)
	err := c.QueryRowContext(ctx, l.q.Group, group).Scan(&now, &server, (*sqlscan.Uint)(&g.Changes), &g.Paused, &pauses, &owner, &token, &opened, &openedSince)
	if err != nil {
		return nil, err
	}
	g.Pauses = ledgerrows.ParsePauses(pauses, g.Paused)
	g.Opened = ledgerrows.ParseOpened(opened.String, Instant(openedSince.Int64))
	page := ledger.NewTx(Instant(now), c.Server(server))
	page.Group = g
	if owner.Valid {
		page.Fence = &store.Fence{Owner: owner.String, Token: uint64(token.Int64)}
	}
	return page, nil
}

// readJobs adds the jobs of a query to a page.
func readJobs(ctx context.Context, c Conn, page *ledger.Tx, query string, args ...any) error {
	return Each(ctx, c, query, args, func(rows *sql.Rows) error {
		var (
			name, pauses            string
			is                      bool
			known                   ledger.Job
			since, ruling           int64
			started, finished, gone sql.NullInt64
			cursor                  sql.NullInt64
		)
		err := rows.Scan(&name, &is, &known.Schedule, &since, &ruling, &known.Paused, &pauses, &started, &finished, &gone, &known.Failing, &cursor)
		if cursor.Valid {
			page.Newest[name] = Instant(cursor.Int64)
		}
		if is {
			known.Since, known.ScheduleSince = Instant(since), Instant(ruling)
			known.Started, known.Finished, known.Gone = instantOrZero(started), instantOrZero(finished), instantOrZero(gone)
			known.Pauses = ledgerrows.ParsePauses(pauses, known.Paused)
			page.Jobs[name] = known
		}
		return err
	})
}

// Changes implements [store.Ledger].
func (l *Ledger) Changes(ctx context.Context, group string) (changes store.Changes, err error) {
	err = l.db.Read(ctx, "read changes", func(ctx context.Context, c Conn) error {
		page, err := l.readGroup(ctx, c, group)
		if err == nil {
			changes = store.Changes{Number: page.Group.Changes, Now: page.Now, Server: page.Server}
		}
		return err
	})
	return changes, err
}

func eachRun(ctx context.Context, c Conn, query string, args []any, f func(ledger.Run)) error {
	return Each(ctx, c, query, args, func(rows *sql.Rows) error {
		var (
			r                      ledger.Run
			claim                  []byte
			tick, claimed          int64
			started, finished, due sql.NullInt64
		)
		err := rows.Scan(&r.Job, &tick, (*sqlscan.Uint)(&r.Trigger), &claim, &r.State, &r.Owner, (*sqlscan.Uint)(&r.Token), (*sqlscan.Count)(&r.Attempt),
			&claimed, &started, &finished, &due, (*sqlscan.Count)(&r.Missed), &r.Error, &r.CancelAsked, &r.HasArgs, &r.Backfill, (*sqlscan.Details)(&r.Details))
		copy(r.ID[:], claim)
		r.Tick, r.Claimed = Instant(tick), Instant(claimed)
		r.Started, r.Finished, r.Due = instantOrZero(started), instantOrZero(finished), instantOrZero(due)
		f(r)
		return err
	})
}

func records(ctx context.Context, c Conn, query string, args ...any) ([]jobs.Record, error) {
	var all []jobs.Record
	err := eachRun(ctx, c, query, args, func(r ledger.Run) { all = append(all, r.Record) })
	return all, err
}

// Args implements [jobs.Control].
func (l *Ledger) Args(ctx context.Context, group string, key jobs.Key) (args json.RawMessage, err error) {
	if !ledgerrows.CanBe(key) {
		return nil, ledgerrows.NoRun(group, key)
	}
	err = l.db.Read(ctx, "read arguments", func(ctx context.Context, c Conn) error {
		args, err = l.readArgs(ctx, c, group, key)
		if errors.Is(err, sql.ErrNoRows) {
			return ledgerrows.NoRun(group, key)
		}
		return err
	})
	return args, err
}

func (l *Ledger) readArgs(ctx context.Context, c Conn, group string, key jobs.Key) (args []byte, err error) {
	err = c.QueryRowContext(ctx, l.q.Args, group, key.Job, key.Tick.UnixMicro(), int64(key.Trigger)).Scan(&args)
	return args, err
}
