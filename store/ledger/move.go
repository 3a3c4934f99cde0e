package ledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Move implements [store.Ledger]. Up to 500 rows are one transaction; more are several.
func (l Ledger) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	for _, m := range moves {
		if err := cmp.Or(ledgerrows.CheckMove(l.pkg, m), l.checkTriggers(m.Key, m.Then)); err != nil {
			return nil, err
		}
	}
	if len(moves) == 0 {
		return nil, ctx.Err()
	}
	var all []bool
	replaced := false
	for part := range slices.Chunk(moves, batch) {
		need := Need{Doing: "move runs", By: h, Held: true}
		for _, m := range part {
			need.Jobs = append(need.Jobs, m.Job)
			need.Runs = append(need.Runs, ledgerrows.Plain(m.Key))
			for _, f := range m.Then {
				need.Runs = append(need.Runs, ledgerrows.Plain(f.Key))
				need.Args = need.Args || f.Args == nil
			}
		}
		slices.Sort(need.Jobs)
		need.Jobs = slices.Compact(need.Jobs)
		var answer error
		done := make([]bool, len(part))
		current := false
		err := l.rows.Do(ctx, h.Group, need, func(tx *Tx) {
			if answer = nil; tx.elsewhere(h) {
				answer = store.ErrOtherServer
				return
			}
			current = tx.current(h)
			for i, m := range part {
				done[i] = tx.move(h, m)
			}
		})
		if err := cmp.Or(err, answer); err != nil {
			return nil, err
		}
		all, replaced = append(all, done...), replaced || !current
	}
	if replaced && !slices.Contains(all, true) {
		return nil, store.ErrReplaced
	}
	return all, nil
}

// move reports whether the row is as the move wants it, after changing it if it may.
func (tx *Tx) move(h store.Holder, m store.Move) bool {
	r, ok := tx.Runs[ledgerrows.Plain(m.Key)]
	attempt, keeps := ledgerrows.AttemptAfter(h, m), h.Keeps(m.To, m.For)
	switch {
	case !ok:
		return false
	case r.State == m.To && r.Attempt == attempt && r.Owner == keeps.Owner && r.Token == keeps.Token:
		return true // by an earlier repetition
	case !tx.current(h) || r.State.Over() || r.State != m.From || r.Attempt != m.Attempt || r.Owner != m.Owner || r.Token != m.Token:
		return false
	case m.To == jobs.Running && r.CancelAsked:
		return false
	}
	tx.leave(r, m)
	r.State, r.Attempt, r.Owner, r.Token, r.Error = m.To, attempt, keeps.Owner, keeps.Token, ledgerrows.CutError(m.Error)
	r.Details = m.Details
	switch m.To {
	case jobs.Running:
		if tx.Now.After(r.Started) { // else the clock was set back, and what is known of the job must not be
			r.Started = tx.Now
		}
		if h.Assigns && m.NotBefore.After(r.Started) {
			r.Started = m.NotBefore.UTC()
		}
	case jobs.Waiting:
		r.Due = tx.Now.Add(m.Delay.Truncate(time.Microsecond))
	default:
		r.Finished, r.Verdict = tx.Now, m.Verdict
		tx.judge(r)
	}
	tx.putRun(r)
	tx.follow(h, r, m.Then)
	return true
}

// judge writes to the job of a run that has ended what that says of it.
func (tx *Tx) judge(r Run) {
	known, ok := tx.Jobs[r.Job]
	if !ok {
		return
	}
	known.Finished = tx.Now
	if r.Verdict != store.NoVerdict {
		known.Failing = r.Verdict == store.JobFails
	}
	if r.Started.After(known.Started) {
		known.Started = r.Started
	}
	tx.Jobs[r.Job], tx.put.judged[r.Job] = known, true
}

// leave keeps the attempt that a move ends, before the run is changed.
func (tx *Tx) leave(r Run, m store.Move) {
	a, ok := store.AttemptOf(m)
	if !ok {
		return
	}
	a.Started, a.Finished, a.Error, a.Output = r.Started, tx.Now, ledgerrows.CutError(a.Error), slices.Clone(a.Output)
	if a.State == jobs.Interrupted {
		a.Finished = time.Time{}
	}
	tx.Attempts = append(tx.Attempts, Attempt{r.Key, a})
}

// follow inserts what follows a run that its holder has just changed.
func (tx *Tx) follow(h store.Holder, r Run, then []store.Follower) {
	keeps := h.Keeps(jobs.Waiting, store.Assignee{})
	for _, f := range then {
		key := ledgerrows.Plain(f.Key)
		if _, ok := tx.Runs[key]; ok || f.Backfill != "" && r.CancelAsked {
			continue
		}
		args := r.Args
		if f.Args != nil {
			args = slices.Clone(f.Args)
		}
		if h.Assigns {
			tx.Group.Changes++ // the leader is to assign it
		}
		tx.putRun(Run{Args: args, Record: jobs.Record{
			Key: key, State: jobs.Waiting, Owner: keeps.Owner, Token: keeps.Token, Claimed: tx.Now,
			Due: tx.Now.Add(f.Delay.Truncate(time.Microsecond)), HasArgs: args != nil, Backfill: f.Backfill,
		}})
	}
}
