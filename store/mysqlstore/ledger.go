package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	rule "github.com/cronlease/cronlease/store/ledger"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

const (
	// One statement takes so many rows; more in one would not be faster.
	claimChunk = 500
	moveChunk  = 200

	// lastMicro is the last second that a DATETIME can have, in microseconds
	// since 1970.
	lastMicro int64 = 253402300799_000000

	// maxSchedule is what the table holds of a schedule's text, in bytes.
	maxSchedule = 16000
)

// ledger is the runs, and what is known of each job. What is not by hand here, the rules do.
type ledger struct {
	rules

	conns *mysqlconn.Pool
	sql   *ledgerQueries
	table string // of runs, quoted
	wake  func(ctx context.Context, lane mysqlconn.Lane, group string)
	note  func(group string, entry jobs.AuditEntry) string // the statement that records an action
}

// do runs do on a connection for the ledger, and again when the server has
// rolled it back.
func (l *ledger) do(ctx context.Context, access mysqlconn.Access, op string, do func(context.Context, *conn) error) error {
	return l.conns.Do(ctx, mysqlconn.Ledger, access, op, func(ctx context.Context, c *conn) error {
		return c.RetryConflicts(ctx, mysqlconn.DeadlockTries, func() error { return do(ctx, c) })
	})
}

// doAs is do for a holder's claims and moves. Connections do not change their server, so
// none has to be asked which one it is.
func (l *ledger) doAs(ctx context.Context, h store.Holder, op string, do func(context.Context, *conn) error) error {
	return l.do(ctx, mysqlconn.Write, op, func(ctx context.Context, c *conn) error {
		// No node of a cluster with several writers lacks what another has committed.
		if h.Server != "" && h.Server != c.Server.Identity && !c.Server.ManyWriters() {
			return store.ErrOtherServer
		}
		return do(ctx, c)
	})
}

