package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// ledgerBatch is how many rows one statement writes at most, so that it is over
// soon: heartbeats wait for it.
const ledgerBatch = 500

// lastMicro is later than every present, in microseconds since 1970.
const lastMicro int64 = 253402300799_000000

// write runs f as do does, one at a time. Connections that wait for SQLite's lock
// poll, and get it in no order: with 1,000 writes at once a heartbeat waited for
// 4.4 s, and waits for 0.04 s like this.
func (s *Store) write(ctx context.Context, action string, f func(ctx context.Context, c *sql.Conn) error) error {
	return s.writeAs(ctx, action, store.Holder{}, f)
}

// writeAs is write for a holder, whose server is compared.
func (s *Store) writeAs(ctx context.Context, action string, h store.Holder, f func(ctx context.Context, c *sql.Conn) error) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return fmt.Errorf("sqlitestore: %s: wait for other writes: %w", action, ctx.Err())
	}
	return s.do(ctx, action, func(ctx context.Context, c *sql.Conn, of opened) error {
		if h.Server != "" {
			var file string
			if err := c.QueryRowContext(ctx, s.locking.file).Scan(&file); err != nil {
				return err
			}
			if serverOf(file, of) != h.Server {
				return store.ErrOtherServer
			}
		}
		return f(ctx, c)
	})
}

// Declare implements [store.Ledger]. Up to 500 jobs are one statement; more are
// several.
func (s *Store) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	rows := make([][3]any, len(declared), len(declared)+1)
	for i, d := range declared {
		if err := store.CheckName("job", d.Name); err != nil {
			return err
		}
		if !utf8.ValidString(d.Schedule) {
			return fmt.Errorf("sqlitestore: job %q: its schedule %q: not UTF-8", d.Name, d.Schedule)
		}
		from := lastMicro // later than any present
		if !d.From.IsZero() {
			from = d.From.UnixMicro()
		}
		rows[i] = [3]any{d.Name, d.Schedule, from}
	}
	// The group's own row comes last: it says that the others are declared.
	rows = append(rows, [3]any{"", strconv.FormatUint(h.Token, 10), lastMicro})
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
		return store.ErrReplaced
	}
	return err
}

// current reports whether h is the group's holder. A holder that was replaced
// never is the holder again.
func (s *Store) current(ctx context.Context, c *sql.Conn, h store.Holder) (bool, error) {
	var is bool
	err := c.QueryRowContext(ctx, s.runs.current, h.Group, h.Owner, number(h.Token)).Scan(&is)
	return is, err
}

// Load implements [jobs.Control]. All that it reads is of one instant.
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return s.load(ctx, group, s.runs.jobs, group)
}

// load runs a query of jobs, and reads what else there is to know of the group.
func (s *Store) load(ctx context.Context, group, query string, args ...any) (jobs.Snapshot, error) {
	var snapshot jobs.Snapshot
	err := s.do(ctx, "load ledger", func(ctx context.Context, c *sql.Conn, of opened) error {
		return inReadTx(ctx, c, func(tx *sql.Tx) (err error) {
			var now int64
			var file, pauses string
			if err := tx.QueryRowContext(ctx, s.runs.group, group).Scan(&now, &file, (*sqlscan.Uint)(&snapshot.Changes), &snapshot.Paused, &pauses); err != nil {
				return err
			}
			snapshot = jobs.Snapshot{
				Now: instant(now), Server: serverOf(file, of), Changes: snapshot.Changes, Paused: snapshot.Paused,
				Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{},
			}
			if snapshot.Opened, err = s.lastOpened(ctx, tx, group); err != nil {
				return err
			}
			addPauses(snapshot, "", pauses, snapshot.Paused)
			if err = loadJobs(ctx, tx, query, args, snapshot); err != nil {
				return err
			}
			snapshot.Open, err = records(ctx, tx, s.runs.openRuns, group)
			return err
		})
	})
	if err != nil {
		return jobs.Snapshot{}, err
	}
	ledgerrows.CountStarts(snapshot)
	return snapshot, nil
}

// lastOpened reads which term declared its jobs last.
func (s *Store) lastOpened(ctx context.Context, tx *sql.Tx, group string) (jobs.Opened, error) {
	var (
		token string
		at    int64
	)
	err := tx.QueryRowContext(ctx, s.runs.opened, group).Scan(&token, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return jobs.Opened{}, nil
	}
	if err != nil {
		return jobs.Opened{}, err
	}
	// A value that another program has written there counts as no term: one row
	// must not keep the group from its jobs.
	if n, err := strconv.ParseUint(token, 10, 64); err == nil {
		return jobs.Opened{Token: n, At: instant(at)}, nil
	}
	return jobs.Opened{}, nil
}

func addPauses(to jobs.Snapshot, job, pauses string, paused bool) {
	if all := ledgerrows.ParsePauses(pauses, paused); len(all) > 0 {
		to.Pauses[job] = all
	}
}

func loadJobs(ctx context.Context, tx *sql.Tx, query string, args []any, into jobs.Snapshot) (err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var (
			name, pauses              string
			k                         jobs.Known
			since, ruling             int64
			started, finished, cursor sql.NullInt64
			gone                      sql.NullInt64
		)
		if err := rows.Scan(&name, &k.Schedule, &since, &ruling, &k.Paused, &pauses, &started, &finished, &gone, &k.Failing, &cursor); err != nil {
			return err
		}
		k.Since, k.ScheduleSince = instant(since), instant(ruling)
		k.Started, k.Finished, k.Cursor = instantOrZero(started), instantOrZero(finished), instantOrZero(cursor)
		k.Gone = instantOrZero(gone)
		into.Jobs[name] = k
		addPauses(into, name, pauses, k.Paused)
	}
	return rows.Err()
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (store.Changes, error) {
	var changes store.Changes
	err := s.do(ctx, "read changes", func(ctx context.Context, c *sql.Conn, of opened) error {
		var now, paused int64
		var file, pauses string
		err := c.QueryRowContext(ctx, s.runs.group, group).Scan(&now, &file, (*sqlscan.Uint)(&changes.Number), &paused, &pauses)
		changes.Now, changes.Server = instant(now), serverOf(file, of)
		return err
	})
	if err != nil {
		return store.Changes{}, err
	}
	return changes, nil
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
		err := rows.Scan(&r.Job, &tick, (*sqlscan.Uint)(&r.Trigger), &claim, &r.State, &r.Owner, (*sqlscan.Uint)(&r.Token), (*sqlscan.Count)(&r.Attempt),
			&claimed, &started, &finished, &due, (*sqlscan.Count)(&r.Missed), &r.Error, &r.CancelAsked, &r.HasArgs, &r.Backfill)
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
func (s *Store) readRuns(ctx context.Context, c querier, group string, keys []jobs.Key, runs map[jobs.Key]run) error {
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

// checkTrigger reports a key whose number no row can have.
func checkTrigger(k jobs.Key) error {
	if tooLarge(k.Trigger) {
		return fmt.Errorf("sqlitestore: job %q: trigger %d: at most %d", k.Job, k.Trigger, int64(math.MaxInt64))
	}
	return nil
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
	return hex.EncodeToString([]byte(ledgerrows.CutError(text)))
}
