package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Move implements [store.Ledger]. Up to 500 rows are one statement; more are
// several, each of which applies as a whole or not at all. So are moves of one
// row: they apply in their order.
func (s *Store) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	for _, m := range moves {
		if err := ledgerrows.CheckMove("sqlitestore", m); err != nil {
			return nil, err
		}
		if err := checkTrigger(m.Key); err != nil {
			return nil, err
		}
		for _, f := range m.Then {
			if err := checkTrigger(f.Key); err != nil {
				return nil, err
			}
		}
	}
	all, some, replaced := make([]bool, 0, len(moves)), false, false
	for len(moves) > 0 {
		n := distinct(moves)
		done, current, err := s.move(ctx, h, moves[:n])
		if err != nil {
			return nil, err
		}
		for _, is := range done {
			some = some || is
		}
		all, moves, replaced = append(all, done...), moves[n:], replaced || !current
	}
	if replaced && !some {
		return nil, store.ErrReplaced
	}
	return all, nil
}

// distinct is how many of the first moves one statement can do: each row once.
func distinct(moves []store.Move) int {
	seen := make(map[jobs.Key]bool, len(moves))
	for i, m := range moves {
		key := ledgerrows.Plain(m.Key)
		if i == ledgerBatch || seen[key] {
			return i
		}
		seen[key] = true
	}
	return len(moves)
}

// move reports which of the rows are now as wanted, and whether h is known to be
// replaced.
func (s *Store) move(ctx context.Context, h store.Holder, moves []store.Move) (done []bool, current bool, err error) {
	rows, keys := make([][11]any, len(moves)), make([]jobs.Key, len(moves))
	for i, m := range moves {
		rows[i] = [11]any{
			m.Job, m.Tick.UnixMicro(), m.Trigger, int(m.From), m.Attempt, m.Owner, number(m.Token),
			int(m.To), m.Delay.Microseconds(), errorText(m.Error), ledgerrows.AttemptAfter(m),
		}
		keys[i] = ledgerrows.Plain(m.Key)
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return nil, false, err
	}
	runs := make(map[jobs.Key]run, len(moves))
	err = s.write(ctx, "move runs", func(ctx context.Context, c *sql.Conn) error {
		args := []any{string(list), h.Group, h.Owner, number(h.Token)}
		err := s.moveAndFollow(ctx, c, moves, args, runs)
		current = len(runs) > 0
		if err != nil || len(runs) == len(moves) {
			return err
		}
		// The others were not as expected, or moved before, or the term is over.
		if err := s.readRuns(ctx, c, h.Group, keys, runs); err != nil || current {
			return err
		}
		current, err = s.current(ctx, c, h)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	done = make([]bool, len(moves))
	for i, m := range moves {
		r, ok := runs[keys[i]]
		done[i] = ok && r.State == m.To && r.Attempt == ledgerrows.AttemptAfter(m) && r.Owner == h.Owner && r.Token == h.Token
	}
	return done, current, nil
}

// moveAndFollow adds the rows that it has changed to runs, and inserts their followers.
// It is one statement where there are none, and a transaction otherwise.
func (s *Store) moveAndFollow(ctx context.Context, c *sql.Conn, moves []store.Move, args []any, runs map[jobs.Key]run) (err error) {
	add := func(r run) { runs[r.Key] = r }
	if !slices.ContainsFunc(moves, func(m store.Move) bool { return len(m.Then) > 0 }) {
		return eachRun(ctx, c, s.runs.move, args, add)
	}
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if undo := tx.Rollback(); !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
		if err != nil {
			clear(runs)
		}
	}()
	// The first statement writes, so that no takeover comes in between.
	if err := eachRun(ctx, tx, s.runs.move, args, add); err != nil {
		return err
	}
	var followers [][8]any
	for _, m := range moves {
		key := ledgerrows.Plain(m.Key)
		if _, changed := runs[key]; !changed {
			continue
		}
		for _, f := range m.Then {
			followers = append(followers, [8]any{
				f.Job, f.Tick.UnixMicro(), f.Trigger, f.Delay.Microseconds(), f.Backfill, key.Job, key.Tick.UnixMicro(), key.Trigger,
			})
		}
	}
	if len(followers) > 0 {
		list, err := json.Marshal(followers)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.runs.follow, string(list), args[1]); err != nil {
			return err
		}
	}
	return tx.Commit()
}
