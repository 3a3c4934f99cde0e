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
// several, in the order of the moves, each of which applies as a whole or not at all. It waits up to
// 5 s for a takeover to end.
func (l *ledger) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	for _, m := range moves {
		if err := ledgerrows.CheckMove("mysqlstore", m); err != nil {
			return nil, err
		}
	}
	done, replaced := make([]bool, 0, len(moves)), false
	for chunk := range pieces(moves, moveChunk, func(m store.Move) int {
		return len(ledgerrows.CutError(m.Error)) + min(len(m.Output), jobs.MaxOutput) + argBytes(m.Then)
	}) {
		var moved []bool
		err := l.doAs(ctx, h, "move runs", func(ctx context.Context, c *conn) (err error) {
			var over bool
			moved, over, err = l.move(ctx, c, h, chunk)
			replaced = replaced || over
			return err
		})
		if err != nil {
			return nil, err
		}
		done = append(done, moved...)
	}
	if replaced && !slices.Contains(done, true) {
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
	ends, err := l.endsOf(ctx, c, h, moves, finished)
	if err != nil {
		return nil, false, err
	}
	sorted := slices.SortedStableFunc(slices.Values(moves), func(a, b store.Move) int { return ledgerrows.CompareKeys(a.Key, b.Key) })
	done, err := l.moveAndFollow(ctx, c, h, sorted, l.moveStatement(h, sorted, ends))
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
		keeps := h.Keeps(m.To, m.For)
		moved[i] = ok && r.State == m.To && r.Attempt == ledgerrows.AttemptAfter(h, m) && r.Owner == keeps.Owner && r.Token == keeps.Token
	}
	return moved, f.replaced, nil
}

// ends is what the runs of a job that one statement finishes say of the job together.
type ends struct {
	started time.Time     // the latest of their starts
	verdict store.Verdict // of the last one that has any and that the statement changes
}

// endsOf has those jobs of which one statement finishes several runs: the statement itself
// sees one of these. It may be read before: a run that has started has, and what becomes of
// a run only the holder decides, whose later statements have the later verdicts. (From a holder that was assigned its
// runs, its leader may take one in between that waits, of which the verdict counts then.)
func (l *ledger) endsOf(ctx context.Context, c *conn, h store.Holder, moves []store.Move, finished map[string]int) (map[string]ends, error) {
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
	all := map[string]ends{}
	for _, m := range moves {
		if !m.To.Over() || finished[m.Job] < 2 {
			continue
		}
		of := all[m.Job]
		r, ok := f.runs[ledgerrows.Plain(m.Key)]
		if r.Started.After(of.started) {
			of.started = r.Started
		}
		if ok && m.Verdict != store.NoVerdict && r.State == m.From && r.Attempt == m.Attempt && r.Owner == m.Owner && r.Token == m.Token {
			of.verdict = m.Verdict
		}
		all[m.Job] = of
	}
	return all, nil
}

// moveStatement also writes the starts and verdicts to those jobs of which it finishes a run.
func (l *ledger) moveStatement(h store.Holder, moves []store.Move, several map[string]ends) string {
	rows := make(sqltext.Values, len(moves))
	for i, m := range moves {
		finished, start, verdict := "", int64(0), m.Verdict
		if m.To.Over() {
			finished = m.Job
		}
		if of, ok := several[m.Job]; ok {
			verdict = of.verdict
			if !of.started.IsZero() {
				start = of.started.UnixMicro()
			}
		}
		rows[i] = append(sqltext.Row{
			m.Job, m.Tick.UnixMicro(), m.Trigger, int(m.From), m.Attempt, m.Owner, m.Token,
			int(m.To), delayMicros(m.Delay), ledgerrows.CutError(m.Error), ledgerrows.FormatDetails(m.Details), finished, start, int(verdict),
		}, assigned(h, m)...)
	}
	query := l.sql.move
	if h.Assigns {
		query = l.sql.spreadMove
	}
	return query.Render(h.Fence(), h.Owner, h.Token, rows, h.Group, h.Group)
}

// stays reports whether the row that a move of a holder that assigns expects is as the move wants it.
func stays(h store.Holder, m store.Move) bool {
	return h.Assigns && m.To == m.From && m.Attempt == ledgerrows.AttemptAfter(h, m) && m.For == store.Assignee{Owner: m.Owner, Token: m.Token}
}

