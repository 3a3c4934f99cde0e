package scheduler

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// A job's history is pruned after so many of its runs have ended, and after so
// much time. While none ends, rows only grow old: then a day will do, and a leader
// with many jobs at rest sends little.
const (
	pruneEvery   = 200
	pruneAtLeast = time.Hour
	pruneAtRest  = 24 * time.Hour
)

// keepBackfills is how long the runs of a backfill are kept at least from its request
// on, longer than the request may be repeated: a repetition finds them.
const keepBackfills = 15 * time.Minute

// keepBackfill puts off pruning for a backfill that has a run in hand.
func (t *term) keepBackfill(r *run) {
	now := t.now()
	age := max(0, t.clock.theirs(now).Sub(triggers.Requested(r.record.Trigger)))
	r.entry.keepUntil = later(r.entry.keepUntil, time.Now().Add(keepBackfills-age))
}

// pruneSoon plans when the history of a job is pruned first.
func (e *entry) pruneSoon(now time.Time) {
	e.pruneAt, e.pruneAtRest = now.Add(keepBackfills+rand.N(pruneAtLeast-keepBackfills)), now.Add(keepBackfills+rand.N(pruneAtRest-keepBackfills))
}

// prune deletes old runs of one job at a time, beside everything else.
func (t *term) prune() {
	if t.pruning || t.stage == stopped {
		return
	}
	now := time.Now()
	if t.pruneArchive(now) {
		return
	}
	all := len(t.order) + len(t.strays)
	for i := range all {
		at := (t.pruned + 1 + i) % all // a busy job must not hold up the others
		e := t.prunable(at)
		due := e.pruneAt
		if e.ended == 0 {
			due = e.pruneAtRest
		}
		if e.ended < pruneEvery && now.Before(due) || now.Before(e.keepUntil) {
			continue
		}
		if at >= len(t.order) && !t.isStray(e) {
			e.pruneAtRest = now.Add(pruneAtRest)
			continue
		}
		e.ended, e.pruneAt, e.pruneAtRest = 0, now.Add(pruneAtLeast), now.Add(pruneAtRest)
		t.pruning, t.pruned = true, at
		job, keep := e.job.Name, e.keep()
		t.beside(func(v *env) {
			err := v.pruneAll(func(ctx context.Context) (int, error) { return v.db.Prune(ctx, v.holder.Group, job, keep, 0) })
			v.do(func(t *term) {
				t.pruning = false
				t.prune()
				if err != nil && t.ctx.Err() == nil {
					t.log.Warn("cannot prune the history", zap.String("job", job), zap.Error(err))
				}
			})
		})
		return
	}
}

// prunable is the job at a place: those of the term come first.
func (t *term) prunable(at int) *entry {
	if at < len(t.order) {
		return t.order[at]
	}
	return t.strays[at-len(t.order)]
}

// noteStrays notes which jobs of the ledger this term does not have. No term would
// prune their history.
func (t *term) noteStrays(snapshot jobs.Snapshot) {
	now := time.Now()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(snapshot.Jobs)) {
		if t.entries[name] != nil {
			continue
		}
		names = append(names, name)
		gone := snapshot.Jobs[name].Gone
		if gone.IsZero() {
			gone = snapshot.Now
		}
		t.addStray(name, gone, now)
	}
	if len(names) > 0 {
		t.log.Info("the ledger knows jobs that this program does not have: their ticks are left alone", zap.Int("count", len(names)), listed("jobs", names))
	}
}

func (t *term) addStray(name string, gone, now time.Time) {
	e := newEntry(t.holder.Group, declare(jobs.Job{Name: name, Schedule: jobs.Manual()}, false))
	e.known.Gone = gone
	e.pruneSoon(now)
	t.strays = append(t.strays, e)
}

// isStray reports whether a job is to be pruned as the default History says: no
// replica has it, and it has been gone for a day.
func (t *term) isStray(e *entry) bool {
	roster := t.roster.read()
	return t.entries[e.job.Name] == nil && roster.LeaderTold() && len(roster.With(e.job.Name)) == 0 &&
		t.now().Sub(t.clock.ours(e.known.Gone)) >= pruneAtRest
}

// pruneArchive deletes what is old of the audit and of the terms, within an hour of the
// term's begin and then once a day, and reports whether it does now.
func (t *term) pruneArchive(now time.Time) bool {
	archive, ok := t.db.(store.Archive)
	if t.archiveAt.IsZero() {
		t.archiveAt = now.Add(keepBackfills + rand.N(pruneAtLeast-keepBackfills))
	}
	if !ok || now.Before(t.archiveAt) {
		return false
	}
	t.pruning, t.archiveAt = true, now.Add(pruneAtRest)
	t.beside(func(v *env) {
		err := v.pruneAll(func(ctx context.Context) (int, error) { return archive.PruneArchive(ctx, v.holder.Group, 0) })
		v.do(func(t *term) {
			t.pruning = false
			if err != nil && t.ctx.Err() == nil {
				t.log.Warn("cannot prune the audit and the terms", zap.Error(err))
			}
		})
	})
	return true
}

// pruneAll prunes batch by batch.
func (v *env) pruneAll(batch func(context.Context) (int, error)) error {
	for {
		ctx, cancel := context.WithTimeout(v.ctx, v.timing.AttemptTimeout)
		n, err := batch(ctx)
		cancel()
		if err != nil || n == 0 {
			return err
		}
	}
}
