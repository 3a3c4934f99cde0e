package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// open declares the jobs to the ledger and takes in what it knows: where each
// job's ticks go on, and what an earlier term has left. It tries until it
// succeeds, the term ends, or openMost has passed.
func (t *term) open() error {
	pulse := t.dog.Begin("the opening of the term")
	defer pulse.End()
	pulse.BeatFor(openMost)
	var snapshot, was jobs.Snapshot
	var refused error
	var all []*declared
	for _, e := range t.roll.order {
		all = append(all, e.job)
	}
	d := newDeclaring(t.env)
	until, cancel := context.WithTimeoutCause(t.ctx, openMost, errNotOpened)
	defer cancel()
	err := t.retryLonger(until, "open the ledger", openMost/2, func(ctx context.Context) error {
		var err error
		if snapshot, err = t.load(ctx, true); err != nil {
			return err
		}
		if snapshot.Opened.Token != t.holder.Token {
			was = snapshot
		}
		if refused = t.mode.check(snapshot); errors.Is(refused, ErrMode) {
			return nil
		}
		// A server that lacks the last writes may not know that a job was absent. Once it has a
		// declaration of this term, it has the writes before it too.
		stale := t.isStale(snapshot)
		if !stale {
			if err = d.welcome(ctx, all, snapshot); err != nil {
				return err
			}
		}
		differing := d.differing(all, snapshot, d.gapOf(ctx, all, snapshot))
		h := t.holder
		h.Cluster = snapshot.Home()
		if err = t.db.Declare(ctx, h, differing); err != nil {
			return err
		}
		t.memory.Opened(t.holder.Token, t.clock.Own().Mono)
		if len(differing) > 0 || stale {
			if snapshot, err = t.reload(ctx, false); err != nil {
				return err
			}
		}
		if stale && t.roll.anyBack(snapshot) {
			return errStale
		}
		return t.missing(ctx, snapshot)
	})
	if err = cmp.Or(err, refused); err != nil {
		return err
	}
	if snapshot, err = t.passOver(until, all, snapshot); err != nil {
		return err
	}
	sent, err := t.readNotices(until, all, snapshot)
	if err != nil {
		return err
	}
	if err := t.readStarts(until, snapshot); err != nil {
		return err
	}
	t.count(sent)
	for _, e := range t.roll.order {
		pulse.Beat()
		t.know(e, snapshot)
		t.newest = later(t.newest, e.Known().Cursor) // none is so far ahead that it were passed over
	}
	if !snapshot.Opened.HasMode() { // it is from before the declaration
		snapshot.Opened.Spread = t.holder.Assigns
	}
	t.wrote.server, t.wrote.home = snapshot.Server, snapshot.Home()
	if t.role == assigns && was.Opened.Token != 0 && was.Opened.Cluster != snapshot.Home() {
		t.keepQuiet()
	}
	pulse.Beat() // from here on, schedules are asked for their ticks, and none of it waits
	t.roll.setAlarms()
	t.noteStrays(snapshot)
	t.beats.known.Store(snapshot.Changes)
	t.settle(snapshot.Open)
	t.apply(snapshot)
	return nil
}

// openMost is how long a term tries to open the ledger. Then it steps down: a
// replica that can run nothing must not keep the lease from one that can.
const openMost = 2 * time.Minute

var errNotOpened = fmt.Errorf("scheduler: the ledger could not be opened within %v", openMost)
