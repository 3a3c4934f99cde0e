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

// Claim implements [store.Ledger]. Up to 500 rows are one transaction; more are several. A call that ends with an error
// may have claimed some: repeated with the same id, it goes on.
func (l Ledger) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	// In the order of their keys: of a job's ticks, a later transaction may only claim later ones.
	order := make([]int, len(claims))
	for i, c := range claims {
		if err := cmp.Or(ledgerrows.CheckClaim(l.pkg, c), l.checkTriggers(c.Key, c.Then)); err != nil {
			return nil, err
		}
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return ledgerrows.CompareKeys(claims[a].Key, claims[b].Key) })
	all := make([]store.Claimed, len(claims))
	if len(claims) == 0 {
		return all, ctx.Err()
	}
	for part := range slices.Chunk(order, batch) {
		need := Need{Doing: "claim", By: h, Held: true}
		for _, i := range part {
			c := claims[i]
			need.Jobs = append(need.Jobs, c.Job)
			need.Runs = append(need.Runs, ledgerrows.Plain(c.Key))
			if ledgerrows.Extends(c) {
				need.Runs = append(need.Runs, extended(c))
			}
			for _, f := range c.Then {
				need.Runs = append(need.Runs, ledgerrows.Plain(f.Key))
			}
		}
		need.Jobs = slices.Compact(need.Jobs)
		var answer error
		err := l.rows.Do(ctx, h.Group, need, func(tx *Tx) {
			if answer = nil; tx.elsewhere(h) {
				answer = store.ErrOtherServer
			}
			for _, i := range part {
				if answer == nil {
					all[i], answer = tx.claim(h, id, claims[i])
				}
			}
		})
		if err := cmp.Or(err, answer); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// claim answers a claim, after inserting its row if there is none. Newest stays as it was before the call.
func (tx *Tx) claim(h store.Holder, id store.ClaimID, c store.Claim) (store.Claimed, error) {
	key := ledgerrows.Plain(c.Key)
	if r, ok := tx.Runs[key]; ok {
		return store.Claimed{Mine: r.ID == id, Record: r.Record}, nil
	}
	switch {
	case !tx.current(h):
		return store.Claimed{}, store.ErrReplaced
	case tx.refuses(c):
		return store.Claimed{Record: jobs.Record{Key: key}}, nil
	}
	r, ok := tx.extend(h, id, c)
	if !ok {
		keeps := h.Keeps(c.State, c.For)
		r = Run{ID: id, Record: jobs.Record{
			Key: key, State: c.State, Owner: keeps.Owner, Token: keeps.Token,
			Claimed: tx.Now, Missed: c.Missed, Error: ledgerrows.CutError(c.Error),
			Details: ledgerrows.ClaimDetails(h, c),
		}}
		switch c.State {
		case jobs.Running:
			r.Attempt, r.Started = 1, tx.Now
		case jobs.Waiting:
			r.Due = tx.Now.Add(c.Delay.Truncate(time.Microsecond))
		default:
			r.Finished = tx.Now
		}
		tx.putRun(r)
		tx.follow(h, r, c.Then)
	}
	return store.Claimed{Mine: true, Record: r.Record}, nil
}

// refuses reports whether a claim of a row that is not there is refused.
func (tx *Tx) refuses(c store.Claim) bool {
	if c.Trigger != 0 {
		return false
	}
	if newest, ok := tx.Newest[c.Job]; ok && !c.Tick.After(newest) || newest.Before(c.After) {
		return true
	}
	return c.State != jobs.Skipped && (tx.Group.Paused || tx.Jobs[c.Job].Paused)
}

// extended is the key of the row that a claim may take over.
func extended(c store.Claim) jobs.Key {
	return ledgerrows.Plain(jobs.Key{Job: c.Job, Tick: c.Extends})
}

// extend gives a row of skipped ticks one more, if it can: see [store.Claim].
func (tx *Tx) extend(h store.Holder, id store.ClaimID, c store.Claim) (Run, bool) {
	if !ledgerrows.Extends(c) || !c.Extends.Equal(tx.Newest[c.Job]) {
		return Run{}, false
	}
	was := extended(c)
	r, ok := tx.Runs[was]
	if !ok || r.State != jobs.Skipped || r.Token != h.Token || r.Error != ledgerrows.CutError(c.Error) {
		return Run{}, false
	}
	r.Tick, r.ID, r.Finished = ledgerrows.Plain(c.Key).Tick, id, tx.Now
	r.Missed += 1 + c.Missed
	tx.rekey(was, r)
	return r, true
}
