package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
)

// poll reads the ledger once a second for pause, resume, trigger and cancel
// requests, until the term ends.
func (t *term) poll(changes uint64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	pulse := t.dog.begin("the poll of the ledger")
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

// news reads the ledger if it has changed, if that was asked for, or if another server has it now, within
// limit. Each of its statements may take nearly a TTL, so each begins with a
// beat.
func (t *term) news(pulse *pulse, changes uint64, asked bool, limit time.Duration) (snapshot jobs.Snapshot, changed bool, err error) {
	pulse.beat()
	soon, cancel := context.WithTimeout(t.ctx, t.timing.AttemptTimeout)
	defer cancel()
	sent := t.clock.own()
	present, err := t.ledger.Changes(soon, t.holder.Group)
	if err != nil {
		return snapshot, false, err
	}
	if err := t.clock.observe(keeper.SkewOf(present.Now, sent, t.clock.own())); err != nil {
		return snapshot, false, err
	}
	same := t.memory.alive(present.Server, t.clock.own().Mono, present.Now)
	if present.Number == changes && same && !asked {
		return snapshot, false, nil
	}
	pulse.beatFor(limit - t.timing.AttemptTimeout)
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	snapshot, err = t.load(ctx, false)
	return snapshot, true, err
}

// apply takes in a snapshot of the ledger: at the start of the term, and after
// each pause, resume, trigger or cancel request. The snapshot may be out of date,
// both for runs that are in hand and for others. For the others, the ledger then
// refuses the writes that follow.
func (t *term) apply(snapshot jobs.Snapshot) {
	if t.stopping {
		return
	}
	t.groupPaused, t.pauses = snapshot.Paused, t.pausesOf(snapshot, "")
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
	for _, record := range snapshot.Open { // before any other run of their jobs
		if e := t.entries[record.Job]; e != nil && e.runs[record.Key] == nil {
			t.leave(e, record)
		}
	}
	for _, record := range snapshot.Open {
		e := t.entries[record.Job]
		if e == nil {
			continue // a job of another release
		}
		t.found(e, record, snapshot.Now)
	}
	now := t.now()
	for _, e := range t.order { // for ticks that a pause held back
		t.freed(e)
		t.claimDue(e, now)
	}
}
