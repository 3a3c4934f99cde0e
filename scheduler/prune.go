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
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/scheduler/internal/roster"
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
	age := max(0, t.clock.Theirs(now).Sub(triggers.Requested(r.record.Trigger)))
	r.entry.history.keep = later(r.entry.history.keep, time.Now().Add(keepBackfills-age))
}

// history is when that of a job is pruned.
type history struct {
	ended  int       // runs that ended since the last time
	at     time.Time // at the latest, if any has ended
	atRest time.Time // and if none has
	keep   time.Time // not earlier: see keepBackfill
}

// newHistory is one that is pruned soon.
func newHistory(now time.Time) history {
	soon := func(most time.Duration) time.Time { return now.Add(keepBackfills + rand.N(most-keepBackfills)) }
	return history{at: soon(pruneAtLeast), atRest: soon(pruneAtRest)}
}

func (h *history) isDue(now time.Time) bool {
	due := h.at
	if h.ended == 0 {
		due = h.atRest
	}
	return (h.ended >= pruneEvery || !now.Before(due)) && !now.Before(h.keep)
}

// janitor is what a term knows of the histories that it prunes, besides those of its jobs.
type janitor struct {
	roster    *roster.Roster
	busy      bool
	last      int       // the job that was pruned last
	strays    []*entry  // jobs that this term does not have
	archiveAt time.Time // when the audit and the terms are pruned next
}

// prune deletes old runs of one job at a time, beside everything else.
func (t *term) prune() {
	j := &t.janitor
	if j.busy || t.stage == stopped {
		return
	}
	now := time.Now()
	if t.pruneArchive(now) {
		return
	}
	all := len(t.roll.order) + len(j.strays)
	for i := range all {
		at := (j.last + 1 + i) % all // a busy job must not hold up the others
		e := t.prunable(at)
		if !e.history.isDue(now) {
			continue
		}
		if at >= len(t.roll.order) && !t.isStray(e) {
			e.history.atRest = now.Add(pruneAtRest)
			continue
		}
		e.history.ended, e.history.at, e.history.atRest = 0, now.Add(pruneAtLeast), now.Add(pruneAtRest)
		j.last = at
		v, job, keep := t.env, e.job.Name, plan.Keep(&e.job.Job)
		if e.job.onEach {
			keep.Keep *= max(1, len(t.spread.members))
		}
		t.pruneBeside(t.log.With(zap.String("job", job)), "cannot prune the history", func(ctx context.Context) (int, error) {
			return v.db.Prune(ctx, v.holder.Group, job, keep, 0)
		})
		return
	}
}

// prunable is the job at a place: those of the term come first.
func (t *term) prunable(at int) *entry {
	if at < len(t.roll.order) {
		return t.roll.order[at]
	}
	return t.janitor.strays[at-len(t.roll.order)]
}

// noteStrays notes which jobs of the ledger this term does not have. No term would
// prune their history.
func (t *term) noteStrays(snapshot jobs.Snapshot) {
	now := time.Now()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(snapshot.Jobs)) {
		if t.roll.entries[name] != nil {
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
	e.Cursor = plan.NewCursor(&e.job.Job, jobs.Known{Gone: gone})
	e.history = newHistory(now)
	t.janitor.strays = append(t.janitor.strays, e)
}

// isStray reports whether a job is to be pruned as the default History says: no
// replica has it, and it has been gone for a day.
func (t *term) isStray(e *entry) bool {
	roster := t.janitor.roster.Read()
	return t.roll.entries[e.job.Name] == nil && roster.LeaderTold() && len(roster.With(e.job.Name)) == 0 &&
		t.now().Sub(t.clock.Ours(e.Known().Gone)) >= pruneAtRest
}

// pruneArchive deletes what is old of the audit and of the terms, within an hour of the
// term's begin and then once a day, and reports whether it does now.
func (t *term) pruneArchive(now time.Time) bool {
	j := &t.janitor
	archive, ok := t.db.(store.Archive)
	if j.archiveAt.IsZero() {
		j.archiveAt = now.Add(keepBackfills + rand.N(pruneAtLeast-keepBackfills))
	}
	if !ok || now.Before(j.archiveAt) {
		return false
	}
	j.archiveAt = now.Add(pruneAtRest)
	group := t.holder.Group
	t.pruneBeside(t.log, "cannot prune the audit and the terms", func(ctx context.Context) (int, error) {
		return archive.PruneArchive(ctx, group, 0)
	})
	return true
}

// pruneBeside prunes batch by batch, beside the loop, and then the next history that is due.
func (t *term) pruneBeside(log *zap.Logger, failed string, batch func(context.Context) (int, error)) {
	t.janitor.busy = true
	t.beside(func(v *env) {
		n, err := 1, error(nil)
		for n > 0 && err == nil {
			ctx, cancel := context.WithTimeout(v.ctx, v.timing.AttemptTimeout)
			n, err = batch(ctx)
			cancel()
		}
		v.do(func(t *term) {
			t.janitor.busy = false
			t.prune()
			if err != nil && t.ctx.Err() == nil {
				log.Warn(failed, zap.Error(err))
			}
		})
	})
}
