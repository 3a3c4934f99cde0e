package mysqlconn

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// DeadlockTries is how often a statement is sent that deadlocks.
	DeadlockTries = 10

	// conflictTries take a second or two together, about as long as a statement
	// waits for a lock.
	conflictTries = 50
)

// RetryDeadlocks repeats a statement that the server rolled back because of a
// deadlock, as may happen when many replicas find a new group.
func RetryDeadlocks(ctx context.Context, do func() error) error {
	return retryRolledBack(ctx, DeadlockTries, do)
}

// RetryConflicts repeats a statement on a cluster with several writers, where it
// does not wait for those on other nodes, but fails. Elsewhere it makes so many
// tries.
func (c *Conn) RetryConflicts(ctx context.Context, elsewhere int, do func() error) error {
	if c.Server.ManyWriters() {
		return retryRolledBack(ctx, conflictTries, do)
	}
	return retryRolledBack(ctx, elsewhere, do)
}

func retryRolledBack(ctx context.Context, tries int, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if !IsRolledBack(err) || attempt >= tries {
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(min(attempt, 10)) * 5 * time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
