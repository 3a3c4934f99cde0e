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
	// writers is how many statements that write rows are in flight at most, with that of
	// a caller, and beside the one for rows that are set aside.
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
	// After a round of one row that took no longer than quick, while nobody else wanted
	// anything, the next caller carries out its round itself: waking another goroutine
	// costs as much as half of such a round. It is given up after ownMost, because a caller
	// cannot leave it where the store does not notice that a context ends.
	quick   = time.Millisecond
	ownMost = 50 * time.Millisecond
)

// write brings the locks' rows in line with the requests, as callers do themselves that
// are alone (roundOf). Several goroutines run it, each with one statement in flight, on
// different rows; requests that are made meanwhile are batched into the next statement.
// Rows that another transaction keeps locked, or that cannot be written, are set aside:
// one more goroutine that runs write writes them one by one, so that they do not delay
// the others.
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
		written, err := c.round(c.running, batch, aside)
		if err == nil {
			trouble.Worked(writingLocks)
			failed.Reset()
			if aside {
				c.pause(nil, asideEvery)
			}
			continue
		}
		c.failed(batch, err, written, aside)
		if c.running.Err() == nil {
			trouble.Failed(writingLocks, err)
		}
		c.pause(nil, failed.NextBackOff())
	}
}

// schedule schedules the lock for the writers, or returns the round that its caller, whose
// context is given, has to carry out by roundOf. It is called with mu held.
func (c *Client) schedule(caller context.Context, n *name) (batch []*name) {
	if caller.Err() != nil {
		c.rows.touch(n)
		return nil
	}
	if batch = c.rows.own(n); len(batch) > 0 {
		c.group.Add(1) // before Close waits: no round is the caller's from then on
	}
	return batch
}

// roundOf carries out a round of a caller, for as long as the caller may wait. If it
// fails, the writers go on: only they judge the database.
func (c *Client) roundOf(caller context.Context, batch []*name) {
	if len(batch) == 0 {
		return
	}
	defer c.group.Done()
	written, done := true, false
	defer func() { // also when the store panics, which the caller may survive
		if !done {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.rows.roundLost(batch, written)
		}
	}()
	until := time.Now().Add(ownMost)
	if end, ok := caller.Deadline(); ok && end.Before(until) {
		until = end
	}
	ctx, cancel := context.WithDeadline(c.running, until)
	defer cancel()
	stop := context.AfterFunc(caller, cancel)
	defer stop()
	var err error
	written, err = c.round(ctx, batch, false)
	done = err == nil
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
// the changes. After an error, the rows of the batch are unknown again, which is the
// caller's to note; written says whether they may have been written.
func (c *Client) round(ctx context.Context, batch []*name, aside bool) (written bool, err error) {
	begin := time.Now()
	c.mu.Lock()
	var unknown []*name
	stale := time.Since(c.rows.clock.at) > clockFor
	for _, n := range batch {
		if !n.known || n.contended || stale || n.mayBePruned() {
			unknown = append(unknown, n)
		}
	}
	c.mu.Unlock()
	if err := c.look(ctx, unknown, true); err != nil {
		return false, err
	}

	plans, refused := c.plans(batch, unknown, aside)
	if len(refused) > 0 {
		// A TryLock is refused only on the basis of a fresh reading.
		if err := c.look(ctx, refused, true); err != nil {
			return false, err
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
		write := c.writeRows
		if !aside && len(plans) == 1 && c.mayWait() {
			write = c.writeWaiting
		}
		if err := write(ctx, plans); err != nil {
			return true, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !aside {
		c.rows.alone = len(batch) == 1 && len(c.rows.dirty) == 0 && time.Since(begin) < quick
	}
	c.rows.roundEnded(batch, aside)
	if c.rows.wanted(batch) {
		poke(c.listens)
	}
	c.notifier.notifySelf(c.rows)
	return false, nil
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

// writeWaiting carries out the only plan of a round, as mayWait has allowed.
func (c *Client) writeWaiting(ctx context.Context, plans []plan) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rows.waited()
	}()
	plans[0].write.Wait = true
	return c.writeRows(ctx, plans)
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
