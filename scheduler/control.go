package scheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// heard is what a heartbeat said of the ledger, or would say.
type heard struct {
	store.Beat
	skew lease.Skew
	at   time.Time // by the monotonic clock
}

// beats is what the heartbeats of a term and its look at the ledger tell each other.
type beats struct {
	newest     chan heard    // capacity 1: the newest heartbeat that looked at the ledger
	known      atomic.Uint64 // the changes of the ledger, as it was read last
	listening  atomic.Bool   // follow runs
	plainUntil time.Time     // heartbeats only renew until then. The keeper's goroutine owns it
}

// renew sends the heartbeats of this replica. That of an open term looks at the ledger
// too. When that fails, a table of the ledger may be locked: the heartbeats then only
// renew, for a while, and the term looks by statements of its own.
func (s *Scheduler) renew(ctx context.Context, r store.Renew) (int, error) {
	db, ok := s.db.(store.Heartbeats)
	v := s.current.Load()
	if !ok || v == nil || !v.beats.listening.Load() || len(r.Leases) != 1 || r.Leases[0].Token != v.holder.Token || v.ctx.Err() != nil {
		return s.db.Renew(ctx, r)
	}
	sent := s.clock.own()
	if sent.Mono.Before(v.beats.plainUntil) {
		return s.db.Renew(ctx, r)
	}
	beat, err := db.Beat(ctx, r.Owner, r.Heartbeat, r.Leases[0], v.beats.known.Load())
	if err != nil {
		v.beats.plainUntil = sent.Mono.Add(4 * v.timing.TTL)
		return 0, err
	}
	if !beat.Renewed {
		return 0, nil
	}
	now := s.clock.own()
	select {
	case <-v.beats.newest: // out of date
	default:
	}
	v.beats.newest <- heard{beat, keeper.SkewOf(beat.Now, sent, now), now.Mono}
	return 1, nil
}

// follow takes in what is asked of the leader, pause, resume, trigger or cancel, until
// the term ends: when the request signal comes, and by what the heartbeats say. Without
// these it looks by itself.
func (t *term) follow() {
	pulse := t.dog.begin("the look at the ledger")
	defer pulse.end()
	every := t.lookEvery()
	t.beats.listening.Store(true)
	timer := time.NewTimer(every)
	defer timer.Stop()
	asked := false // to read the ledger even if nothing has changed
	var list relisted
	limit := t.timing.AttemptTimeout
	for {
		pulse.beat()
		timer.Reset(every)
		var beat *heard
		var answer chan<- bool
		select {
		case b := <-t.beats.newest:
			beat = &b
		case answer = <-t.asks:
			asked = true
		case <-t.look:
			asked = true
		case list = <-t.relists:
			asked = true
		case <-timer.C:
		case <-t.ctx.Done():
			return
		}
		snapshot, changed, err := t.news(pulse, beat, asked, limit)
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
			every = min(every, time.Second)
		} else {
			t.trouble.Worked("read the ledger")
			every = t.lookEvery()
		}
		fruit := false
		if changed {
			fruit, asked = snapshot.Changes != t.beats.known.Swap(snapshot.Changes), false
			relisted := list
			list = nil
			t.do(func(t *term) {
				if !t.met(snapshot) {
					return
				}
				if relisted != nil {
					t.takeIn(relisted, snapshot)
				}
				t.apply(snapshot)
			})
		}
		if answer != nil {
			answer <- fruit
		}
	}
}

// lookSoon has the ledger read, after what this term knows to be in it.
func (t *term) lookSoon() {
	select {
	case t.look <- struct{}{}:
	default: // a look is asked for already
	}
}

// lookEvery is how long the term waits for heartbeats that look at the ledger, until it
// looks by itself.
func (v *env) lookEvery() time.Duration {
	if _, ok := v.db.(store.Heartbeats); ok {
		return v.timing.RenewEvery + v.timing.AttemptTimeout
	}
	return time.Second
}

// heed has the ledger read, since the request signal came, and reports whether there was
// a request. Where that takes long, as with a large ledger, a stream of requests has it
// done for a fifth of the time.
func (t *term) heed() bool {
	answer := make(chan bool, 1)
	began := time.Now()
	select {
	case t.asks <- answer:
	case <-t.ctx.Done():
		return false
	}
	var fruit bool
	select {
	case fruit = <-answer:
	case <-t.ctx.Done():
		return false
	}
	const long = 20 * time.Millisecond
	_ = retry.Sleep(t.ctx, min(4*max(0, time.Since(began)-long), time.Second))
	return fruit
}

