package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
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
		for _, k := range append(keysOf(m.Then), m.Key) {
			if err := checkTrigger(k); err != nil {
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
	rows, keys := make([][12]any, len(moves)), make([]jobs.Key, len(moves))
	for i, m := range moves {
		rows[i] = [12]any{
			m.Job, m.Tick.UnixMicro(), m.Trigger, int(m.From), m.Attempt, m.Owner, number(m.Token),
			int(m.To), m.Delay.Microseconds(), errorText(m.Error), ledgerrows.AttemptAfter(m), int(m.Verdict),
		}
		keys[i] = ledgerrows.Plain(m.Key)
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return nil, false, err
	}
	runs := make(map[jobs.Key]run, len(moves))
	err = s.writeAs(ctx, "move runs", h, func(ctx context.Context, c *sql.Conn) error {
		args := []any{string(list), h.Group, h.Owner, number(h.Token)}
		err := s.moveAndFollow(ctx, c, h, moves, args, runs)
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

// moveAndFollow adds the rows that it has changed to runs, keeps the attempts that they
// end, and inserts their followers. It is one statement where there are none of these,
// and a transaction otherwise.
func (s *Store) moveAndFollow(ctx context.Context, c *sql.Conn, h store.Holder, moves []store.Move, args []any, runs map[jobs.Key]run) (err error) {
	add := func(r run) { runs[r.Key] = r }
	if !slices.ContainsFunc(moves, func(m store.Move) bool { _, ends := store.AttemptOf(m); return ends || len(m.Then) > 0 }) {
		return eachRun(ctx, c, s.runs.move, args, add)
	}
	defer func() {
		if err != nil {
			clear(runs)
		}
	}()
	return inTx(ctx, c, func(tx *sql.Tx) error {
		if err := s.keepAttempts(ctx, tx, h, moves); err != nil {
			return err
		}
		if err := eachRun(ctx, tx, s.runs.move, args, add); err != nil {
			return err
		}
		var then [][9]any
		for _, m := range moves {
			if _, changed := runs[ledgerrows.Plain(m.Key)]; changed {
				then = append(then, followers(m.Key, m.Then)...)
			}
		}
		return s.follow(ctx, tx, h, then)
	})
}

func keysOf(then []store.Follower) (keys []jobs.Key) {
	for _, f := range then {
		keys = append(keys, f.Key)
	}
	return keys
}

// followers are the rows of what follows a run.
func followers(of jobs.Key, then []store.Follower) (rows [][9]any) {
	for _, f := range then {
		rows = append(rows, [9]any{
			f.Job, f.Tick.UnixMicro(), f.Trigger, f.Delay.Microseconds(), f.Backfill, of.Job, of.Tick.UnixMicro(), of.Trigger, hex.EncodeToString(f.Args),
		})
	}
	return rows
}

// follow inserts followers, once their runs are as they are to follow them.
func (s *Store) follow(ctx context.Context, tx *sql.Tx, h store.Holder, followers [][9]any) error {
	if len(followers) == 0 {
		return nil
	}
	list, err := json.Marshal(followers)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, s.runs.follow, string(list), h.Group)
	return err
}
