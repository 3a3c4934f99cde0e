package scheduler

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

// A job's history is pruned after so many of its runs have ended, and after so
// much time. While none ends, rows only grow old: then a day will do, and a leader
// with many jobs at rest sends little.
const (
	pruneEvery   = 200
	pruneAtLeast = time.Hour
	pruneAtRest  = 24 * time.Hour
)

// pruneSoon plans when the history of a job is pruned first.
func (e *entry) pruneSoon(now time.Time) {
	e.pruneAt, e.pruneAtRest = now.Add(rand.N(pruneAtLeast)), now.Add(rand.N(pruneAtRest))
}

// prune deletes old runs of one job at a time, beside everything else.
func (t *term) prune() {
	if t.pruning || t.stopping {
		return
	}
	now := time.Now()
	for i := range t.order {
		at := (t.pruned + 1 + i) % len(t.order) // a busy job must not hold up the others
		e := t.order[at]
		due := e.pruneAt
		if e.ended == 0 {
			due = e.pruneAtRest
		}
		if e.ended < pruneEvery && now.Before(due) {
			continue
		}
		e.ended, e.pruneAt, e.pruneAtRest = 0, now.Add(pruneAtLeast), now.Add(pruneAtRest)
		t.pruning, t.pruned = true, at
		t.helpers.Go(func() {
			err := t.pruneJob(e)
			t.do(func() {
				t.pruning = false
				t.prune()
				if err != nil && t.ctx.Err() == nil {
					t.log.Warn("cannot prune the history", zap.String("job", e.job.Name), zap.Error(err))
				}
			})
		})
		return
	}
}

func (t *term) pruneJob(e *entry) error {
	for {
		ctx, cancel := context.WithTimeout(t.ctx, t.timing.AttemptTimeout)
		n, err := t.ledger.Prune(ctx, t.holder.Group, e.job.Name, e.job.History, 0)
		cancel()
		if err != nil || n == 0 {
			return err
		}
	}
}
