package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/cronlease/cronlease/lease"
)

const (
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

// write brings the locks' rows in line with the requests. One statement is in
// flight at a time; requests made meanwhile are batched into the next one. Rows
// that another transaction keeps locked, or that cannot be written, are set aside:
// a second goroutine that runs write writes them one by one, so that they do not
// delay the others.
func (c *Client) write(aside bool) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(5*time.Millisecond),
		backoff.WithMaxInterval(min(c.timing.TTL/5, time.Second)),
		backoff.WithMaxElapsedTime(0), // no limit: the default gives up after 15 minutes
	)
	poked, trouble := c.writes, c.keeper.Trouble()
	if aside {
		// A row that is locked or broken says nothing about the database.
		poked, trouble = c.asides, lease.NewTrouble(c.log)
	}
	for c.running.Err() == nil {
		batch := c.take(aside)
		if len(batch) == 0 {
			trouble.Ended(writingLocks)
			c.pause(poked, time.Hour)
			continue
		}
		err := c.round(c.running, batch, aside)
		if err == nil {
			trouble.Worked(writingLocks)
			retry.Reset()
			if aside {
				c.pause(nil, asideEvery)
			}
			continue
		}
		if c.running.Err() == nil {
			trouble.Failed(writingLocks, err)
		}
		c.pause(nil, retry.NextBackOff())
	}
}

// take returns the locks of the next round: those that became dirty first, sorted by
// name, because statements that lock rows in one order do not deadlock.
func (c *Client) take(aside bool) []*name {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := batchMost
	if aside {
		most = 1
	}
	var batch []*name
	c.dirty = slices.DeleteFunc(c.dirty, func(n *name) bool {
		least := most
		if n.most > 0 {
			least = min(most, n.most)
		}
		if n.aside != aside || n.busy || len(batch) >= least {
			return false
		}
		most = least
		batch = append(batch, n)
		n.dirty, n.busy = false, true
		return true
	})
	slices.SortFunc(batch, func(a, b *name) int { return strings.Compare(a.text, b.text) })
	return batch
}

// round reads the rows of a batch that are not known or may be outdated, and writes
// the changes. An error means that the rows of the batch are unknown again.
func (c *Client) round(ctx context.Context, batch []*name, aside bool) error {
	c.mu.Lock()
	var unknown []*name
	stale := time.Since(c.clock.at) > clockFor
	for _, n := range batch {
		if !n.known || n.contended || stale || n.mayBePruned() {
			unknown = append(unknown, n)
		}
	}
	c.mu.Unlock()
	err := c.look(ctx, unknown, true)
	if err != nil {
		c.failed(batch, err, false)
		return err
	}

	plans, refused := c.plans(batch, unknown, aside)
	if len(refused) > 0 {
		// A TryLock is refused only on the basis of a fresh reading.
		if err := c.look(ctx, refused, true); err != nil {
			c.failed(batch, err, false)
			return err
		}
		plans, _ = c.plans(batch, append(unknown, refused...), aside)
	}
	if c.needsBell(plans) {
		// With the first write, so that the process that grants the lock can ring.
		attempt, cancel := c.attempt(ctx)
		address, err := c.bell.Address(attempt)
		cancel()
		if err == nil {
			c.setAddress(address)
			plans, _ = c.plans(batch, append(unknown, refused...), aside)
		}
	}
	if len(plans) > 0 {
		if err := c.writeRows(ctx, plans); err != nil {
			c.failed(batch, err, true)
			return err
		}
	}
	c.settle(batch)
	return nil
}

// writeRows carries out the plans.
func (c *Client) writeRows(ctx context.Context, plans []plan) error {
	writes := make([]Write, len(plans))
	for i, p := range plans {
		writes[i] = p.write
	}
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	// The plans of one call are based on one server's rows. If another server answers
	// by now, it does not carry them out: no lock may be granted there yet.
	done, err := c.store.WriteLocks(ctx, plans[0].server, writes)
	if err != nil {
		return fmt.Errorf("write %d locks: %w", len(plans), withCause(ctx, err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range plans {
		n := p.name
		n.news++
		if !done[i] {
			n.known, n.contended, n.refused = false, true, true
			continue
		}
		n.aside, n.refused, n.most, n.failure = false, false, 0, nil
		c.wrote = time.Now()
		n.known, n.version, n.queue, n.unsure = true, p.write.Version, p.queue, false
		n.highest, n.floor, n.seen = n.version, max(n.floor, n.version), time.Now()
		if len(p.write.Queue) == 0 {
			c.emptied = n.seen
			c.poke(c.left)
		}
		c.notice(n)
		for _, g := range p.granted {
			of := p.queue.Processes[g.Process]
			if of.Group != c.self.Group && of.Bell != "" {
				c.ring[of.Bell] = true
			}
		}
	}
	if len(c.ring) > 0 {
		c.poke(c.rings)
	}
	return nil
}

// failed ends a round whose outcome is unknown.
func (c *Client) failed(batch []*name, err error, written bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !batch[0].aside {
		c.failure = err
	}
	if written {
		c.single(batch)
	}
	for _, n := range batch {
		n.known, n.busy, n.failure = false, false, err
		n.unsure = n.unsure || written
		for _, r := range slices.Clone(n.requests) {
			if r.try && r.state == wanted {
				c.giveUp(r, err)
			}
		}
		c.touch(n)
	}
	c.pokeWriters() // for names that became dirty while they were busy
}

// pokeWriters wakes the goroutines that write.
func (c *Client) pokeWriters() {
	c.poke(c.writes)
	c.poke(c.asides)
}

// single narrows down which row made a batch fail, if it was not the database: each
// row is retried in a batch of at most half the size, and a row that fails alone
// while others are written is set aside. It is called with mu held.
func (c *Client) single(batch []*name) {
	for _, n := range batch {
		n.most = max(1, len(batch)/2)
	}
	if n := batch[0]; len(batch) == 1 {
		n.aside = n.aside || !n.failed.IsZero() && c.wrote.After(n.failed)
		n.failed = time.Now()
	}
}

// settle ends a round: locks whose rows do not reflect their requests yet go into
// the next.
func (c *Client) settle(batch []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = nil
	for _, n := range batch {
		n.busy, n.failure = false, nil
		if n.known {
			c.notice(n)
		}
		if n.known && !n.refused && !c.unsettled(n) {
			n.aside = false
		}
		switch {
		case len(n.requests) == 0:
			if len(c.names) > namesMost && !n.dirty {
				delete(c.names, n.text)
			}
		case n.resting():
		case !n.known || n.aside || c.unsettled(n):
			c.touch(n)
		}
	}
	c.pokeWriters() // as above
	c.poke(c.listens)
	c.cover()
}
