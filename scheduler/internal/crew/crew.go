// Package crew watches the sessions of a group's replicas: who can be given runs, and whose runs others may take up.
//
// A session is over once its lease was taken over, by the rules of package lease: its heartbeat has stood still for the
// TTL by the observer's clock, or it was released. A released one is taken over, too: a release does not move the fence, so
// that a start which was sent before could still land. After a takeover nothing starts under the session any more, and its
// replica does not trust it.
package crew

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Member is a session that lives.
type Member struct {
	store.Assignee
	Leaving bool         // it is to be given nothing
	Beat    uint64       // its heartbeat, as it was read last
	Absent  bool         // the database did not see its process, and no heartbeat has come since
	Told    jobs.Replica // what it tells of itself
}

// watchers are how many replicas watch the sessions, besides the leader. Each reads all of them.
const watchers = 20

// Crew is the sessions of the replicas of a group. The leader watches them all, and so do the first [watchers] replicas: one of
// these that becomes the leader knows already how old each heartbeat is. Its methods are safe for concurrent use, but for Run.
type Crew struct {
	keeper *keeper.Keeper
	roster func() jobs.Roster
	poke   chan struct{} // capacity 1

	mu      sync.Mutex
	changed func() // nil: nothing depends on it
	known   map[string]*replica
	read    time.Time // when the roster was that was taken in last, by the database's clock
}

// replica is what is known of a replica's sessions.
type replica struct {
	owner     string
	told      jobs.Replica
	beat      uint64
	absent    bool
	live      uint64 // the token of the session that lives; zero: none is known to
	leaving   bool
	over      uint64            // sessions up to this token are over
	named     uint64            // the highest token that a run was seen under
	candidate *keeper.Candidate // nil: it cannot have a session
	ttl       time.Duration     // of the session that was seen last
	asked     time.Time         // when IsOver was last asked
	missing   time.Time         // since when the row lacks a session that was named
	due       time.Time
}

// New returns a crew that watches nothing yet. roster is what the replicas have told last.
func New(k *keeper.Keeper, roster func() jobs.Roster) *Crew {
	return &Crew{keeper: k, roster: roster, poke: make(chan struct{}, 1), known: map[string]*replica{}}
}

// OnChange has f called after each change, in place of the one before. Nil: this replica does not lead.
func (c *Crew) OnChange(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = f
	c.Look()
}

// TTL is the longest that a replica trusts a session without a heartbeat, of those that were seen.
func (c *Crew) TTL() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	ttl := c.keeper.Timing().TTL
	for _, r := range c.known {
		ttl = max(ttl, r.ttl)
	}
	return ttl
}

// Look has all sessions looked at soon.
func (c *Crew) Look() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Members are the sessions that live, in the order of their owners.
func (c *Crew) Members() (all []Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.known {
		if r.live != 0 {
			all = append(all, Member{store.Assignee{Owner: r.owner, Token: r.live}, r.leaving, r.beat, r.absent, r.told})
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Owner, b.Owner) })
	return all
}

// IsOver reports whether a session is over. One that was not known is watched from now on.
func (c *Crew) IsOver(s store.Assignee) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.replica(s.Owner)
	r.asked = time.Now()
	if s.Token <= r.over || r.candidate == nil {
		return true
	}
	if s.Token > r.named {
		r.named = s.Token
		r.due = time.Time{}
		c.Look()
	}
	return false
}

// replica is called with mu held.
func (c *Crew) replica(owner string) *replica {
	r := c.known[owner]
	if r == nil {
		r = &replica{owner: owner}
		r.candidate = c.candidate(r)
		c.known[owner] = r
	}
	return r
}

// Run watches until ctx ends.
func (c *Crew) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for all := true; ; {
		timer.Reset(c.round(ctx, all))
		all = false
		select {
		case <-timer.C:
		case <-c.poke:
			all = true
		case <-ctx.Done():
			return
		}
	}
}