// news reads the ledger if that was asked for, if it has changed, or if another server
// has it now, within limit. Whether it has, the beat says; without one, a statement does.
// Each statement may take nearly a TTL, so each begins with a beat of the pulse.
func (t *term) news(pulse *pulse, beat *heard, asked bool, limit time.Duration) (snapshot jobs.Snapshot, changed bool, err error) {
	pulse.beat()
	if beat == nil && !asked {
		soon, cancel := context.WithTimeout(t.ctx, t.timing.AttemptTimeout)
		defer cancel()
		sent := t.clock.own()
		var present store.Changes
		err := t.stream.Timed(t.head(), "changes", 0, func() (err error) {
			present, err = t.db.Changes(soon, t.holder.Group)
			return err
		})
		if err != nil {
			return snapshot, false, err
		}
		now := t.clock.own()
		beat = &heard{store.Beat{Asked: present.Number != t.beats.known.Load(), Now: present.Now, Server: present.Server}, keeper.SkewOf(present.Now, sent, now), now.Mono}
	}
	if beat != nil {
		keeper.HeldOf(t.ctx).Answered(beat.Server)
		if err := t.clock.observe(beat.skew); err != nil {
			return snapshot, false, err
		}
		same := t.memory.alive(beat.Server, beat.at, beat.Now)
		if !beat.Asked && same && !asked {
			return snapshot, false, nil
		}
	}
	pulse.beatFor(limit - t.timing.AttemptTimeout)
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	snapshot, err = t.load(ctx, false)
	return snapshot, err == nil, err
}

// tellControl tells of the pauses and resumes that a snapshot shows for the first time.
func (t *term) tellControl(snapshot jobs.Snapshot) {
	if !t.stream.Observed() {
		return
	}
	tell := func(was, is bool, job string) {
		action := event.Paused
		if !is {
			action = event.Resumed
		}
		if was != is {
			t.stream.Emit(event.Control{Header: t.head(), Action: action, Key: jobs.Key{Job: job}})
		}
	}
	tell(t.groupPaused, snapshot.Paused, "")
	for name, known := range snapshot.Jobs {
		if e := t.entries[name]; e != nil {
			tell(e.known.Paused, known.Paused, name)
		}
	}
}

// tellCancel tells of the request to end a run, once; r is nil where it is not in hand.
func (t *term) tellCancel(r *run, record jobs.Record) {
	if r == nil || r.stop == nil {
		t.stream.Emit(event.Control{Header: t.head(), Action: event.CancelAsked, Key: record.Key})
	}
}

// tellTaken tells of a run that waits, and that the term takes up.
func (t *term) tellTaken(r *run) {
	record := r.record
	if record.Owner == "" {
		t.stream.Emit(event.Control{Header: t.head(), Action: event.Triggered, Key: record.Key})
	}
	r.told = true
	t.stream.Emit(event.RunClaimed{Header: t.head(), Key: record.Key, Waiting: true})
}

// apply takes in a snapshot of the ledger: at the start of the term, and after
// each pause, resume, trigger or cancel request. The snapshot may be out of date,
// both for runs that are in hand and for others. For the others, the ledger then
// refuses the writes that follow.
func (t *term) apply(snapshot jobs.Snapshot) {
	if t.stopping {
		return
	}
	if t.draining { // what is not in hand is the next leader's
		for _, record := range snapshot.Open {
			if e := t.entries[record.Job]; e != nil && record.CancelAsked && e.runs[record.Key] != nil {
				t.end(e.runs[record.Key], jobs.ErrCancelled)
			}
		}
		return
	}
	t.tellControl(snapshot)
	t.groupPaused, t.pauses = snapshot.Paused, t.pausesOf(snapshot, "")
	for name, known := range snapshot.Jobs {
		if e := t.entries[name]; e != nil {
			e.known.Paused, e.pauses, e.stamped = known.Paused, t.pausesOf(snapshot, name), snapshot.Pauses[name]
			// The cursor moved on because a refused claim has arrived again,
			// late. Its row is among the open ones: it is not claimed again.
			if e.refused || !e.claiming && known.Cursor.After(e.known.Cursor) {
				t.goOn(e, known)
			}
		}
	}
	t.denyGone(snapshot)
	for _, record := range snapshot.Open { // before any other run of their jobs
		if e := t.entries[record.Job]; e != nil && !e.removed && e.runs[record.Key] == nil {
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
