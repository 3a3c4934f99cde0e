package scheduler

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// watch asks the ledger each second whether somebody wants something, until the
// term ends.
func (t *term) watch(changes uint64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.ctx.Done():
			return
		}
		snapshot, changed, err := t.news(changes)
		switch {
		case t.ctx.Err() != nil:
			return
		case err != nil:
			t.log.Warn("cannot read the ledger", zap.Error(err))
		case changed:
			changes = snapshot.Changes
			t.do(func() { t.apply(snapshot) })
		}
	}
}

func (t *term) news(changes uint64) (snapshot jobs.Snapshot, changed bool, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.timing.AttemptTimeout)
	defer cancel()
	now, err := t.ledger.Changes(ctx, t.holder.Group)
	if err != nil || now == changes {
		return snapshot, false, err
	}
	snapshot, err = t.ledger.Load(ctx, t.holder.Group)
	return snapshot, true, err
}

// apply takes in what the ledger says: at the start of the term, and whenever
// somebody has paused, resumed, triggered or cancelled something. What it says
// of a row that is in hand may be old; of one that is not, too, and then the
// ledger refuses what follows.
func (t *term) apply(snapshot jobs.Snapshot) {
	if t.stopping {
		return
	}
	t.paused = snapshot.Paused
	for name, known := range snapshot.Jobs {
		if e := t.entries[name]; e != nil {
			e.known.Paused = known.Paused
		}
	}
	for _, record := range snapshot.Open {
		e := t.entries[record.Job]
		if e == nil {
			continue // another release's
		}
		switch r := e.rows[record.Key]; {
		case r != nil && record.CancelAsked:
			t.end(r, jobs.ErrCancelled)
		case r != nil:
		case record.CancelAsked:
			t.close(t.take(e, record), jobs.Cancelled, jobs.ErrCancelled.Error())
		case record.State == jobs.Waiting:
			t.enqueue(t.take(e, record), min(record.Due.Sub(snapshot.Now), e.longestWait(record.Attempt)))
		case record.Token != t.holder.Token:
			t.recover(t.take(e, record))
		}
	}
}

// recover decides what becomes of a run that an earlier term did not finish.
func (t *term) recover(r *row) {
	log := t.log.With(zap.String("job", r.record.Job), zap.Time("tick", r.record.Tick), zap.String("by", r.record.Owner), zap.Int("attempt", r.record.Attempt))
	if r.entry.rerun(r.record.Attempt) {
		log.Warn("an interrupted run is run again")
		t.enqueue(r, 0)
		return
	}
	why := "not finished by " + r.record.Owner
	if r.entry.job.Recover == jobs.RecoverRerun {
		why += ", and interrupted too often to be run again"
	}
	log.Warn("a run was interrupted and is not run again", zap.String("why", why))
	t.close(r, jobs.Interrupted, why)
}

// longestWait is how long a run that waits after so many attempts may have to
// wait at most, by the job's policies: by the database's clock alone it would be
// as much longer as that clock was set back meanwhile.
func (e *entry) longestWait(attempts int) time.Duration {
	if attempts == 0 {
		return 0 // it waits for room, not for a time
	}
	return e.job.Retry.Longest(attempts) // zero for one that was handed on by a clean stop
}

// rerun reports whether a run that was interrupted in this attempt gets another.
func (e *entry) rerun(attempt int) bool {
	return e.job.Recover == jobs.RecoverRerun && attempt < max(jobs.MaxInterrupted, e.job.Retry.Attempts)
}
