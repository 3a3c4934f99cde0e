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
	// namesMost is how many locks' rows are remembered although nobody wants
	// anything of them.
	namesMost = 4096
	// asideEvery keeps a store that does not wait for locked rows from being
	// asked all the time.
	asideEvery = 5 * time.Millisecond
	// clockFor is how long the database's clock is counted on with our own.
	clockFor = time.Minute
)

// write brings what is wanted into the locks' rows. One statement is under way
// at a time: whatever is asked for meanwhile rides in the next one. Rows that
// somebody keeps locked, or that cannot be written, are set aside and written by
// another goroutine that runs this, one by one, so that they hold up no others.
func (c *Client) write(aside bool) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(5*time.Millisecond),
		backoff.WithMaxInterval(min(c.timing.TTL/5, time.Second)),
		backoff.WithMaxElapsedTime(0), // for ever: the default gives up after 15 minutes
	)
	poked, trouble := c.writes, c.keeper.Trouble()
	if aside {
		// A row that is locked or broken says nothing of the database.
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

// take returns the locks that the next round is for, in the order in which they
// became dirty, and sorted by name: statements that lock rows in one order do
// not deadlock.
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

// round reads the rows of a batch that are not known, and writes what is to be
// changed. An error means that nothing is known of them any more.
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
		// Who does not wait is only refused by what was read just now.
		if err := c.look(ctx, refused, true); err != nil {
			c.failed(batch, err, false)
			return err
		}
		plans, _ = c.plans(batch, append(unknown, refused...), aside)
	}
	if c.needsBell(plans) {
		// From the start, so that whoever gives it the lock can ring.
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
	// The plans of one call lean on one server. If another one has answered by
	// now, they are not carried out there, where nobody is to be given a lock yet.
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

// failed gives up a round whose outcome is unknown.
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
	c.pokeWriters() // one that became dirty meanwhile was left to wait
}

// pokeWriters wakes the goroutines that write.
func (c *Client) pokeWriters() {
	c.poke(c.writes)
	c.poke(c.asides)
}

// single finds out which row of a batch is the reason why it could not be
// written, if it is not the database: each is tried again with half as many
// others at most, and one that fails alone while others are written is set aside.
// It is called with mu held.
func (c *Client) single(batch []*name) {
	for _, n := range batch {
		n.most = max(1, len(batch)/2)
	}
	if n := batch[0]; len(batch) == 1 {
		n.aside = n.aside || !n.failed.IsZero() && c.wrote.After(n.failed)
		n.failed = time.Now()
	}
}

// settle ends a round: what is still not as it is wanted goes into the next.
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
