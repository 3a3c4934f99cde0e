package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
)

const (
	// writers is how many statements that write rows are in flight at most, beside
	// the one for rows that are set aside.
	writers = 3
	// While statements are in flight, another one begins once there are rows for a
	// full one, or once the newest takes longer than a database that waits for
	// nothing takes to execute it: many rows in one statement cost the database much
	// less than each in its own.
	patience       = 2 * time.Millisecond
	patienceForRow = 50 * time.Microsecond
	// rowWait is how long a store waits for a locked row, about.
	rowWait = time.Second
	// batchMost is how many locks' rows one statement writes at most.
	batchMost = 256
	// namesMost is how many locks' rows are cached without a request for them.
	namesMost = 4096
	// asideEvery limits how often a store that does not wait for locked rows is
	// called for one.
	asideEvery = 5 * time.Millisecond
	// clockFor is how long the database's clock is extrapolated with our own.
	clockFor = time.Minute
)

// write brings the locks' rows in line with the requests. Several goroutines run it,
// each with one statement in flight, on different rows; requests that are made
// meanwhile are batched into the next statement. Rows that another
// transaction keeps locked, or that cannot be written, are set aside: one more
// goroutine that runs write writes them one by one, so that they do not delay the
// others.
func (c *Client) write(aside bool) {
	failed := retry.Forever(5*time.Millisecond, min(c.timing.TTL/5, time.Second))
	poked, trouble := c.rows.writes, c.keeper.Trouble().Tasks()
	if aside {
		// A row that is locked or broken says nothing about the database.
		poked, trouble = c.rows.asides, keeper.NewTrouble(c.events, "", "").Tasks()
	}
	for c.running.Err() == nil {
		batch, wait := c.take(aside)
		if len(batch) == 0 {
			trouble.End()
			c.pause(poked, wait)
			continue
		}
		err := c.round(c.running, batch, aside)
		if err == nil {
			trouble.Worked(writingLocks)
			failed.Reset()
			if aside {
				c.pause(nil, asideEvery)
			}
			continue
		}
		if c.running.Err() == nil {
			trouble.Failed(writingLocks, err)
		}
		c.pause(nil, failed.NextBackOff())
	}
}

// take returns the locks of the next round, or how long to wait for one.
func (c *Client) take(aside bool) (batch []*name, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.take(aside)
}

// plans decides what to write; see [rows.plans].
func (c *Client) plans(batch, fresh []*name, aside bool) (plans []plan, refused []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.plans(batch, fresh, aside)
}

// needsAddress reports whether this process's address is missing; see [rows.needsAddress].
func (c *Client) needsAddress(plans []plan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.needsAddress(plans)
}

// round reads the rows of a batch that are not known or may be outdated, and writes
// the changes. An error means that the rows of the batch are unknown again.
func (c *Client) round(ctx context.Context, batch []*name, aside bool) error {
	c.mu.Lock()
	var unknown []*name
	stale := time.Since(c.rows.clock.at) > clockFor
	for _, n := range batch {
		if !n.known || n.contended || stale || n.mayBePruned() {
			unknown = append(unknown, n)
		}
	}
	c.mu.Unlock()
	err := c.look(ctx, unknown, true)
	if err != nil {
		c.failed(batch, err, false, aside)
		return err
	}

	plans, refused := c.plans(batch, unknown, aside)
	if len(refused) > 0 {
		// A TryLock is refused only on the basis of a fresh reading.
		if err := c.look(ctx, refused, true); err != nil {
			c.failed(batch, err, false, aside)
			return err
		}
		plans, _ = c.plans(batch, append(unknown, refused...), aside)
	}
	if c.needsAddress(plans) {
		// With the first write, so that the process that grants the lock can notify this one.
		attempt, cancel := c.attempt(ctx)
		address, err := c.notifier.Address(attempt)
		cancel()
		if err == nil {
			c.setAddress(address)
			plans, _ = c.plans(batch, append(unknown, refused...), aside)
		}
	}
	if len(plans) > 0 {
		waits := !aside && len(plans) == 1 && c.mayWait()
		if waits {
			plans[0].write.Wait = true
		}
		err := c.writeRows(ctx, plans)
		if waits {
			c.waited()
		}
		if err != nil {
			c.failed(batch, err, true, aside)
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.roundEnded(batch, aside)
	if c.rows.wanted(batch) {
		poke(c.listens)
	}
	c.notifier.notifySelf(c.rows)
	return nil
}

// mayWait allows a write of one row to wait if another transaction has locked that
// row, because such a write is the cheapest. It allows one at a time, and no other
// write waits for it, so that they go on when the row stays locked. With a short
// timeout none may wait: a locked row would look like a database that is away.
func (c *Client) mayWait() bool {
	if c.timing.AttemptTimeout < 2*rowWait {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.mayWait()
}

// waited ends what mayWait allowed.
func (c *Client) waited() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.waited()
}

// writeRows carries out the plans.
func (c *Client) writeRows(ctx context.Context, plans []plan) error {
	writes := make([]store.LockWrite, len(plans))
	for i, p := range plans {
		writes[i] = p.write
	}
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	// The plans of one call are based on one server's rows. If another server answers
	// by now, it does not carry them out: no lock may be granted there yet.
	done, err := c.store.WriteLocks(ctx, plans[0].server, writes)
	if err != nil {
		return fmt.Errorf("write %d locks: %w", len(plans), ctxerr.With(ctx, err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range plans {
		if done[i] {
			c.rows.written(p)
		} else {
			c.rows.notWritten(p.name)
		}
	}
	return nil
}

// failed ends a round whose outcome is unknown.
func (c *Client) failed(batch []*name, err error, written, aside bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.roundFailed(batch, err, written, aside)
}
