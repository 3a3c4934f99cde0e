package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// lane has the writer's writes of one kind, claims or moves. One row that
// the database refuses, or that another transaction keeps locked, fails the whole
// statement. So the writes of a statement that failed are sent again, a quarter
// at a time, until the row is alone. If it fails alone twice while others succeed, it is set aside:
// it is tried again by itself, beside the others. While nothing succeeds, as in an
// outage, nothing is set aside.
type lane struct {
	what  string
	fresh []write       // not sent yet
	cut   func() *batch // makes a batch of the first of fresh
	// call sends a statement. The loop calls answer once it has succeeded, and
	// fail for writes that are not repeated any more.
	call func(ctx context.Context, id store.ClaimID, part []write) (answer func(), err error)
	fail func(part []write, err error)

	failed  []*batch // to be sent again
	aside   []*batch // of one write each
	sending int      // statements under way, without those of what is set aside
	apart   bool     // one of these is under way
	again   bool     // the turn of failed, and not of fresh

	wait   *backoff.ExponentialBackOff
	next   time.Time        // nothing is sent earlier, except what is set aside
	worked time.Time        // when a statement last succeeded
	broken map[string]error // why a job's row was set aside
}

// batch is a call of the ledger, which is repeated in parts after it has failed.
type batch struct {
	id     store.ClaimID // of all parts
	writes []write
	size   int       // how many of them the next statement takes at most
	most   int       // and any later one
	since  time.Time // when a statement first failed; zero: none has
	err    error     // of the last statement
	aside  bool
	next   time.Time // if aside: it is not sent earlier
}

// asideEvery is how often a row that was set aside is tried again.
const asideEvery = time.Second

func newLane(what string, timing lease.Timing) *lane {
	return &lane{what: what, broken: map[string]error{}, wait: waits(timing)}
}

func newBatch(writes []write) *batch {
	b := &batch{writes: writes, size: len(writes), most: len(writes)}
	_, _ = rand.Read(b.id[:]) // never fails
	return b
}

// add takes in a write. Those of a job that is set aside go there at once.
func (l *lane) add(x write) {
	if l.broken[x.job] == nil {
		l.fresh = append(l.fresh, x)
		return
	}
	b := newBatch([]write{x})
	b.aside = true
	l.aside = append(l.aside, b)
}

func (l *lane) idle() bool {
	return l.sending+len(l.fresh)+len(l.failed)+len(l.aside) == 0 && !l.apart
}

// pick returns the batch that is sent next; nil: none. New and failed ones take
// turns.
func (l *lane) pick() *batch {
	if len(l.fresh) > 0 && (len(l.failed) == 0 || !l.again) {
		l.again = true
		return l.cut()
	}
	if len(l.failed) == 0 {
		return nil
	}
	b := l.failed[0]
	l.again, l.failed = false, l.failed[1:]
	return b
}

// send sends what may be sent now, with at most so many statements under way.
func (w *writer) send(l *lane, most int) {
	if w.ctx.Err() != nil {
		w.giveUp(l)
	}
	now := time.Now()
	for l.sending < most && !l.next.After(now) {
		b := l.pick()
		if b == nil {
			break
		}
		l.sending++
		w.sendPart(l, b)
	}
	at := slices.IndexFunc(l.aside, func(b *batch) bool { return w.t.stopping || !b.next.After(now) })
	if at >= 0 && !l.apart {
		b := l.aside[at]
		l.aside = slices.Delete(l.aside, at, at+1)
		l.apart = true
		w.sendPart(l, b)
	}
}

// sendPart sends the first writes of a batch, beside the loop.
func (w *writer) sendPart(l *lane, b *batch) {
	n := min(b.size, len(b.writes))
	part := b.writes[:n:n]
	b.writes = b.writes[n:]
	go func() {
		pulse := w.t.dog.begin("a statement (" + l.what + ")")
		ctx, cancel := w.until()
		answer, err := l.call(ctx, b.id, part)
		cancel()
		pulse.end()
		w.t.do(func() {
			if b.aside {
				l.apart = false
			} else {
				l.sending--
			}
			w.sent(l, b, part, answer, err)
		})
	}()
}

// sent takes in the result of a statement.
func (w *writer) sent(l *lane, b *batch, part []write, answer func(), err error) {
	switch {
	case err == nil:
		w.succeeded(l, b, part)
		answer()
	case errors.Is(err, store.ErrReplaced):
		w.t.trouble.Worked(l.what)
		w.t.replaced(err)
		l.fail(part, err)
	case w.ctx.Err() != nil, b.aside && w.t.stopping:
		l.fail(part, w.last(l, err))
	default:
		w.failed(l, b, part, err)
		return
	}
	if len(b.writes) > 0 {
		l.failed = append(l.failed, b)
	}
}

// last is the error for writes that are not repeated any more.
func (w *writer) last(l *lane, err error) error {
	return fmt.Errorf("%s: %w", l.what, errors.Join(err, context.Cause(w.ctx)))
}

func (w *writer) succeeded(l *lane, b *batch, part []write) {
	if b.aside {
		job := part[0].job
		more := slices.ContainsFunc(l.aside, func(b *batch) bool { return b.writes[0].job == job })
		if l.broken[job] != nil && !more {
			delete(l.broken, job)
			w.t.log.Info("the database takes the rows of this job again", zap.String("task", l.what), zap.String("job", job))
		}
		return
	}
	b.size = min(2*b.size, b.most)
	l.worked, l.next = time.Now(), time.Time{}
	l.wait.Reset()
	w.t.trouble.Worked(l.what)
}

// failed queues the writes of a statement to be sent again: a quarter at a time,
// behind those of their batch that were not in it.
func (w *writer) failed(l *lane, b *batch, part []write, err error) {
	now := time.Now()
	if b.since.IsZero() {
		b.since = now
	}
	b.err, b.writes, b.size = err, slices.Concat(b.writes, part), max(1, len(part)/4)
	if b.aside {
		l.broken[part[0].job] = err
		b.next = now.Add(asideEvery)
		l.aside = append(l.aside, b)
		w.t.after(asideEvery, func() {})
		return
	}
	others := l.worked.After(b.since)
	if !others {
		wait := l.wait.NextBackOff()
		l.next = now.Add(wait)
		w.t.after(wait, func() {})
		w.t.trouble.Failed(l.what, err)
	} else {
		b.most = b.size // one of its rows is to blame, and there is nothing to wait for
	}
	last := len(b.writes) - 1
	if len(part) == 1 {
		b.writes[last].lone++
	}
	if len(part) == 1 && b.writes[last].lone > 1 && others {
		w.setAside(l, &batch{id: b.id, writes: b.writes[last:], size: 1, since: b.since, err: err, aside: true, next: now.Add(asideEvery)})
		b.writes = b.writes[:last:last]
	}
	if len(b.writes) > 0 {
		l.failed = append(l.failed, b)
	}
}

func (w *writer) setAside(l *lane, b *batch) {
	job := b.writes[0].job
	w.t.log.Error("the database does not take a row of this job: it is tried alone every second, and all other jobs go on",
		zap.String("task", l.what), zap.String("job", job), zap.Error(b.err))
	l.broken[job] = b.err
	l.aside = append(l.aside, b)
	w.t.after(asideEvery, func() {})
}

// giveUp answers failed writes that are not repeated any more.
func (w *writer) giveUp(l *lane) {
	all := slices.Concat(l.failed, l.aside)
	l.failed, l.aside = nil, nil
	for _, b := range all {
		l.fail(b.writes, w.last(l, b.err))
	}
}
