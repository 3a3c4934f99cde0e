package election

import (
	"errors"
	"fmt"
	"time"
)

// ErrLeaderless says that, as far as this replica can tell, no replica leads.
var ErrLeaderless = errors.New("election: nobody leads")

// Health answers three questions about a replica, each of which calls for a
// different remedy. Each error is nil while all is well. It is a plain value.
type Health struct {
	// Stuck says that the process makes no progress, so that a restart would
	// help: its campaign has not begun, has failed, or has made no progress for two TTLs; its
	// heartbeats are overdue; or work of a term that is over has not stopped for a TTL.
	// A campaign that has stopped because its context ended is no reason: other
	// work of the process may still be ending.
	// A database that hangs while the term ends is no reason: once the work has
	// stopped, giving the lease back may take three attempts more.
	Stuck error
	// Database says that this replica has not been able to use the database for
	// a TTL, or must not ([WithGate]). A restart would not help.
	Database error
	// Leader matches [ErrLeaderless]: as far as this replica knows, no replica
	// has led the group for longer than a takeover takes.
	Leader error

	// Running: [Election.Run] was called and has not returned.
	Running bool
	// State is this replica's.
	State State
	// HeartbeatAge is the least age of the leader's newest heartbeat: the time
	// for which this replica has seen none. Zero where it has seen no leader.
	HeartbeatAge time.Duration
}

// Err joins what is wrong; nil: nothing.
func (h Health) Err() error { return errors.Join(h.Stuck, h.Database, h.Leader) }

// Health is this replica's health. It reads what is known and sends nothing.
func (e *Election) Health() Health {
	if e.candidate == nil {
		return Health{Stuck: errNotMade}
	}
	h := Health{Database: e.database()}
	e.mu.Lock()
	defer e.mu.Unlock()
	h.Running, h.State, h.Stuck = e.phase.runs(), e.state, e.stuck()
	if h.Database == nil && e.barred != nil {
		h.Database = fmt.Errorf("election: this replica does not campaign for %q: %w", e.group, e.barred)
	}
	h.HeartbeatAge, h.Leader = e.leader()
	return h
}

// Check is the error of [Election.Health], for a health check that wants one
// answer to all three questions.
func (e *Election) Check() error { return e.Health().Err() }

// database reports that the database has failed for a TTL.
func (e *Election) database() error {
	since, err := e.keeper.Trouble().Last()
	if failed := time.Since(since); err != nil && failed > e.timing.TTL {
		return fmt.Errorf("election: the database has failed for %v: %w", failed.Round(time.Millisecond), err)
	}
	return nil
}

// What follows is called with e.mu held.

// stuck reports that this replica makes no progress.
func (e *Election) stuck() error {
	late, beat := time.Since(e.due), e.beatsLate()
	switch {
	case e.phase == stopped:
		return nil
	case !e.phase.runs():
		return fmt.Errorf("election: the campaign for %q does not run", e.group)
	case e.state.Role == Draining && e.phase == working && late > e.stopsWithin():
		return fmt.Errorf("election: the work of term %d in %q has not stopped, %v after its context ended: this replica does not campaign", e.state.Token, e.group, late.Round(time.Second))
	case beat > 0:
		return fmt.Errorf("election: heartbeats in %q are stuck for %v", e.group, beat.Round(time.Second))
	case late > 2*e.timing.TTL:
		return fmt.Errorf("election: the campaign for %q is stuck for %v", e.group, late.Round(time.Second))
	}
	return nil
}

// stopsWithin is how long the work of a term may take to stop: a scheduler's takes its grace, an
// attempt at what is left to write, and one more at each row that this one did not write.
func (e *Election) stopsWithin() time.Duration {
	return max(e.timing.TTL, e.timing.Grace+3*e.timing.AttemptTimeout)
}

// sight is what the last look at the lease showed of the leader.
type sight struct {
	at     time.Time
	age    time.Duration // of the heartbeat, at least
	ttl    time.Duration // of the row
	leader bool          // a replica holds the lease
	since  time.Time     // since when no replica does
}

// leader returns the age of the leader's heartbeat, or an error when no replica
// leads.
func (e *Election) leader() (age time.Duration, err error) {
	const takeover = 2 * time.Second // a second is promised
	switch s := e.sight; {
	case !e.phase.runs():
		return 0, fmt.Errorf("%w in %q that this replica knows of: its campaign does not run", ErrLeaderless, e.group)
	case e.state.Role == Leading, e.leaving:
		return e.keeper.HeartbeatAge(e.group), nil
	case s.leader:
		if age = s.age + time.Since(s.at); age > s.ttl+takeover {
			return age, fmt.Errorf("%w in %q: no heartbeat was seen for %v", ErrLeaderless, e.group, age.Round(time.Millisecond))
		}
		return age, nil
	default:
		if nobody := time.Since(s.since); nobody > e.timing.TTL+takeover {
			return 0, fmt.Errorf("%w in %q for %v", ErrLeaderless, e.group, nobody.Round(time.Millisecond))
		}
		return 0, nil
	}
}

// see notes what a look showed; leader says that the row names a holder.
func (e *Election) see(leader bool, age, ttl time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	since := e.sight.since
	if leader || e.sight.leader {
		since = now
	}
	e.sight = sight{at: now, age: age, ttl: ttl, leader: leader, since: since}
}
