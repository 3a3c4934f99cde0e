package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// orphanIdle is how long a row must not have been written before it is searched
// for places of dead processes.
const orphanIdle = tidyEvery

// clean has the places of dead processes removed from rows that were not written
// for idle: these locks may never be requested again. It judges their sessions as
// a waiter does, from one call to the next, so it takes at least two calls to
// find a session over.
func (c *Client) clean(ctx context.Context, idle time.Duration) error {
	for after, more := "", true; more; {
		attempt, cancel := c.attempt(ctx)
		names, err := c.store.HeldLocks(attempt, idle, after, batchMost)
		cancel()
		if err != nil {
			return fmt.Errorf("list locks: %w", withCause(attempt, err))
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
		return fmt.Errorf("read %d locks: %w", len(names), withCause(attempt, err))
	}
	over := map[session]bool{}
	for _, row := range reading.Rows {
		q, err := decode(row.Name, row.Queue)
		if err != nil {
			c.log.Warn("the row of a lock cannot be cleaned", zap.Error(err))
			continue
		}
		for _, p := range q.Processes {
			s := p.session()
			if _, known := over[s]; known {
				continue
			}
			// The writer knows which places of its own process are wanted. The
			// others are judged one by one, because waiters need the judges too.
			over[s] = p.Group == c.self.Group || c.judgeOnce(ctx, []process{p})
		}
		if slices.ContainsFunc(q.Processes, func(p process) bool { return over[p.session()] }) {
			c.mu.Lock()
			c.touch(c.name(row.Name))
			c.mu.Unlock()
		}
	}
	return nil
}
