package scheduler

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// watch polls the ledger once a second for pause, resume, trigger and cancel
// requests, until the term ends.
func (t *term) watch(changes uint64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	pulse := t.dog.begin("the watch on the ledger")
	defer pulse.end()
	asked := false // to read the ledger even if nothing has changed
	limit := t.timing.AttemptTimeout
	for {
		pulse.beat()
		select {
		case <-tick.C:
		case <-t.look:
			asked = true
		case <-t.ctx.Done():
			return
		}
		snapshot, changed, err := t.news(pulse, changes, asked, limit)
		if t.ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrSkew) {
			t.cut(err)
			return
		}
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) { // as in retryLonger
				limit = min(2*limit, max(limit, openMost/2))
			}
			t.trouble.Failed("read the ledger", err)
			continue
		}
		t.trouble.Worked("read the ledger")
		if changed {
			changes, asked = snapshot.Changes, false
			t.do(func() { t.apply(snapshot) })
		}
	}
}

// news reads the ledger if it has changed, or if that was asked for, within
// limit. Each of its statements may take nearly a TTL, so each begins with a
// beat.
func (t *term) news(pulse *pulse, changes uint64, asked bool, limit time.Duration) (snapshot jobs.Snapshot, changed bool, err error) {
	pulse.beat()
	soon, cancel := context.WithTimeout(t.ctx, t.timing.AttemptTimeout)
	defer cancel()
	sent := t.clock.own()
	present, now, err := t.ledger.Changes(soon, t.holder.Group)
	if err != nil {
		return snapshot, false, err
	}
	if err := t.clock.observe(lease.SkewOf(now, sent, t.clock.own())); err != nil {
		return snapshot, false, err
	}
	t.memory.alive(t.clock.own().Mono, now)
	if present == changes && !asked {
		return snapshot, false, nil
	}
	pulse.beatFor(limit - t.timing.AttemptTimeout)
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	snapshot, err = t.load(ctx, "")
	return snapshot, true, err
}

// apply takes in a snapshot of the ledger: at the start of the term, and after
// each pause, resume, trigger or cancel request. The snapshot may be out of date,
// both for rows that are in hand and for others. For the others, the ledger then
// refuses the writes that follow.
func (t *term) apply(snapshot jobs.Snapshot) {
	if t.stopping {
		return
	}
	t.paused, t.pauses = snapshot.Paused, t.pausesOf(snapshot, "")
	for name, known := range snapshot.Jobs {
		if e := t.entries[name]; e != nil {
			e.known.Paused, e.pauses = known.Paused, t.pausesOf(snapshot, name)
			// The cursor moved on because a refused claim has arrived again,
			// late. Its row is among the open ones: it is not claimed again.
			if e.refused || !e.claiming && known.Cursor.After(e.known.Cursor) {
				t.goOn(e, known)
			}
		}
	}
	for _, record := range snapshot.Open {
		e := t.entries[record.Job]
		if e == nil {
			continue // a job of another release
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
		default:
			t.reclaim(t.take(e, record))
		}
	}
	now := t.now()
	for _, e := range t.order { // for ticks that a pause held back
		t.freed(e)
		t.claimDue(e, now)
	}
}

// reclaim deals with a run that is under this term's token and not in hand, as a
// restored table may have it, or a claim that was refused and arrived late once
// more. The run of such a claim never began, so it is run whatever [jobs.Recover]
// says. What the ledger has said may be old: until it has taken the change, the
// row counts for nothing.
func (t *term) reclaim(r *row) {
	began := !r.entry.wasRefused(r.record.Key)
	if !began && r.entry.tooLate(r.record.Tick, t.now()) {
		t.close(r, jobs.Skipped, tooLate)
		return
	}
	if began && !r.entry.rerun(r.record.Attempt) {
		t.close(r, jobs.Interrupted, "not in hand of its holder")
		return
	}
	t.shift(r, closing)
	t.wrote.move(move(r.record, jobs.Waiting, ""), func(done bool) {
		if !done {
			t.forget(r)
			return
		}
		r.record.State = jobs.Waiting
		t.enqueue(r, 0)
	})
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
