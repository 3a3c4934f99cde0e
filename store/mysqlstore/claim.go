package mysqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// claimTries bounds how often rows are inserted that are then not there: only
// pruning, or somebody's own DELETE, takes them away.
const claimTries = 5

// Claim implements [jobs.Ledger]. Up to 500 rows are one statement; more are
// several, each of which applies as a whole or not at all. A call that ends with
// an error may have claimed some: repeated with the same id, it goes on. It
// waits up to 5 s for a takeover to end.
func (s *Store) Claim(ctx context.Context, h jobs.Holder, id jobs.ClaimID, claims []jobs.Claim) ([]jobs.Claimed, error) {
	order := make([]int, len(claims))
	for i, c := range claims {
		if err := checkClaim(c); err != nil {
			return nil, err
		}
		order[i] = i
	}
	// All callers lock rows in one order, the key's.
	slices.SortFunc(order, func(a, b int) int { return compareKeys(claims[a].Key, claims[b].Key) })

	results := make([]jobs.Claimed, len(claims))
	for chunk := range slices.Chunk(order, claimChunk) {
		part := make([]jobs.Claim, len(chunk))
		for i, at := range chunk {
			part[i] = claims[at]
		}
		err := s.onLedger(ctx, "claim", false, func(ctx context.Context, one *session) error {
			claimed, err := s.claim(ctx, one, h, id, part)
			for i, c := range claimed {
				results[chunk[i]] = c
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func checkClaim(c jobs.Claim) error {
	switch {
	case c.State != jobs.Running && c.State != jobs.Waiting && c.State != jobs.Skipped:
		return fmt.Errorf("mysqlstore: claim of job %q: state %v: must be running, waiting or skipped", c.Job, c.State)
	case c.Missed < 0:
		return fmt.Errorf("mysqlstore: claim of job %q: missed %d: must not be negative", c.Job, c.Missed)
	}
	return checkKey(c.Key)
}

// claim inserts the rows, and reads back if not all were inserted: what was
// there before stands, and what is not there at all is inserted again.
func (s *Store) claim(ctx context.Context, one *session, h jobs.Holder, id jobs.ClaimID, claims []jobs.Claim) ([]jobs.Claimed, error) {
	claimed, missing := make([]jobs.Claimed, len(claims)), make([]int, len(claims))
	for i := range claims {
		missing[i] = i
	}
	for range claimTries {
		part := make([]jobs.Claim, len(missing))
		for i, at := range missing {
			part[i] = claims[at]
		}
		done, err := s.guarded(ctx, one, h, s.claimStatement(h, id, part))
		if err != nil {
			return nil, err
		}
		if done.rows == len(part) {
			now := time.UnixMicro(done.lastID).UTC()
			for i, at := range missing {
				claimed[at] = jobs.Claimed{Mine: true, Record: claimedNow(h, part[i], now)}
			}
			return claimed, nil
		}
		keys := make([]jobs.Key, len(part))
		for i, c := range part {
			keys[i] = plain(c.Key)
		}
		f, err := s.readRuns(ctx, one, h, keys)
		if err != nil {
			return nil, err
		}
		var absent []int
		for i, at := range missing {
			if r, ok := f.runs[keys[i]]; ok {
				claimed[at] = jobs.Claimed{Mine: r.id == id, Record: r.Record}
			} else {
				absent = append(absent, at)
			}
		}
		switch {
		case len(absent) == 0:
			return claimed, nil
		case f.replaced:
			return nil, jobs.ErrReplaced
		}
		missing = absent // they were there, and have been pruned since
	}
	return nil, fmt.Errorf("rows were inserted %d times and are not there: somebody deletes them", claimTries)
}

func (s *Store) claimStatement(h jobs.Holder, id jobs.ClaimID, claims []jobs.Claim) string {
	rows := make(table, len(claims))
	for i, c := range claims {
		rows[i] = row{c.Job, c.Tick.UnixMicro(), c.Trigger, int(c.State), delayMicros(c.Delay), c.Missed, jobs.CutError(c.Error)}
	}
	return fill(s.runs.claim, rows, string(id[:]), h.Group, h.Owner, h.Token)
}

// claimedNow is what the claim statement wrote.
func claimedNow(h jobs.Holder, c jobs.Claim, now time.Time) jobs.Record {
	r := jobs.Record{
		Key: plain(c.Key), State: c.State, Owner: h.Owner, Token: h.Token,
		Claimed: now, Missed: c.Missed, Error: jobs.CutError(c.Error),
	}
	switch c.State {
	case jobs.Running:
		r.Attempt, r.Started = 1, now
	case jobs.Waiting:
		r.Due = now.Add(time.Duration(delayMicros(c.Delay)) * time.Microsecond)
	default:
		r.Finished = now
	}
	return r
}
