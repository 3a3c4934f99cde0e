package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Claim implements [store.Ledger]. Up to 500 rows are one statement; more are
// several, each of which applies as a whole or not at all. A call that ends with
// an error may have claimed some: repeated with the same id, it goes on.
func (s *Store) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	for _, c := range claims {
		if err := ledgerrows.CheckClaim("sqlitestore", c); err != nil {
			return nil, err
		}
		for _, k := range append(keysOf(c.Then), c.Key) {
			if err := checkTrigger(k); err != nil {
				return nil, err
			}
		}
	}
	// In the order of their keys: of a job's ticks, a later statement may only claim later ones.
	order := make([]int, len(claims))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return ledgerrows.CompareKeys(claims[a].Key, claims[b].Key) })
	all := make([]store.Claimed, len(claims))
	for chunk := range slices.Chunk(order, ledgerBatch) {
		part := make([]store.Claim, len(chunk))
		for i, at := range chunk {
			part[i] = claims[at]
		}
		claimed, err := s.claim(ctx, h, id, part)
		if err != nil {
			return nil, err
		}
		for i, c := range claimed {
			all[chunk[i]] = c
		}
	}
	return all, nil
}

func (s *Store) claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	rows, keys := make([][7]any, len(claims)), make([]jobs.Key, len(claims))
	for i, c := range claims {
		rows[i] = [7]any{c.Job, c.Tick.UnixMicro(), c.Trigger, int(c.State), c.Delay.Microseconds(), c.Missed, errorText(c.Error)}
		keys[i] = ledgerrows.Plain(c.Key)
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	runs, current := make(map[jobs.Key]run, len(claims)), true
	err = s.writeAs(ctx, "claim", h, func(ctx context.Context, c *sql.Conn) error {
		if err := s.extend(ctx, c, h, id, claims); err != nil {
			return err
		}
		args := []any{string(list), h.Group, h.Owner, number(h.Token), id[:]}
		if err := s.claimAndFollow(ctx, c, h, claims, args, runs); err != nil {
			return err
		}
		// What was there before, also of a term that is over.
		if err := s.readRuns(ctx, c, h.Group, keys, runs); err != nil || len(runs) == len(claims) {
			return err
		}
		// The others were refused, or the term is over.
		var err error
		current, err = s.current(ctx, c, h)
		return err
	})
	if err != nil {
		return nil, err
	}
	claimed := make([]store.Claimed, len(claims))
	for i, key := range keys {
		r, ok := runs[key]
		if !ok && !current {
			return nil, store.ErrReplaced
		}
		if !ok {
			claimed[i].Key = key
			continue
		}
		claimed[i] = store.Claimed{Mine: r.claim == string(id[:]), Record: r.Record}
	}
	return claimed, nil
}

// claimAndFollow adds the rows that it has inserted to runs, and inserts their followers.
// It is one statement where there are none of these, and a transaction otherwise.
func (s *Store) claimAndFollow(ctx context.Context, c *sql.Conn, h store.Holder, claims []store.Claim, args []any, runs map[jobs.Key]run) error {
	add := func(r run) { runs[r.Key] = r }
	if !slices.ContainsFunc(claims, func(c store.Claim) bool { return len(c.Then) > 0 }) {
		return eachRun(ctx, c, s.runs.claim, args, add)
	}
	err := inTx(ctx, c, func(tx *sql.Tx) error {
		if err := eachRun(ctx, tx, s.runs.claim, args, add); err != nil {
			return err
		}
		var then [][9]any
		for _, c := range claims {
			if _, inserted := runs[ledgerrows.Plain(c.Key)]; inserted {
				then = append(then, followers(c.Key, c.Then)...)
			}
		}
		return s.follow(ctx, tx, h, then)
	})
	if err != nil {
		clear(runs)
	}
	return err
}

// extend gives rows of skipped ticks one more: see [store.Claim]. The claims that do so
// find their rows there then.
func (s *Store) extend(ctx context.Context, c *sql.Conn, h store.Holder, id store.ClaimID, claims []store.Claim) error {
	if !slices.ContainsFunc(claims, ledgerrows.Extends) {
		return nil
	}
	return inTx(ctx, c, func(tx *sql.Tx) error {
		for _, claim := range claims {
			if !ledgerrows.Extends(claim) {
				continue
			}
			from, to := claim.Extends.UnixMicro(), claim.Tick.UnixMicro()
			n, err := changed(ctx, tx, s.runs.extend, h.Group, h.Owner, number(h.Token), claim.Job, from, to, id[:], claim.Missed, errorText(claim.Error))
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			if _, err := tx.ExecContext(ctx, s.runs.extendCursor, h.Group, claim.Job, from, to); err != nil {
				return err
			}
		}
		return nil
	})
}
