package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// open declares the jobs to the ledger and takes in what it knows: where each
// job's ticks go on, and what an earlier term has left. It tries until it
// succeeds or the term ends.
func (t *term) open() error {
	var snapshot jobs.Snapshot
	var all []*declared
	for _, e := range t.order {
		all = append(all, e.job)
	}
	until, cancel := context.WithTimeoutCause(t.ctx, openMost, errNotOpened)
	defer cancel()
	err := t.wrote.retryLonger(until, "open the ledger", openMost/2, func(ctx context.Context) error {
		var err error
		if snapshot, err = t.load(ctx, true); err != nil {
			return err
		}
		// Whether a job was absent, a server that lacks the last writes may not know. It
		// shows that it has them once it has a declaration of this term.
		stale := t.isStale(snapshot)
		if !stale {
			if err = t.welcome(ctx, all, snapshot); err != nil {
				return err
			}
		}
		differing := t.differing(all, snapshot, t.gapFrom(snapshot))
		if err = t.ledger.Declare(ctx, t.holder, differing); err != nil {
			return err
		}
		t.memory.opened(t.holder.Token, t.clock.own().Mono)
		if len(differing) > 0 || stale {
			if snapshot, err = t.reload(ctx, false); err != nil {
				return err
			}
		}
		if stale && t.anyBack(snapshot) {
			return errStale
		}
		return t.missing(ctx, snapshot)
	})
	if err != nil {
		return err
	}
	clear(t.back)
	if snapshot, err = t.passOver(t.ctx, all, snapshot); err != nil {
		return err
	}
	if t.budgets, err = t.readBudgets(until, all, snapshot); err != nil {
		return err
	}
	for _, e := range t.order {
		t.know(e, snapshot)
	}
	t.server = snapshot.Server
	t.setAlarms()
	t.noteStrays(snapshot)
	t.changes = snapshot.Changes
	t.settle(snapshot.Open)
	t.apply(snapshot)
	return nil
}

// know takes in what the ledger knows of a job. What this term has done itself since
// that was read counts, too.
func (t *term) know(e *entry, snapshot jobs.Snapshot) {
	before := e.known
	e.known = snapshot.Jobs[e.job.Name]
	e.anchor = e.known.ScheduleSince
	e.known.ScheduleSince = t.clock.ours(e.known.ScheduleSince)
	e.recorded = later(e.recorded, e.known.Cursor)
	e.known.Cursor = later(before.Cursor, e.known.Cursor)
	e.known.Finished = later(before.Finished, t.clock.ours(e.known.Finished))
	now := t.now()
	if e.known.Finished.After(now) {
		e.finished(now) // the database's clock is ahead, or was
	}
	if e.known.ScheduleSince.Sub(now) > t.clock.most {
		t.log.Warn("a schedule that would rule from the future on, written under a wrong clock, rules from now on",
			zap.String("job", e.job.Name), zap.Time("since", e.known.ScheduleSince))
		e.known.ScheduleSince = now
	}
	e.resolve()
	if before.Since.IsZero() { // it is new to this term
		t.countFirst(e, snapshot.Pauses[e.job.Name])
		t.rest(e, e.locked(snapshot.Now))
	}
}

// reload reads the ledger again, once this term has declared its jobs.
func (t *term) reload(ctx context.Context, deep bool) (jobs.Snapshot, error) {
	snapshot, err := t.load(ctx, deep)
	if err == nil && t.isStale(snapshot) {
		err = errStale
	}
	return snapshot, err
}

// isStale reports whether a snapshot may lack a run that goes on. After an early
// takeover one from another server, such as a read replica, counts only if it has what
// this term has written.
func (t *term) isStale(snapshot jobs.Snapshot) bool {
	held := keeper.HeldOf(t.ctx)
	return held.PreviousStands() > 0 && snapshot.Server != held.Server() && snapshot.Opened.Token != t.holder.Token
}

// openMost is how long a term tries to open the ledger. Then it steps down: a
// replica that can run nothing must not keep the lease from one that can.
const openMost = 2 * time.Minute

