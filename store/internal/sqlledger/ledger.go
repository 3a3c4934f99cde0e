package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// write runs f as do does, one at a time. Connections that wait for SQLite's lock
// poll, and get it in no order: with 1,000 writes at once a heartbeat waited for
// 4.4 s, and waits for 0.04 s like this.
func (s *Store) write(ctx context.Context, action string, f func(ctx context.Context, c *sql.Conn, of opened) error) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return fmt.Errorf("sqlitestore: %s: wait for other writes: %w", action, ctx.Err())
	}
	return s.do(ctx, action, f)
}

// writeRow runs a statement and returns how many rows matched.
func (s *Store) writeRow(ctx context.Context, action, statement string, args ...any) (n int64, err error) {
	err = s.write(ctx, action, func(ctx context.Context, c *sql.Conn, _ opened) error {
		n, err = exec(ctx, c, statement, args...)
		return err
	})
	return n, err
}

// Load implements [jobs.Control]. All that it reads is of one instant.
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return s.load(ctx, group, "", s.runs.jobs, group)
}

// Open implements [store.Spreads].
func (s *Store) Open(ctx context.Context, group, owner string) (jobs.Snapshot, error) {
	snapshot, err := s.load(ctx, group, owner, "")
	snapshot.Jobs, snapshot.Pauses = nil, nil
	return snapshot, err
}

// load runs a query of jobs, if there is one, and reads what else there is to know of the group. With an owner, it reads
// the open runs of that one alone.
func (s *Store) load(ctx context.Context, group, owner, query string, args ...any) (jobs.Snapshot, error) {
	var snapshot jobs.Snapshot
	err := s.do(ctx, "load ledger", func(ctx context.Context, c *sql.Conn, of opened) error {
		return inReadTx(ctx, c, func(tx *sql.Tx) error {
			page, err := s.readGroup(ctx, tx, of, group)
			if err != nil {
				return err
			}
			if query != "" {
				if err := readJobs(ctx, tx, page, query, args...); err != nil {
					return err
				}
			}
			runs, of := s.runs.openRuns, []any{group}
			if owner != "" {
				runs, of = s.runs.openRunsOf, append(of, owner)
			}
			open, err := records(ctx, tx, runs, of...)
			snapshot = page.Snapshot(open)
			return err
		})
	})
	if err != nil {
		return jobs.Snapshot{}, err
	}
	return snapshot, nil
}

// readGroup begins a page with the group's own row.
func (s *Store) readGroup(ctx context.Context, q querier, of opened, group string) (*ledger.Tx, error) {
	var (
		now                int64
		file, pauses       string
		g                  ledger.Group
		owner, opened      sql.NullString
		token, openedSince sql.NullInt64
	)
	err := q.QueryRowContext(ctx, s.runs.group, group).Scan(&now, &file, (*sqlscan.Uint)(&g.Changes), &g.Paused, &pauses, &owner, &token, &opened, &openedSince)
	if err != nil {
		return nil, err
	}
	g.Pauses = ledgerrows.ParsePauses(pauses, g.Paused)
	g.Opened = ledgerrows.ParseOpened(opened.String, instant(openedSince.Int64))
	page := ledger.NewTx(instant(now), serverOf(file, of))
	page.Group = g
	if owner.Valid {
		page.Fence = &store.Fence{Owner: owner.String, Token: uint64(token.Int64)}
	}
	return page, nil
}

// readJobs adds the jobs of a query to a page.
func readJobs(ctx context.Context, q querier, page *ledger.Tx, query string, args ...any) error {
	return each(ctx, q, query, args, func(rows *sql.Rows) error {
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
			page.Newest[name] = instant(cursor.Int64)
		}
		if is {
			known.Since, known.ScheduleSince = instant(since), instant(ruling)
			known.Started, known.Finished, known.Gone = instantOrZero(started), instantOrZero(finished), instantOrZero(gone)
			known.Pauses = ledgerrows.ParsePauses(pauses, known.Paused)
			page.Jobs[name] = known
		}
		return err
	})
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (changes store.Changes, err error) {
	err = s.do(ctx, "read changes", func(ctx context.Context, c *sql.Conn, of opened) error {
		page, err := s.readGroup(ctx, c, of, group)
		if err == nil {
			changes = store.Changes{Number: page.Group.Changes, Now: page.Now, Server: page.Server}
		}
		return err
	})
	return changes, err
}

// querier is what runs a query: a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// eachRun runs a statement that returns runs, to its end: before, a write has not
// taken effect.
func eachRun(ctx context.Context, q querier, statement string, args []any, f func(ledger.Run)) error {
	return each(ctx, q, statement, args, func(rows *sql.Rows) error {
		var (
			r                      ledger.Run
			claim                  []byte
			tick, claimed          int64
			started, finished, due sql.NullInt64
		)
		err := rows.Scan(&r.Job, &tick, (*sqlscan.Uint)(&r.Trigger), &claim, &r.State, &r.Owner, (*sqlscan.Uint)(&r.Token), (*sqlscan.Count)(&r.Attempt),
			&claimed, &started, &finished, &due, (*sqlscan.Count)(&r.Missed), &r.Error, &r.CancelAsked, &r.HasArgs, &r.Backfill, (*sqlscan.Details)(&r.Details))
		copy(r.ID[:], claim)
		r.Tick, r.Claimed = instant(tick), instant(claimed)
		r.Started, r.Finished, r.Due = instantOrZero(started), instantOrZero(finished), instantOrZero(due)
		f(r)
		return err
	})
}

func records(ctx context.Context, q querier, query string, args ...any) ([]jobs.Record, error) {
	var all []jobs.Record
	err := eachRun(ctx, q, query, args, func(r ledger.Run) { all = append(all, r.Record) })
	return all, err
}

// Args implements [jobs.Control].
func (s *Store) Args(ctx context.Context, group string, key jobs.Key) (args json.RawMessage, err error) {
	if !ledgerrows.CanBe(key) {
		return nil, ledgerrows.NoRun(group, key)
	}
	err = s.do(ctx, "read arguments", func(ctx context.Context, c *sql.Conn, _ opened) error {
		args, err = s.readArgs(ctx, c, group, key)
		if errors.Is(err, sql.ErrNoRows) {
			return ledgerrows.NoRun(group, key)
		}
		return err
	})
	return args, err
}

func (s *Store) readArgs(ctx context.Context, q querier, group string, key jobs.Key) (args []byte, err error) {
	err = q.QueryRowContext(ctx, s.runs.args, group, key.Job, key.Tick.UnixMicro(), int64(key.Trigger)).Scan(&args)
	return args, err
}

func instantOrZero(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return instant(micros.Int64)
}

// number is n as the tables have it, or a number that they do not have.
func number(n uint64) int64 {
	if tooLarge(n) {
		return -1
	}
	return int64(n)
}
