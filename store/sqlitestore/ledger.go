package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// ledgerBatch is how many rows one statement writes at most, so that it is over
// soon: heartbeats wait for it.
const ledgerBatch = 500

// write runs f as do does, one at a time. What waits for SQLite's lock polls, and
// gets it in no order: with 1,000 writes at once a heartbeat waited for 4.4 s, and
// waits for 0.04 s like this.
func (s *Store) write(ctx context.Context, action string, f func(ctx context.Context, c *sql.Conn) error) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return fmt.Errorf("sqlitestore: %s: wait for other writes: %w", action, ctx.Err())
	}
	return s.do(ctx, action, func(ctx context.Context, c *sql.Conn, _ opened) error { return f(ctx, c) })
}

// Declare implements [jobs.Ledger]. Up to 500 jobs are one statement; more are
// several.
func (s *Store) Declare(ctx context.Context, h jobs.Holder, declared []jobs.Declared) error {
	rows := make([][2]string, len(declared))
	for i, d := range declared {
		if err := lease.CheckName("job", d.Name); err != nil {
			return err
		}
		if !utf8.ValidString(d.Schedule) {
			return fmt.Errorf("sqlitestore: job %q: its schedule %q: not UTF-8", d.Name, d.Schedule)
		}
		rows[i] = [2]string{d.Name, d.Schedule}
	}
	current := false
	err := s.write(ctx, "declare jobs", func(ctx context.Context, c *sql.Conn) error {
		for len(rows) > 0 {
			n := min(ledgerBatch, len(rows))
			list, err := json.Marshal(rows[:n])
			if err != nil {
				return err
			}
			if _, err := exec(ctx, c, s.runs.declare, string(list), h.Group, h.Owner, number(h.Token)); err != nil {
				return err
			}
			rows = rows[n:]
		}
		var err error
		current, err = s.current(ctx, c, h)
		return err
	})
	if err == nil && !current {
		return jobs.ErrReplaced
	}
	return err
}

// current reports whether h is the group's holder. Who is not will never be
// again.
func (s *Store) current(ctx context.Context, c *sql.Conn, h jobs.Holder) (bool, error) {
	var is bool
	err := c.QueryRowContext(ctx, s.runs.current, h.Group, h.Owner, number(h.Token)).Scan(&is)
	return is, err
}

// Load implements [jobs.Ledger]. All that it reads is of one instant.
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	var snapshot jobs.Snapshot
	err := s.do(ctx, "load ledger", func(ctx context.Context, c *sql.Conn, _ opened) (err error) {
		tx, err := c.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() {
			if undo := tx.Rollback(); !errors.Is(undo, sql.ErrTxDone) {
				err = errors.Join(err, undo)
			}
		}()
		var now int64
		if err := tx.QueryRowContext(ctx, s.runs.group, group).Scan(&now, &snapshot.Changes, &snapshot.Paused); err != nil {
			return err
		}
		snapshot.Now = instant(now)
		if snapshot.Jobs, err = s.loadJobs(ctx, tx, group); err != nil {
			return err
		}
		snapshot.Open, err = records(ctx, tx, s.runs.openRuns, group)
		return err
	})
	if err != nil {
		return jobs.Snapshot{}, err
	}
	snapshot.CountStarts()
	return snapshot, nil
}

func (s *Store) loadJobs(ctx context.Context, tx *sql.Tx, group string) (_ map[string]jobs.Known, err error) {
	rows, err := tx.QueryContext(ctx, s.runs.jobs, group)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all := map[string]jobs.Known{}
	for rows.Next() {
		var (
			name                      string
			k                         jobs.Known
			since, ruling             int64
			started, finished, cursor sql.NullInt64
		)
		if err := rows.Scan(&name, &k.Schedule, &since, &ruling, &k.Paused, &started, &finished, &cursor); err != nil {
			return nil, err
		}
		k.Since, k.ScheduleSince = instant(since), instant(ruling)
		k.Started, k.Finished, k.Cursor = instantOrZero(started), instantOrZero(finished), instantOrZero(cursor)
		all[name] = k
	}
	return all, rows.Err()
}

// Changes implements [jobs.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (uint64, error) {
	var changes uint64
	err := s.do(ctx, "read changes", func(ctx context.Context, c *sql.Conn, _ opened) error {
		var now, paused int64
		return c.QueryRowContext(ctx, s.runs.group, group).Scan(&now, &changes, &paused)
	})
	return changes, err
}

// run is a record with the claim that wrote it.
type run struct {
	jobs.Record
	claim string
}

// querier is what runs a query: a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// eachRun runs a statement that returns runs, to its end: before, a write has not
// taken effect.
func eachRun(ctx context.Context, q querier, statement string, args []any, f func(run)) (err error) {
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var (
			r                      run
			claim                  []byte
			tick, claimed          int64
			started, finished, due sql.NullInt64
		)
		err := rows.Scan(&r.Job, &tick, &r.Trigger, &claim, &r.State, &r.Owner, &r.Token, &r.Attempt,
			&claimed, &started, &finished, &due, &r.Missed, &r.Error, &r.CancelAsked)
		if err != nil {
			return err
		}
		r.claim, r.Tick, r.Claimed = string(claim), instant(tick), instant(claimed)
		r.Started, r.Finished, r.Due = instantOrZero(started), instantOrZero(finished), instantOrZero(due)
		f(r)
	}
	return rows.Err()
}

func records(ctx context.Context, q querier, query string, args ...any) ([]jobs.Record, error) {
	var all []jobs.Record
	err := eachRun(ctx, q, query, args, func(r run) { all = append(all, r.Record) })
	return all, err
}

// readRuns adds those runs of the keys that are there and not in runs yet.
func (s *Store) readRuns(ctx context.Context, c *sql.Conn, group string, keys []jobs.Key, runs map[jobs.Key]run) error {
	var missing [][3]any
	for _, k := range keys {
		if _, ok := runs[k]; !ok {
			missing = append(missing, [3]any{k.Job, k.Tick.UnixMicro(), k.Trigger})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	list, err := json.Marshal(missing)
	if err != nil {
		return err
	}
	return eachRun(ctx, c, s.runs.readRuns, []any{string(list), group}, func(r run) { runs[r.Key] = r })
}

// checkKey reports a key that the table would not keep as it is.
func checkKey(k jobs.Key) error {
	if err := lease.CheckName("job", k.Job); err != nil {
		return err
	}
	if !instant(k.Tick.UnixMicro()).Equal(k.Tick) {
		return fmt.Errorf("sqlitestore: job %q: tick %v: must be of whole microseconds", k.Job, k.Tick)
	}
	if tooLarge(k.Trigger) {
		return fmt.Errorf("sqlitestore: job %q: trigger %d: at most %d", k.Job, k.Trigger, int64(math.MaxInt64))
	}
	return nil
}

// plain is the key as it is read back.
func plain(k jobs.Key) jobs.Key {
	k.Tick = instant(k.Tick.UnixMicro())
	return k
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

// errorText is an error's text for a JSON list: bounded, at the end of a
// character, and in hexadecimal, for it may not be UTF-8.
func errorText(text string) string {
	return hex.EncodeToString([]byte(jobs.CutError(text)))
}