var errStale = errors.New("the ledger is read from a server that lacks the last writes, such as a read replica behind a proxy")

var errNotOpened = fmt.Errorf("scheduler: the ledger could not be opened within %v", openMost)

// gapFrom is the instant from which a changed schedule is in force when a term
// begins: the end of the previous term, so that ticks in the gap between the two terms
// go through the misfire policy. A TTL is taken off, which is for schedules that
// [jobs.ParseSchedule] does not know: heartbeats do not wait for claims, so the claim of
// a tick that was due before the last one may never have arrived. Ticks that were
// claimed do not come again, because the cursor is behind them.
func (t *term) gapFrom(was jobs.Snapshot) time.Time {
	switch previous := keeper.HeldOf(t.ctx).Previous(); was.Opened.Token {
	case 0, previous.Token:
		if previous.RenewedAt.IsZero() {
			return time.Time{}
		}
		return previous.RenewedAt.Add(-t.timing.TTL)
	default:
		// Terms in between never fired anything. For the last term that did, the
		// ledger still knows when it began, but not when it ended.
		return was.Opened.At
	}
}

// differing are those of the jobs that are not as the ledger has them. A ledger that has
// them in part, after an attempt that ran out of time, is told the rest. from is when a
// changed schedule is in force from, unless the one before has ticks left.
func (t *term) differing(all []*declared, was jobs.Snapshot, from time.Time) (differing []store.Declared) {
	for _, job := range all {
		d := store.Declared{Name: job.Name, Schedule: job.text, From: from}
		known, ok := was.Jobs[d.Name]
		switch {
		case longAbsent(known, was.Now) && t.isStale(was):
			continue // see open
		case t.back[d.Name]:
			d.From = time.Time{} // from now on
		case ok && known.Schedule != d.Schedule:
			d.From = t.notPast(known, from, was.Now)
		case known.ScheduleSince.After(was.Now) && !known.Cursor.IsZero() && isTick(job.Schedule, known):
			// The database's clock was set back. The ledger does not tell any more
			// when the schedule began, but it had begun by its newest tick.
			d.From = t.clock.theirs(known.Cursor)
		}
		if !ok || known.Schedule != d.Schedule || !known.Gone.IsZero() || known.ScheduleSince.After(was.Now) {
			differing = append(differing, d)
		}
	}
	return differing
}

// isTick reports whether a job's newest tick is one of the schedule: after a change
// it may be one of the schedule before.
func isTick(s jobs.Schedule, known jobs.Known) bool {
	if r, ok := s.(jobs.Relative); ok {
		s = r.From(known)
	}
	return s.Next(known.Cursor.Add(-1)).Equal(known.Cursor)
}

// notPast is the instant from which a schedule that replaces the known one is in
// force: from, or right before the first tick of the known schedule that was due by
// then and has no row. There are such ticks when the last leader could not claim,
// drained, or died as soon as it had declared its jobs, or when the job was paused.
// What the ledger has of the future was stamped before the database's clock was set
// back, and does not count.
func (t *term) notPast(known jobs.Known, from, now time.Time) time.Time {
	old, ok := jobs.ParseSchedule(known.Schedule)
	if !ok || from.IsZero() {
		return from
	}
	if from.After(now) {
		from = now
	}
	after := known.Cursor
	if !known.ScheduleSince.After(now) {
		after = later(after, t.clock.ours(known.ScheduleSince))
	}
	if after.IsZero() {
		return from
	}
	if _, ok := jobs.Base(old).(jobs.FixedDelaySchedule); ok {
		return from // its next tick is not known while a run goes on
	}
	if relative, ok := old.(jobs.Relative); ok {
		old = relative.From(known)
		if known.Cursor.Before(after) {
			after = after.Add(-1) // its first tick may be the very instant
		}
	}
	first := old.Next(after)
	if early := t.clock.ours(from).Sub(first); !first.IsZero() && early >= 0 {
		return from.Add(-early - time.Microsecond)
	}
	return from
}