// round looks at the sessions that are due, and returns when the next one is.
func (c *Crew) round(ctx context.Context, all bool) time.Duration {
	c.mu.Lock()
	changed, listed, before := false, map[string]bool{}, 0
	is := c.roster()
	isNew := !is.Now.Equal(c.read)
	c.read = is.Now
	for _, told := range is.Replicas {
		if told.Owner < c.keeper.Owner() {
			before++
		}
		r := c.replica(told.Owner)
		listed[told.Owner] = true
		changed = changed || r.told.List != told.List
		r.told = told
		if isNew && r.absent != (told.Presence == jobs.Absent) {
			r.absent, changed = !r.absent, true
		}
	}
	var looks []*replica
	now, watches := time.Now(), before < watchers || c.changed != nil
	for owner, r := range c.known {
		if r.candidate == nil || !listed[owner] && r.live == 0 && r.named <= r.over { // until IsOver is asked for a later one
			if r.due = now.Add(time.Hour); now.Sub(r.asked) > time.Hour {
				delete(c.known, owner)
			}
			continue
		}
		all = all || watches && !now.Before(r.due)
		looks = append(looks, r)
	}
	c.mu.Unlock()
	if all && len(looks) > 0 {
		changed = c.look(ctx, looks) || changed
	}
	next := time.Hour // or when something is asked for
	c.mu.Lock()
	for _, r := range c.known {
		if watches {
			next = min(next, max(time.Millisecond, time.Until(r.due)))
		}
	}
	f := c.changed
	c.mu.Unlock()
	if changed && f != nil {
		f()
	}
	return next
}

var errLives = errors.New("there is nothing to take over")

// look reads the sessions, in one statement, and takes over those that may be. It reports whether that has changed anything.
func (c *Crew) look(ctx context.Context, all []*replica) (changed bool) {
	const soon = time.Second
	ttl := c.keeper.Timing().TTL
	var candidates []*keeper.Candidate
	for _, r := range all {
		candidates = append(candidates, r.candidate)
	}
	err := c.keeper.Read(ctx, candidates...)
	for _, r := range all {
		var taken *keeper.Held
		wait, of := ttl/3, err
		if r.owner == c.keeper.Owner() {
			wait = ttl
		} else if of == nil && r.candidate.Barred() == nil {
			if wait = min(r.candidate.TakeableIn(), ttl); wait <= 0 {
				taken, wait, of = r.candidate.Look(ctx)
			}
		}
		if taken != nil {
			_ = taken.Release(ctx) // else it expires
		}
		c.mu.Lock()
		if of != nil || r.live == 0 && r.candidate.Reading().Lease == nil && !r.isMissing(ttl) {
			wait = soon // its session may be about to begin
		}
		r.due = time.Now().Add(max(wait, 10*time.Millisecond))
		if of == nil {
			changed = c.note(r, taken) || changed
		}
		c.mu.Unlock()
	}
	return changed
}

// candidate is one for a replica's session. Nil: no session can have its name.
func (c *Crew) candidate(r *replica) *keeper.Candidate {
	candidate, err := c.keeper.Candidate(store.SessionGroup(r.owner))
	if err != nil {
		return nil
	}
	candidate.Gate(func(lease.Skew) error {
		row := candidate.Reading().Lease
		c.mu.Lock()
		defer c.mu.Unlock()
		if row == nil || r.owner == c.keeper.Owner() || row.Owner != r.owner || row.Released && row.Token != max(r.live, r.named) {
			return errLives
		}
		return nil
	})
	return candidate
}

// isMissing reports whether the row has lacked the session for longer than it may be trusted.
func (r *replica) isMissing(ttl time.Duration) bool {
	return !r.missing.IsZero() && time.Since(r.missing) > max(r.ttl, ttl)
}

// note takes in what a replica's row says, and whether the session was taken over. It is called with mu held.
func (c *Crew) note(r *replica, taken *keeper.Held) (changed bool) {
	was := *r
	row := r.candidate.Reading().Lease
	if row != nil && row.Heartbeat != r.beat {
		r.absent = false
	}
	switch {
	case taken != nil:
		r.live, r.over = 0, taken.Token()
	case row == nil || row.Token < max(r.named, r.live):
		if r.missing.IsZero() {
			r.missing = time.Now()
		}
		if r.isMissing(c.keeper.Timing().TTL) {
			r.live, r.over = 0, max(r.named, r.live)
		}
		return r.over != was.over
	case row.Owner != r.owner:
		r.live, r.over = 0, row.Token
	case row.Released:
		r.live, r.over = 0, max(r.over, row.Token-1)
	default:
		r.live, r.leaving, r.over, r.ttl, r.beat = row.Token, row.ResignAsked, max(r.over, row.Token-1), row.TTL, row.Heartbeat
	}
	r.missing = time.Time{}
	return r.live != was.live || r.absent != was.absent || r.leaving != was.leaving || r.over != was.over
}
