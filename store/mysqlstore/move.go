package mysqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// Move implements [store.Ledger]. Up to 200 rows are one statement, fewer with long errors; more are
// several, each of which applies as a whole or not at all. It waits up to 5 s
// for a takeover to end.
func (l *ledger) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	order := make([]int, len(moves))
	for i, m := range moves {
		if err := ledgerrows.CheckMove("mysqlstore", m); err != nil {
			return nil, err
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return ledgerrows.CompareKeys(moves[a].Key, moves[b].Key) })

	done, some, replaced := make([]bool, len(moves)), false, false
	for chunk := range pieces(order, moveChunk, func(at int) int { return len(ledgerrows.CutError(moves[at].Error)) }) {
		part := make([]store.Move, len(chunk))
		for i, at := range chunk {
			part[i] = moves[at]
		}
		err := l.do(ctx, mysqlconn.Write, "move runs", func(ctx context.Context, c *conn) error {
			moved, over, err := l.move(ctx, c, h, part)
			replaced = replaced || over
			for i, is := range moved {
				done[chunk[i]] = is
				some = some || is
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if replaced && !some {
		return nil, store.ErrReplaced
	}
	return done, nil
}

// move changes the rows, and reads them back if not all were changed.
func (l *ledger) move(ctx context.Context, c *conn, h store.Holder, moves []store.Move) (moved []bool, replaced bool, err error) {
	finished, keys := map[string]int{}, make([]jobs.Key, len(moves))
	for i, m := range moves {
		keys[i] = ledgerrows.Plain(m.Key)
		if m.To.Over() {
			finished[m.Job]++
		}
	}
	started, err := l.latestStarts(ctx, c, h, moves, finished)
	if err != nil {
		return nil, false, err
	}
	done, err := l.moveAndFollow(ctx, c, h, moves, l.moveStatement(h, moves, started))
	if err != nil {
		return nil, false, err
	}
	moved = make([]bool, len(moves))
	// Rows of two tables are counted: each run once, and each job that a run
	// of was finished.
	if done.Rows == len(moves)+len(finished) {
		for i := range moved {
			moved[i] = true
		}
		return moved, false, nil
	}
	f, err := l.readRuns(ctx, c, h, keys)
	if err != nil {
		return nil, false, err
	}
	for i, m := range moves {
		r, ok := f.runs[keys[i]]
		moved[i] = ok && r.State == m.To && r.Attempt == ledgerrows.AttemptAfter(m) && r.Owner == h.Owner && r.Token == h.Token
	}
	return moved, f.replaced, nil
}

// latestStarts is, for each job of which one statement finishes several runs,
// the latest start among these: the statement itself sees that of one of them.
// It may be read before: a run that has started has.
func (l *ledger) latestStarts(ctx context.Context, c *conn, h store.Holder, moves []store.Move, finished map[string]int) (map[string]time.Time, error) {
	var keys []jobs.Key
	for _, m := range moves {
		if m.To.Over() && finished[m.Job] > 1 {
			keys = append(keys, ledgerrows.Plain(m.Key))
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	f, err := l.readRuns(ctx, c, h, keys)
	if err != nil {
		return nil, err
	}
	started := map[string]time.Time{}
	for _, r := range f.runs {
		if r.Started.After(started[r.Job]) {
			started[r.Job] = r.Started
		}
	}
	return started, nil
}

// moveStatement also writes the starts to those jobs of which it finishes a run.
func (l *ledger) moveStatement(h store.Holder, moves []store.Move, started map[string]time.Time) string {
	rows := make(sqltext.Values, len(moves))
	for i, m := range moves {
		finished, start := "", int64(0)
		if m.To.Over() {
			finished = m.Job
		}
		if at, ok := started[m.Job]; ok {
			start = at.UnixMicro()
		}
		rows[i] = sqltext.Row{
			m.Job, m.Tick.UnixMicro(), m.Trigger, int(m.From), m.Attempt, m.Owner, m.Token,
			int(m.To), delayMicros(m.Delay), ledgerrows.CutError(m.Error), finished, start,
		}
	}
	return l.sql.move.Render(h.Group, h.Owner, h.Token, rows, h.Group, h.Group)
}

// moveAndFollow runs the move. If runs follow, it is a transaction that first finds out
// which rows the move will change, and inserts the followers of those.
func (l *ledger) moveAndFollow(ctx context.Context, c *conn, h store.Holder, moves []store.Move, statement string) (mysqlconn.Change, error) {
	followers := map[jobs.Key]sqltext.Values{}
	var of sqltext.Values
	for _, m := range moves {
		if len(m.Then) == 0 {
			continue
		}
		tick := m.Tick.UnixMicro()
		of = append(of, sqltext.Row{m.Job, tick, m.Trigger, int(m.From), m.Attempt, m.Owner, m.Token})
		for _, f := range m.Then {
			row := sqltext.Row{f.Job, f.Tick.UnixMicro(), f.Trigger, delayMicros(f.Delay), f.Backfill, m.Job, tick, m.Trigger}
			followers[ledgerrows.Plain(m.Key)] = append(followers[ledgerrows.Plain(m.Key)], row)
		}
	}
	if len(of) == 0 {
		return l.guarded(ctx, c, h, statement)
	}
	return l.transaction(ctx, c, h, func() (done mysqlconn.Change, err error) {
		movable, err := l.readMovable(ctx, c, h, of)
		if err != nil {
			return done, err
		}
		if done, err = c.Change(ctx, statement); err != nil {
			return done, err
		}
		var rows sqltext.Values
		for _, key := range movable {
			rows = append(rows, followers[key]...)
		}
		if len(rows) == 0 {
			return done, nil
		}
		return done, c.Exec(ctx, l.sql.follow.Render(rows, h.Group))
	})
}

// readMovable returns the keys of those rows that are as the move expects them, and
// keeps them locked.
func (l *ledger) readMovable(ctx context.Context, c *conn, h store.Holder, of sqltext.Values) (keys []jobs.Key, err error) {
	rows, err := c.Query(ctx, l.sql.movable.Render(h.Group, h.Owner, h.Token, of, h.Group))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k jobs.Key
		var tick int64
		if err := rows.Scan(&k.Job, &tick, &k.Trigger); err != nil {
			return nil, err
		}
		k.Tick = time.UnixMicro(tick).UTC()
		keys = append(keys, k)
	}
	return keys, rows.Err()
}
