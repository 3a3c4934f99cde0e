package locks

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// ringOthers rings the processes whose waiters were granted a lock.
func (c *Client) ringOthers() {
	for last := false; !last; {
		last = c.running.Err() != nil // one more round, for those that the last unlock granted
		c.mu.Lock()
		var addresses []string
		for address := range c.ring {
			addresses = append(addresses, address)
		}
		clear(c.ring)
		c.mu.Unlock()
		if len(addresses) == 0 || c.bell == nil {
			c.pause(c.rings, time.Hour)
			continue
		}
		ctx, cancel := c.attempt(context.WithoutCancel(c.running))
		if err := c.bell.Ring(ctx, addresses...); err != nil && c.running.Err() == nil {
			c.log.Debug("a waiter could not be woken", zap.Error(err)) // it polls anyway
		}
		cancel()
	}
}

// setAddress notes where to ring this process, and has the address written into
// the rows of all locks that it waits for.
func (c *Client) setAddress(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.address == address {
		return
	}
	c.address = address
	for n := range c.active {
		if n.waits() != nil {
			c.touch(n)
		}
	}
}

func (c *Client) setCovered(covered map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.covered = covered
}

// cover rings this process's own bell until its Wait watches every lock that the
// process waits for: a Wait that was sent before a place was taken may not yet
// have begun when the ring for that place comes. It is called with mu held.
func (c *Client) cover() {
	if c.covering || !c.uncovered() {
		return
	}
	c.covering = true
	c.group.Go(func() {
		for {
			c.mu.Lock()
			c.covering = c.running.Err() == nil && c.uncovered()
			if !c.covering {
				c.mu.Unlock()
				return
			}
			c.ring[c.address] = true
			c.poke(c.rings)
			c.mu.Unlock()
			c.pause(nil, coverEvery)
		}
	})
}

// uncovered reports whether this process waits for a lock that the bell's current
// Wait does not watch. It is called with mu held.
func (c *Client) uncovered() bool {
	if c.covered == nil || c.address == "" {
		return false
	}
	for n := range c.active {
		if !c.covered[n.text] && n.waits() != nil {
			return true
		}
	}
	return false
}
