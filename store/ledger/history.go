package ledger

import (
	"cmp"
	"context"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// PassOver implements [store.Ledger].
func (l Ledger) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (passed int, err error) {
	var answer error
	err = l.rows.Do(ctx, h.Group, Need{Doing: "pass over ticks", By: h, Later: job, After: after}, func(tx *Tx) {
		passed, answer = 0, nil
		if !tx.current(h) {
			answer = store.ErrReplaced
			return
		}
		for _, r := range tx.Later {
			if was := r.Key; r.Trigger == 0 && r.Token != h.Token {
				r.Trigger = h.Token
				tx.rekey(was, r)
				passed++
			}
		}
	})
	if err := cmp.Or(err, answer); err != nil {
		return 0, err
	}
	return passed, nil
}

// Prune implements [store.Ledger]. It needs all runs of the job: a database that has to read them does better with a
// statement of its own.
func (l Ledger) Prune(ctx context.Context, group, job string, history jobs.History, most int) (deleted int, err error) {
	if most <= 0 {
		most = batch
	}
	err = l.rows.Do(ctx, group, Need{Doing: "prune runs", Later: job}, func(tx *Tx) {
		runs, cursor := tx.Later, -1
		for i, r := range runs {
			if r.Trigger == 0 {
				cursor = i
			}
		}
		deleted = 0
		for i, r := range runs {
			old := history.For > 0 && tx.Now.Sub(r.Finished) > history.For
			many := history.Keep > 0 && len(runs)-i > history.Keep
			if (old || many) && deleted < most && i != cursor && r.State.Over() {
				tx.Deleted = append(tx.Deleted, r)
				deleted++
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
