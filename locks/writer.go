package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"
)

const (
	// batchMost is how many locks' rows one statement writes at most.
	batchMost = 256
	// namesMost is how many locks' rows are remembered although nobody wants
	// anything of them.
	namesMost = 4096
	// clockFor is how long the database's clock is counted on with our own.
	clockFor = time.Minute
)

// write brings what is wanted into the locks' rows. One statement is under way
// at a time: whatever is asked for meanwhile rides in the next one.
func (c *Client) write() {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(5*time.Millisecond),
		backoff.WithMaxInterval(min(c.timing.TTL/5, time.Second)),
		backoff.WithMaxElapsedTime(0), // for ever: the default gives up after 15 minutes
	)
	for c.running.Err() == nil {
		batch := c.take()
		if len(batch) == 0 {
			c.pause(c.writes, time.Hour)
			continue
		}
		err := c.round(c.running, batch)
		if err == nil {
			retry.Reset()
			continue
		}
		wait := retry.NextBackOff()
		if c.running.Err() == nil {
			c.log.Warn("locks cannot be written", zap.Error(err), zap.Duration("retry", wait))
		}
		c.pause(nil, wait)
	}
}

// take returns the locks that the next round is for, in the order in which they
// became dirty, and sorted by name: statements that lock rows in one order do
// not deadlock.
func (c *Client) take() []*name {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.dirty), batchMost)
	batch := slices.Clone(c.dirty[:n])
	c.dirty = append(c.dirty[:0], c.dirty[n:]...)
	for _, n := range batch {
		n.dirty, n.busy = false, true
	}
	slices.SortFunc(batch, func(a, b *name) int { return strings.Compare(a.text, b.text) })
	return batch
}

// round reads the rows of a batch that are not known, and writes what is to be
// changed. An error means that nothing is known of them any more.
func (c *Client) round(ctx context.Context, batch []*name) error {
	c.mu.Lock()
	var unknown []*name
	stale := time.Since(c.clock.at) > clockFor
	for _, n := range batch {
		if !n.known || n.contended || stale {
			unknown = append(unknown, n)
		}
	}
	c.mu.Unlock()
	err := c.look(ctx, unknown, true)
	if err != nil {
		c.failed(batch, err, false)
		return err
	}

	plans, refused := c.plans(batch, unknown)
	if len(refused) > 0 {
		// Who does not wait is only refused by what was read just now.
		if err := c.look(ctx, refused, true); err != nil {
			c.failed(batch, err, false)
			return err
		}
		plans, _ = c.plans(batch, append(unknown, refused...))
	}
	if c.needsBell(plans) {
		// From the start, so that whoever gives it the lock can ring.
		attempt, cancel := c.attempt(ctx)
		address, err := c.bell.Address(attempt)
		cancel()
		if err == nil {
			c.setAddress(address)
			plans, _ = c.plans(batch, append(unknown, refused...))
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
			n.known, n.contended = false, true
			continue
		}
		n.known, n.version, n.queue, n.unsure = true, p.write.Version, p.queue, false
		n.highest, n.floor = n.version, max(n.floor, n.version)
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
	c.failure = err
	for _, n := range batch {
		n.known, n.busy = false, false
		n.unsure = n.unsure || written
		for _, r := range slices.Clone(n.requests) {
			if r.try && r.state == wanted {
				c.giveUp(r, err)
			}
		}
		c.touch(n)
	}
}

// settle ends a round: what is still not as it is wanted goes into the next.
func (c *Client) settle(batch []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = nil
	for _, n := range batch {
		n.busy = false
		if n.known {
			c.notice(n)
		}
		switch {
		case len(n.requests) == 0:
			if len(c.names) > namesMost && !n.dirty {
				delete(c.names, n.text)
			}
		case n.resting():
		case !n.known || c.unsettled(n):
			c.touch(n)
		}
	}
	c.poke(c.listens)
	c.cover()
}
