package memdb

import (
	"context"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Move implements [store.Ledger].
func (s *Store) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, m := range moves {
		if err := ledgerrows.CheckFollowers("memstore: move", m.Key, m.Then); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.elsewhere(h) {
		return nil, store.ErrOtherServer
	}
	l, now, current := s.ledger(h.Group), s.now(), s.current(h)
	done := make([]bool, len(moves))
	applied := false
	for i, m := range moves {
		r := l.get(m.Key)
		if r == nil {
			continue
		}
		attempt := m.Attempt
		if m.To == jobs.Running {
			attempt++
		}
		if r.State == m.To && r.Attempt == attempt && r.Owner == h.Owner && r.Token == h.Token {
			done[i], applied = true, true // by an earlier repetition
			continue
		}
		if !current || r.State.Over() || r.State != m.From || r.Attempt != m.Attempt || r.Owner != m.Owner || r.Token != m.Token {
			continue
		}
		r.leave(m, now)
		r.State, r.Attempt, r.Owner, r.Token, r.Error = m.To, attempt, h.Owner, h.Token, ledgerrows.CutError(m.Error)
		switch m.To {
		case jobs.Running:
			r.Started = now
		case jobs.Waiting:
			r.Due = now.Add(m.Delay.Truncate(time.Microsecond))
		default:
			r.Finished = now
			if known, ok := l.jobs[m.Job]; ok {
				known.Finished = now
				if m.Verdict != store.NoVerdict {
					known.Failing = m.Verdict == store.JobFails
				}
				if r.Started.After(known.Started) {
					known.Started = r.Started
				}
			}
		}
		done[i], applied = true, true
		l.follow(r, m.Then, now)
	}
	if !applied && !current && len(moves) > 0 {
		return nil, store.ErrReplaced
	}
	return done, nil
}

// follow inserts what follows a run that its holder has just changed.
func (l *ledger) follow(r *run, then []store.Follower, now time.Time) {
	for _, f := range then {
		if l.get(f.Key) != nil || f.Backfill != "" && r.CancelAsked {
			continue
		}
		args := r.args
		if f.Args != nil {
			args = slices.Clone(f.Args)
		}
		l.insert(&run{args: args, Record: jobs.Record{
			Key: f.Key, State: jobs.Waiting, Owner: r.Owner, Token: r.Token, Claimed: now,
			Due: now.Add(f.Delay.Truncate(time.Microsecond)), HasArgs: args != nil, Backfill: f.Backfill,
		}})
	}
}
