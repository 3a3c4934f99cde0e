package locks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/ctxerr"
)

// orphanIdle is how long a row must not have been written before it is searched
// for places of dead processes.
const orphanIdle = tidyEvery

// orphanTTL bounds how long clean observes a session, unless the client's own TTL is
// longer. Places of dead processes whose TTL is beyond that stay until a client
// requests the lock.
const orphanTTL = 10 * time.Minute

// cleaning cleans about once an hour. It has a goroutine of its own, because it
// observes each session for as long as it takes to find it dead.
func (c *Client) cleaning() {
	for {
		c.pause(nil, tidyEvery/2+rand.N(tidyEvery))
		if c.running.Err() != nil {
			return
		}
		if err := c.clean(c.running, orphanIdle); err != nil && c.running.Err() == nil {
			c.log.Info("rows of locks could not be searched for dead processes", zap.Error(err))
		}
	}
}

// clean has the places of dead processes removed from rows that were not written
// for idle: these locks may never be requested again. It observes their sessions
// as a waiter does, for a TTL: what it saw an hour ago says nothing about a
// session that was alive since.
func (c *Client) clean(ctx context.Context, idle time.Duration) error {
	for after, more := "", true; more; {
		attempt, cancel := c.attempt(ctx)
		names, err := c.store.HeldLocks(attempt, idle, after, batchMost)
		cancel()
		if err != nil {
			return fmt.Errorf("list locks: %w", ctxerr.With(attempt, err))
		}
		if more = len(names) == batchMost; len(names) == 0 {
			break
		}
		after = names[len(names)-1]
		if err := c.cleanSome(ctx, names); err != nil {
			return err
		}
	}
	return nil
}

// cleanSome does the work of clean for some rows.
func (c *Client) cleanSome(ctx context.Context, names []string) error {
	attempt, cancel := c.attempt(ctx)
	defer cancel()
	reading, err := c.store.ReadLocks(attempt, names...)
	if err != nil {
		return fmt.Errorf("read %d locks: %w", len(names), ctxerr.With(attempt, err))
	}
	queues, pending := map[string]queue{}, map[sessionID]process{}
	for _, row := range reading.Rows {
		q, err := decode(row.Name, row.Queue)
		if err != nil {
			c.log.Warn("the row of a lock cannot be cleaned", zap.Error(err))
			continue
		}
		queues[row.Name] = q
		for _, p := range q.Processes {
			pending[p.sessionID()] = p
		}
	}
	over := c.findOver(ctx, pending)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, q := range queues {
		// The writer knows which places of its own process are wanted.
		if slices.ContainsFunc(q.Processes, func(p process) bool { return over[p.sessionID()] || p.Group == c.rows.self.Group }) {
			c.rows.rounds.touch(c.rows.name(name))
		}
	}
	return nil
}

// findOver returns which of the sessions are over. It looks for as long as it takes a
// dead one to be found so, or until all are decided.
func (c *Client) findOver(ctx context.Context, pending map[sessionID]process) (over map[sessionID]bool) {
	over = map[sessionID]bool{}
	var longest time.Duration
	for s, p := range pending {
		if ttl := max(p.TTL, c.timing.TTL); p.Group == c.rows.self.Group || ttl > max(orphanTTL, c.timing.TTL) {
			delete(pending, s)
		} else {
			longest = max(longest, ttl)
		}
	}
	c.liveness.forgetIdle(pending)
	for end := time.Now().Add(longest + 2*lookEvery); len(pending) > 0 && ctx.Err() == nil; c.pause(nil, lookEvery) {
		for s, p := range pending {
			// One by one, because waiters need their turn too.
			if c.liveness.checkOnce(ctx, []process{p}) {
				over[s] = true
				delete(pending, s)
			}
		}
		if time.Now().After(end) {
			break
		}
	}
	return over
}