// Declare implements [store.Ledger].
func (l *ledger) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	rows := make([]store.Declared, 0, len(declared))
	for _, d := range declared {
		if err := store.CheckName("job", d.Name); err != nil {
			return err
		}
		if len(d.Schedule) > maxSchedule {
			return fmt.Errorf("mysqlstore: job %q: its schedule's text has %d bytes: at most %d", d.Name, len(d.Schedule), maxSchedule)
		}
		rows = append(rows, d)
	}
	slices.SortStableFunc(rows, func(a, b store.Declared) int { return cmp.Compare(a.Name, b.Name) })
	// The group's own row, without a name, says that all others are declared:
	// it is in the last statement, where it comes first.
	group := store.Declared{Schedule: ledgerrows.FormatOpened(h.Opens(jobs.Opened{}))}
	chunks := slices.Collect(pieces(rows, claimChunk-1, func(d store.Declared) int { return len(d.Schedule) }))
	if len(chunks) == 0 {
		chunks = [][]store.Declared{nil}
	}
	for i, chunk := range chunks {
		if i == len(chunks)-1 {
			chunk = slices.Insert(chunk, 0, group)
		}
		statement := l.declareStatement(h, chunk)
		err := l.do(ctx, mysqlconn.Write, "declare jobs", func(ctx context.Context, c *conn) error {
			done, err := l.guarded(ctx, c, h, statement)
			if err != nil || done.Rows > 0 {
				return err
			}
			return l.checkHolder(ctx, c, h) // all was there already, or the term is over
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkHolder answers for a statement that changed nothing.
func (l *ledger) checkHolder(ctx context.Context, c *conn, h store.Holder) error {
	n, err := c.Count(ctx, l.sql.hasFence.Render(h.Group, h.Owner, h.Token))
	if err == nil && n == 0 {
		return store.ErrReplaced
	}
	return err
}

func (l *ledger) declareStatement(h store.Holder, declared []store.Declared) string {
	rows := make(sqltext.Values, len(declared))
	for i, d := range declared {
		from := lastMicro // later than any present
		if !d.From.IsZero() {
			from = d.From.UnixMicro()
		}
		present := int64(0)
		if !d.Now.IsZero() {
			present = d.Now.UnixMicro()
		}
		rows[i] = sqltext.Row{d.Name, d.Schedule, from, present}
	}
	other := h.Opens(jobs.Opened{Token: 1, Spread: !h.Assigns})
	return l.sql.declare.Render(rows, h.Group, h.Owner, h.Token, h.Assigns, ledgerrows.FormatOpened(other))
}

// Load implements [jobs.Control].
func (l *ledger) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	var snapshot jobs.Snapshot
	err := l.do(ctx, mysqlconn.Read, "load ledger", func(ctx context.Context, c *conn) error {
		var err error
		snapshot, err = l.load(ctx, c, group)
		return err
	})
	return snapshot, err
}

func (l *ledger) load(ctx context.Context, c *conn, group string) (jobs.Snapshot, error) {
	return l.loadWith(ctx, c, group, l.sql.jobs.Render(group))
}

// loadWith is load with a query of some jobs.
func (l *ledger) loadWith(ctx context.Context, c *conn, group, query string) (jobs.Snapshot, error) {
	snapshot, own, err := l.summarize(ctx, c, group)
	if err != nil {
		return jobs.Snapshot{}, err
	}
	snapshot.Jobs, snapshot.Pauses = map[string]jobs.Known{}, map[string][]jobs.Pause{}
	all, err := rowsOf(ctx, c, query, func(rows *sql.Rows) (jobRow, error) {
		var cursor at
		j, err := jobFields.scan(rows, &cursor)
		j.Cursor = time.Time(cursor)
		return j, err
	})
	if err != nil {
		return jobs.Snapshot{}, err
	}
	for _, j := range append(all, own...) {
		if j.name != "" {
			snapshot.Jobs[j.name] = j.Known
		}
		if len(j.Pauses) > 0 {
			snapshot.Pauses[j.name] = j.Pauses
		}
	}
	if snapshot.Open, err = records(ctx, c, l.sql.openRuns.Render(group)); err != nil {
		return jobs.Snapshot{}, err
	}
	ledgerrows.CountStarts(snapshot)
	return snapshot, nil
}

// summarize reads the group's own row. It comes first, with the changes: what happens while the rest is read is seen by the
// next look at them.
func (l *ledger) summarize(ctx context.Context, c *conn, group string) (snapshot jobs.Snapshot, own []jobRow, err error) {
	own, err = rowsOf(ctx, c, l.sql.summary.Render(group, group, group), func(rows *sql.Rows) (jobRow, error) {
		j, _, err := jobFields.scanOuter(rows, (*at)(&snapshot.Now), &snapshot.Changes)
		return j, err
	})
	if err == nil {
		own[0].tell(c, &snapshot)
	}
	return snapshot, own, err
}

// tell puts what the group's own row says into a snapshot, with the server that has answered.
func (j jobRow) tell(c *conn, snapshot *jobs.Snapshot) {
	snapshot.Server, snapshot.Paused, snapshot.Opened = c.Server.Identity, j.Paused, j.opened()
	if c.Server.ManyWriters() {
		snapshot.Cluster = "galera"
	}
}

// Open implements [store.Spreads].
func (l *ledger) Open(ctx context.Context, group, owner string) (snapshot jobs.Snapshot, err error) {
	query := l.sql.open.Render(group, group, group, group)
	if owner != "" {
		query = l.sql.openOf.Render(group, group, group, group, owner)
	}
	err = l.do(ctx, mysqlconn.Read, "load open runs", func(ctx context.Context, c *conn) error {
		var own jobRow
		none := false
		snapshot.Open, err = rowsOf(ctx, c, query, func(rows *sql.Rows) (jobs.Record, error) {
			r, there, err := runFields.scanOuter(rows, (*at)(&snapshot.Now), &snapshot.Changes,
				&own.Schedule, (*at)(&own.ScheduleSince), (*sqlscan.Bool)(&own.Paused))
			none = !there
			return r.Record, err
		})
		if none {
			snapshot.Open = nil
		}
		own.tell(c, &snapshot)
		return err
	})
	if err != nil {
		return jobs.Snapshot{}, err
	}
	return snapshot, nil
}

// Changes implements [store.Ledger].
func (l *ledger) Changes(ctx context.Context, group string) (store.Changes, error) {
	var changes store.Changes
	var now int64
	err := l.do(ctx, mysqlconn.Read, "read changes", func(ctx context.Context, c *conn) error {
		changes.Server = c.Server.Identity
		return c.QueryRow(ctx, l.sql.changes.Render(group, group)).Scan(&now, &changes.Number)
	})
	if err != nil {
		return store.Changes{}, err
	}
	changes.Now = time.UnixMicro(now).UTC()
	return changes, nil
}

// records runs a query of runs.
func records(ctx context.Context, c *conn, query string) ([]jobs.Record, error) {
	return rowsOf(ctx, c, query, func(rows *sql.Rows) (jobs.Record, error) {
		r, err := runFields.row(rows)
		return r.Record, err
	})
}

// found is what readRuns answers.
type found struct {
	runs     map[jobs.Key]rule.Run
	replaced bool // the fence row names another term
}

// readRuns reads the runs of the keys that are there, and whether h is still the
// holder, in one instant.
func (l *ledger) readRuns(ctx context.Context, c *conn, h store.Holder, keys []jobs.Key) (found, error) {
	list := make(sqltext.Values, len(keys))
	for i, k := range keys {
		list[i] = sqltext.Row{k.Job, k.Tick.UnixMicro(), k.Trigger}
	}
	rows, err := c.Query(ctx, l.sql.readRuns.Render(list, h.Group, h.Fence()))
	if err != nil {
		return found{}, err
	}
	defer rows.Close()
	f := found{runs: make(map[jobs.Key]rule.Run, len(keys)), replaced: true}
	for rows.Next() {
		var fence store.Fence
		r, there, err := runFields.scanOuter(rows, &fence.Owner, &fence.Token)
		if err != nil {
			return found{}, err
		}
		f.replaced = fence.Token == 0 || fence.Owner != h.Owner || fence.Token != h.Token // 0: there is none
		if there {
			f.runs[r.Key] = r
		}
	}
	return f, rows.Err()
}

func instant(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

func delayMicros(d time.Duration) int64 { return max(0, d.Microseconds()) }