// assigned is what the row of a move has besides whose holder assigns.
func assigned(h store.Holder, m store.Move) sqltext.Row {
	if !h.Assigns {
		return nil
	}
	keeps := h.Keeps(m.To, m.For)
	return sqltext.Row{keeps.Owner, keeps.Token, ledgerrows.AttemptAfter(h, m), max(0, m.NotBefore.UnixMicro())}
}

// moveAndFollow runs the move. If runs follow, or attempts are kept, it is a transaction:
// the attempts are kept by one statement before the move. What else belongs to the rows that
// the move will change needs their keys.
func (l *ledger) moveAndFollow(ctx context.Context, c *conn, h store.Holder, moves []store.Move, statement string) (mysqlconn.Change, error) {
	beside := map[jobs.Key]beside{}
	var attempts, of sqltext.Values
	for _, m := range moves {
		b := besideOf(m)
		attempts = append(attempts, b.attempt...)
		if len(b.followers)+len(b.dropped) == 0 || stays(h, m) {
			continue
		}
		beside[ledgerrows.Plain(m.Key)] = b
		to := m.To
		if h.Assigns && to == jobs.Waiting {
			to = 0 // it does not matter whether the row waits under the holder
		}
		of = append(of, sqltext.Row{m.Job, m.Tick.UnixMicro(), m.Trigger, int(m.From), m.Attempt, m.Owner, m.Token, int(to)})
	}
	held := h
	held.Group = h.Fence() // that is compared
	if len(attempts)+len(of) == 0 {
		return l.guarded(ctx, c, held, statement)
	}
	return l.transaction(ctx, c, held, func() (done mysqlconn.Change, err error) {
		if len(attempts) > 0 {
			if err := c.Exec(ctx, l.sql.keepAttempts.Render(attempts, h.Fence(), h.Owner, h.Token, h.Group)); err != nil {
				return done, err
			}
		}
		if len(of) == 0 {
			return c.Change(ctx, statement)
		}
		movable, err := l.readMovable(ctx, c, h, of)
		if err != nil {
			return done, err
		}
		var followers, dropped sqltext.Values
		for _, key := range movable {
			b := beside[key]
			followers, dropped = append(followers, b.followers...), append(dropped, b.dropped...)
		}
		if len(dropped) > 0 {
			if err := c.Exec(ctx, l.sql.dropAttempts.Render(dropped, h.Group)); err != nil {
				return done, err
			}
		}
		if done, err = c.Change(ctx, statement); err != nil || len(followers) == 0 {
			return done, err
		}
		return done, c.Exec(ctx, l.sql.follow.Render(followers, underWhom(h), h.Group))
	})
}

// beside is what a move inserts and deletes in the transaction in which it changes its
// row.
type beside struct {
	followers sqltext.Values
	attempt   sqltext.Values // one or none
	dropped   sqltext.Values // the attempt up to which none is kept, or none
}

func besideOf(m store.Move) (b beside) {
	tick := m.Tick.UnixMicro()
	b.followers = followers(m.Key, m.Then)
	if a, kept := store.AttemptOf(m); kept {
		b.attempt = sqltext.Values{{
			m.Job, tick, m.Trigger, a.Number, m.Owner, m.Token, int(m.To), int(a.State), a.State != jobs.Interrupted, ledgerrows.CutError(a.Error), string(a.Output),
		}}
		if a.Number > jobs.MaxAttempts {
			b.dropped = sqltext.Values{{m.Job, tick, m.Trigger, a.Number - jobs.MaxAttempts}}
		}
	}
	return b
}

// followers are the rows of what follows a run.
func followers(of jobs.Key, then []store.Follower) (rows sqltext.Values) {
	for _, f := range then {
		rows = append(rows, sqltext.Row{
			f.Job, f.Tick.UnixMicro(), f.Trigger, delayMicros(f.Delay), f.Backfill, string(f.Args), of.Job, of.Tick.UnixMicro(), of.Trigger,
		})
	}
	return rows
}

// argBytes is how long the arguments of followers are.
func argBytes(then []store.Follower) (n int) {
	for _, f := range then {
		n += len(f.Args)
	}
	return n
}

// readMovable returns the keys of those rows that are as the move expects them, and
// keeps them locked.
func (l *ledger) readMovable(ctx context.Context, c *conn, h store.Holder, of sqltext.Values) (keys []jobs.Key, err error) {
	rows, err := c.Query(ctx, l.sql.movable.Render(h.Fence(), h.Owner, h.Token, of, h.Group))
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
