package locks

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

const (
	// A lock's row that was without holders and waiters for pruneIdle is deleted. A
	// process that leaves such rows prunes every pruneEvery until they must be gone.
	pruneIdle  = 10 * time.Second
	pruneEvery = pruneIdle / 2
	pruneLimit = 500

	// The rows of a released session are deleted after sessionReleased: until then,
	// a waiter that finds a place of it need not wait for a TTL to know that the
	// session is over. Those of a dead process are deleted after sessionExpired,
	// which no step of the database's clock reaches. No process uses the group's
	// name again.
	sessionReleased = time.Hour
	sessionExpired  = 7 * 24 * time.Hour

	// tidyEvery is how often to look for rows that other processes left, and to
	// drop unused entries of this client.
	tidyEvery = time.Hour
)

// leftovers are the rows without holders and waiters that this process has written.
type leftovers struct {
	added  chan struct{} // capacity 1
	newest time.Time     // when the last one was written
}

func (l *leftovers) add() {
	l.newest = time.Now()
	poke(l.added)
}

// remain reports whether some were not idle for long enough yet when they were pruned
// last, which was just now. The database's clock may be a little slower than ours.
func (l *leftovers) remain() bool {
	return !l.newest.IsZero() && time.Since(l.newest) < pruneIdle+pruneIdle/10
}

// pruning deletes unused rows: every few seconds while this process leaves some,
// and about once an hour those of other processes.
func (c *Client) pruning() {
	tidy := time.Now().Add(tidyEvery/2 + rand.N(tidyEvery))
	for c.running.Err() == nil {
		c.pause(c.rows.leftovers.added, time.Until(tidy))
		for c.leavesRows() {
			c.pause(nil, pruneEvery+rand.N(pruneEvery/5))
			c.prune("rows of locks", c.pruneLocks)
		}
		if time.Now().Before(tidy) {
			continue
		}
		tidy = time.Now().Add(tidyEvery)
		c.tidy()
		c.prune("rows of locks", c.pruneLocks)
		c.prune("sessions of locks", c.pruneSessions)
	}
}

// leavesRows reports whether there are leftovers; see [leftovers.remain].
func (c *Client) leavesRows() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running.Err() == nil && c.rows.leftovers.remain()
}

// prune deletes rows in batches until there are no more. An account without the
// privilege DELETE leaves them.
func (c *Client) prune(what string, some func(context.Context) (int, error)) {
	for found := pruneLimit; found >= pruneLimit; {
		ctx, cancel := c.attempt(c.running)
		var err error
		found, err = some(ctx)
		cancel()
		if err == nil {
			continue
		}
		if c.running.Err() == nil {
			c.log.Info("unused "+what+" could not be deleted", zap.Error(err))
		}
		return
	}
}

func (c *Client) pruneLocks(ctx context.Context) (int, error) {
	return c.store.PruneLocks(ctx, pruneIdle, pruneLimit)
}

func (c *Client) pruneSessions(ctx context.Context) (int, error) {
	return c.store.PruneSessions(ctx, groupPrefix, sessionReleased, sessionExpired, pruneLimit)
}

// tidy drops what this client did not use for a while.
func (c *Client) tidy() {
	c.mu.Lock()
	c.rows.tidy()
	c.mu.Unlock()
	c.liveness.tidy()
}
