package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// liveness finds out which sessions of other processes are over, on behalf of the
// waiters behind their locks. Its methods are safe for concurrent use.
type liveness struct {
	*background
	store   store.Locks
	keeper  *keeper.Keeper
	release func(process) // has the places of a process removed

	turn      chan struct{} // capacity 1: a mutex that is held across database calls
	observers map[sessionID]*observer
}

// observer observes one session. It considers the session over only by the rules
// for taking over a lease: its holder released it, or its heartbeat has stood still
// for its TTL by our own clock.
type observer struct {
	session   sessionID
	ttl       time.Duration
	candidate *keeper.Candidate
	asked     time.Time // when it was last needed
	due       time.Time // when to look next
	missing   time.Time // since when its rows are missing; zero when they are there
	over      bool
}

func newLiveness(b *background, s store.Locks, keeper *keeper.Keeper, release func(process)) *liveness {
	return &liveness{background: b, store: s, keeper: keeper, release: release, turn: make(chan struct{}, 1), observers: map[sessionID]*observer{}}
}

// checkOnce is check for a caller that will not repeat it.
func (l *liveness) checkOnce(ctx context.Context, processes []process) (found bool) {
	found, _ = l.check(ctx, processes)
	l.keeper.Trouble().Ended(checkingHolders)
	return found
}

// check examines the sessions that are due, and has the places of those that are
// over released. It reports whether there were any, and how long it is until the
// next one is due, a second at most.
func (l *liveness) check(ctx context.Context, processes []process) (found bool, next time.Duration) {
	next = lookEvery
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return false, next
	}
	for _, p := range processes {
		o, err := l.observer(p)
		if err == nil && !o.over && !time.Now().Before(o.due) {
			err = l.examine(ctx, o)
		}
		if err != nil {
			if o != nil {
				o.due = time.Now().Add(pollEvery)
				next = min(next, pollEvery)
			}
			if ctx.Err() == nil {
				l.keeper.Trouble().Failed(checkingHolders, err)
			}
			continue
		}
		l.keeper.Trouble().Worked(checkingHolders)
		if o.over {
			found = true
			l.release(p)
			continue
		}
		next = min(next, max(time.Until(o.due), time.Millisecond))
	}
	return found, next
}

// observer returns the observer of a process's session.
func (l *liveness) observer(p process) (*observer, error) {
	s := p.sessionID()
	o := l.observers[s]
	if o == nil {
		candidate, err := l.keeper.Candidate(s.group)
		if err != nil {
			return nil, fmt.Errorf("the row names the session %q: %w", s.group, err)
		}
		// Its rows may be deleted just before the first look: to the candidate, that
		// is a group that was never held.
		candidate.Gate(func(lease.Skew) error {
			if isMissing(candidate.Reading().Lease, s) {
				return errMissing
			}
			return nil
		})
		o = &observer{session: s, ttl: max(min(p.TTL, lease.MaxTTL), l.keeper.Timing().TTL), candidate: candidate}
		l.observers[s] = o
	}
	o.asked = time.Now()
	return o, nil
}

// examine reads the session's lease, and takes it over once that is allowed.
func (l *liveness) examine(ctx context.Context, o *observer) error {
	attempt, cancel := l.attempt(ctx)
	readings, err := l.store.Read(attempt, o.session.group)
	cancel()
	if err != nil {
		return err
	}
	row := readings[0].Lease
	switch {
	case isOver(row, o.session):
		o.over = true
		return nil
	case isMissing(row, o.session):
		// Deleted or restored by another program. Its holder trusts it for a TTL
		// at most, and cannot renew it.
		if o.missing.IsZero() {
			o.missing = time.Now()
		}
		o.due = o.missing.Add(o.ttl)
		o.over = !time.Now().Before(o.due)
		return nil
	}
	o.missing = time.Time{}
	taken, wait, err := o.candidate.Look(ctx)
	switch {
	case err != nil:
		return err
	case taken == nil:
		if o.candidate.Barred() != nil {
			wait = 0 // to find them missing
		}
		o.due = time.Now().Add(wait)
		return nil
	}
	// Taken over: its holder's heartbeats find another token from now on.
	o.over = true
	return taken.Release(ctx)
}

var errMissing = errors.New("the rows of the session are missing")

// isOver reports whether the row shows that the session was released or taken over.
func isOver(row *store.Lease, s sessionID) bool {
	return row != nil && (row.Token > s.token || row.Token == s.token && row.Released)
}

// isMissing reports whether the session's row was deleted, or restored to an
// earlier state.
func isMissing(row *store.Lease, s sessionID) bool { return row == nil || row.Token < s.token }

// forgetIdle drops the observers of these sessions that no caller needed for two
// TTLs: to count a heartbeat's age from what they saw then would be wrong if the
// row was put back since.
func (l *liveness) forgetIdle(sessions map[sessionID]process) {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	for s := range sessions {
		if o := l.observers[s]; o != nil && !o.over && time.Since(o.asked) > 2*o.ttl {
			delete(l.observers, s)
		}
	}
}

// tidy drops the observers that were not needed for a while.
func (l *liveness) tidy() {
	select {
	case l.turn <- struct{}{}:
		for s, o := range l.observers {
			if time.Since(o.asked) > tidyEvery {
				delete(l.observers, s)
			}
		}
		<-l.turn
	case <-l.running.Done():
	}
}
