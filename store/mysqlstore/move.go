package mysqlstore

import (
	"context"
	"fmt"
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
		if err := checkMove(m); err != nil {
			return nil, err
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareKeys(moves[a].Key, moves[b].Key) })

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

func checkMove(m store.Move) error {
	switch {
	case m.From != jobs.Running && m.From != jobs.Waiting:
		return fmt.Errorf("mysqlstore: move of job %q: from state %v: must be running or waiting", m.Job, m.From)
	case m.To < jobs.Running || m.To > jobs.Interrupted:
		return fmt.Errorf("mysqlstore: move of job %q: to state %v: there is none", m.Job, m.To)
	case m.Attempt < 0:
		return fmt.Errorf("mysqlstore: move of job %q: attempt %d: must not be negative", m.Job, m.Attempt)
	}
	return checkKey(m.Key)
}

// move changes the rows, and reads them back if not all were changed.
func (l *ledger) move(ctx context.Context, c *conn, h store.Holder, moves []store.Move) (moved []bool, replaced bool, err error) {
	finished, keys := map[string]int{}, make([]jobs.Key, len(moves))
	for i, m := range moves {
		keys[i] = plain(m.Key)
		if m.To.Over() {
			finished[m.Job]++
		}
	}
	started, err := l.latestStarts(ctx, c, h, moves, finished)
	if err != nil {
		return nil, false, err
	}
	done, err := l.guarded(ctx, c, h, l.moveStatement(h, moves, started))
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
		moved[i] = ok && r.State == m.To && r.Attempt == attemptAfter(m) && r.Owner == h.Owner && r.Token == h.Token
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
			keys = append(keys, plain(m.Key))
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

func attemptAfter(m store.Move) int {
	if m.To == jobs.Running {
		return m.Attempt + 1
	}
	return m.Attempt
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
