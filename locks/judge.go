package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
)

// judge watches another process's session on behalf of the waiters behind its
// locks. It considers a session over only by the rules for taking over a lease:
// its holder released it, or its heartbeat has stood still for its TTL by our own
// clock. Client.judging guards all of it.
type judge struct {
	session   session
	ttl       time.Duration
	candidate *lease.Candidate
	asked     time.Time // when it was last needed
	due       time.Time // when to look next
	missing   time.Time // since when its rows are missing; zero when they are there
	dead      bool
}

// judgeAhead judges the sessions that this process's waiters are queued behind, and
// returns how long to wait before doing it again.
func (c *Client) judgeAhead(names []*name) time.Duration {
	var ahead []process
	known := map[session]bool{}
	c.mu.Lock()
	for _, n := range names {
		if p := n.waits(); p != nil {
			ahead = c.appendAhead(ahead, known, n, p.ID)
		}
	}
	c.mu.Unlock()
	_, next := c.judge(c.running, ahead)
	return next
}

// appendAhead adds the other processes that are ahead of a place in the queue and
// not known yet. It is called with mu held.
func (c *Client) appendAhead(ahead []process, known map[session]bool, n *name, id string) []process {
	for _, p := range n.queue.Places {
		if p.ID == id {
			break
		}
		of := n.queue.Processes[p.Process]
		if s := of.session(); of.Group != c.self.Group && !known[s] {
			known[s] = true
			ahead = append(ahead, of)
		}
	}
	return ahead
}

// judgeOnce is judge for a caller that will not repeat it.
func (c *Client) judgeOnce(ctx context.Context, processes []process) (found bool) {
	found, _ = c.judge(ctx, processes)
	c.keeper.Trouble().Ended(judgingHolders)
	return found
}

// judge examines the sessions that are due, and has the places of those that are
// over removed. It reports whether there were any, and how long it is until the
// next one is due, a second at most.
func (c *Client) judge(ctx context.Context, processes []process) (found bool, next time.Duration) {
	next = lookEvery
	select {
	case c.judging <- struct{}{}:
		defer func() { <-c.judging }()
	case <-ctx.Done():
		return false, next
	}
	for _, p := range processes {
		j, err := c.judgeOf(p)
		if err == nil && !j.dead && !time.Now().Before(j.due) {
			err = c.examine(ctx, j)
		}
		if err != nil {
			if j != nil {
				j.due = time.Now().Add(pollEvery)
				next = min(next, pollEvery)
			}
			if ctx.Err() == nil {
				c.keeper.Trouble().Failed(judgingHolders, err)
			}
			continue
		}
		c.keeper.Trouble().Worked(judgingHolders)
		if j.dead {
			found = true
			c.bury(p)
			continue
		}
		next = min(next, max(time.Until(j.due), time.Millisecond))
	}
	return found, next
}

func (c *Client) judgeOf(p process) (*judge, error) {
	s := p.session()
	j := c.judges[s]
	if j == nil {
		candidate, err := c.keeper.Candidate(s.group)
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
		j = &judge{session: s, ttl: max(min(p.TTL, lease.MaxTTL), c.timing.TTL), candidate: candidate}
		c.judges[s] = j
	}
	j.asked = time.Now()
	return j, nil
}

// examine reads the session's lease, and takes it over once that is allowed.
func (c *Client) examine(ctx context.Context, j *judge) error {
	attempt, cancel := c.attempt(ctx)
	readings, err := c.store.Read(attempt, j.session.group)
	cancel()
	if err != nil {
		return err
	}
	row := readings[0].Lease
	switch {
	case row != nil && (row.Token > j.session.token || row.Token == j.session.token && row.Released):
		j.dead = true
		return nil
	case isMissing(row, j.session):
		// Deleted or restored by another program. Its holder trusts it for a TTL
		// at most, and cannot renew it.
		if j.missing.IsZero() {
			j.missing = time.Now()
		}
		j.due = j.missing.Add(j.ttl)
		j.dead = !time.Now().Before(j.due)
		return nil
	}
	j.missing = time.Time{}
	taken, wait, err := j.candidate.Look(ctx)
	switch {
	case err != nil:
		return err
	case taken == nil:
		if j.candidate.Barred() != nil {
			wait = 0 // to find them missing
		}
		j.due = time.Now().Add(wait)
		return nil
	}
	// Taken over: its holder's heartbeats find another token from now on.
	j.dead = true
	return taken.Release(ctx)
}

var errMissing = errors.New("the rows of the session are missing")

// isMissing reports whether the session's row was deleted, or restored to an
// earlier state.
func isMissing(row *lease.Lease, s session) bool { return row == nil || row.Token < s.token }

// bury has the places of a session that is over removed from every queue that this
// process knows.
func (c *Client) bury(p process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := p.session()
	if _, known := c.dead[s]; !known {
		c.log.Info("the session of a holder is over: its locks are free", zap.String("holder", p.Owner), zap.Uint64("token", s.token))
	}
	c.dead[s] = time.Now()
	for _, n := range c.names {
		if slices.ContainsFunc(n.queue.Processes, func(o process) bool { return o.session() == s }) {
			c.touch(n)
		}
	}
}
