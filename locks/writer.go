package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
)

const (
	// rowWait is how long a store waits for a locked row, about.
	rowWait = time.Second
	// asideEvery limits how often a store that does not wait for locked rows is
	// called for one.
	asideEvery = 5 * time.Millisecond
	// A caller gives up its own round after ownMost, because it cannot leave it where the
	// store does not notice that a context ends.
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
	poked, trouble := c.rows.rounds.writes, c.keeper.Trouble()
	if aside {
		// A row that is locked or broken says nothing about the database.
		poked, trouble = c.rows.rounds.asides, keeper.NewTrouble(c.events, "", "")
	}
	tasks := trouble.Tasks()
	for c.running.Err() == nil {
		c.mu.Lock()
		r, wait := c.rows.rounds.take(aside)
		c.mu.Unlock()
		if len(r.names) == 0 {
			tasks.End()
			tasks = trouble.Tasks()
			c.pause(poked, wait)
			continue
		}
		written, err := c.round(c.running, r)
		if err == nil {
			tasks.Worked(writingLocks)
			failed.Reset()
			if aside {
				c.pause(nil, asideEvery)
			}
			continue
		}
		c.mu.Lock()
		c.rows.roundFailed(r, err, written)
		c.mu.Unlock()
		if c.running.Err() == nil {
			tasks.Failed(writingLocks, err)
		}
		c.pause(nil, failed.NextBackOff())
	}
}

// schedule schedules the lock for the writers, or returns the round that its caller, whose
// context is given, has to carry out by roundOf. It is called with mu held.
func (c *Client) schedule(caller context.Context, n *name) (r round) {
	if caller.Err() != nil || c.rows.requests.isClosing() {
		c.rows.rounds.touch(n)
		return r
	}
	if r = c.rows.rounds.own(n); len(r.names) > 0 {
		c.group.Add(1) // before Close waits: no round is the caller's from then on
	}
	return r
}

// roundOf carries out a round of a caller, for as long as the caller may wait. If it
// fails, the writers go on: only they judge the database.
func (c *Client) roundOf(caller context.Context, r round) {
	if len(r.names) == 0 {
		return
	}
	defer c.group.Done()
	written, done := true, false
	defer func() { // also when the store panics, which the caller may survive
		if !done {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.rows.roundLost(r, written)
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
	written, err = c.round(ctx, r)
	done = err == nil
}

// plans decides what to write; see [rows.plans].
func (c *Client) plans(r round, fresh []*name) (plans []plan, refused []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.plans(r, fresh)
}

// needsAddress reports whether this process's address is missing; see [rows.needsAddress].
func (c *Client) needsAddress(plans []plan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.needsAddress(plans)
}

// round reads the rows that are not known or may be outdated, and writes the changes.
// After an error, all rows of the round are unknown again, which is the caller's to
// note; written says whether they may have been written.
func (c *Client) round(ctx context.Context, r round) (written bool, err error) {
	begin := time.Now()
	c.mu.Lock()
	unknown := c.rows.outdated(r)
	c.mu.Unlock()
	if err := c.peek(ctx, unknown, true); err != nil {
		return false, err
	}
	fresh := unknown
	if c.peeker != nil {
		fresh = nil
	}

	plans, refused := c.plans(r, fresh)
	if len(refused) > 0 {
		// A TryLock is refused only on the basis of a fresh reading.
		if err := c.look(ctx, refused, true); err != nil {
			return false, err
		}
		plans, _ = c.plans(r, append(fresh, refused...))
	}
	if c.needsAddress(plans) {
		// With the first write, so that the process that grants the lock can notify this one.
		attempt, cancel := c.attempt(ctx)
		address, err := c.notifier.Address(attempt)
		cancel()
		if err == nil {
			c.setAddress(address)
			plans, _ = c.plans(r, append(fresh, refused...))
		}
	}
	if len(plans) > 0 {
		if len(plans) == 1 && !r.aside {
			plans[0].write.Wait = c.mayWait(r)
		}
		if err := c.writeRows(ctx, plans); err != nil {
			return true, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.roundEnded(r, begin)
	if slices.ContainsFunc(r.names, func(n *name) bool { return n.has(wanted) }) {
		poke(c.listens)
	}
	c.notifier.notifySelf(c.rows)
	return false, nil
}

// mayWait allows a write of one row to wait if another transaction has locked that
// row, because such a write is the cheapest. It allows one at a time, and no other
// write waits for it, so that they go on when the row stays locked. With a short
// timeout none may wait: a locked row would look like a database that is away.
func (c *Client) mayWait(r round) bool {
	if c.timing.AttemptTimeout < 2*rowWait {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.rounds.mayWait(r)
}

// writeRows carries out the plans.
func (c *Client) writeRows(ctx context.Context, plans []plan) error {
	writes := make([]store.LockWrite, len(plans))
	c.mu.Lock()
	for i, p := range plans {
		p.name.row.sent(p.write)
		writes[i] = p.write
	}
	c.mu.Unlock()
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
			p.name.row.turnedDown()
		}
	}
	return nil
}
