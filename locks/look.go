package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
)

// look reads the rows of the locks. Except for the writer itself, it skips those
// that are being written; and it ignores those that were updated meanwhile.
func (c *Client) look(ctx context.Context, names []*name, writer bool) error {
	c.mu.Lock()
	if !writer {
		names = slices.DeleteFunc(slices.Clone(names), func(n *name) bool { return n.busy })
	}
	texts, news := make([]string, len(names)), make([]uint64, len(names))
	for i, n := range names {
		texts[i], news[i] = n.text, n.news
	}
	c.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	reading, err := c.store.ReadLocks(ctx, texts...)
	if err != nil {
		return fmt.Errorf("read %d locks: %w", len(names), withCause(ctx, err))
	}
	replied := time.Now()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.answeredBy(reading.Server)
	c.clock = clock{reading.Now, replied}
	c.floor = max(c.floor, reading.Floor)
	for i, n := range names {
		row := reading.Rows[i]
		if n.news != news[i] || n.busy && !writer {
			continue
		}
		q, err := decode(n.text, row.Queue)
		if err != nil {
			c.breakOff(n, err)
			continue
		}
		c.adopt(n, row.Version, q)
	}
	return nil
}

// breakOff suspends a lock whose row cannot be decoded, for a while. It is called
// with mu held.
func (c *Client) breakOff(n *name, err error) {
	n.known = false
	n.news++
	for _, r := range slices.Clone(n.requests) {
		switch {
		case r.state == held:
			c.lose(r, fmt.Errorf("%w: %w", ErrLost, err))
		case r.state == leaving, r.try:
			r.decide(err)
			r.state = leaving
			c.forget(r)
		}
	}
	if len(n.requests) == 0 {
		return
	}
	c.log.Error("a lock cannot be granted", zap.String("lock", n.text), zap.Error(err))
	n.broken = time.Now().Add(lookEvery)
	c.touchAfter(lookEvery, n)
}

// touchAfter is touch, after a while.
func (c *Client) touchAfter(wait time.Duration, names ...*name) {
	time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, n := range names {
			if len(n.requests) > 0 {
				c.touch(n)
			}
		}
	})
}

// resting reports whether a lock is suspended or barred. It is called with mu held.
func (n *name) resting() bool {
	now := time.Now()
	return now.Before(n.broken) || now.Before(n.barred)
}

// answeredBy notes which server answered. After a change of server, the client
// grants no lock for a TTL: the new server may lack the last writes, which a
// holder trusts for a TTL at most. It is called with mu held.
func (c *Client) answeredBy(server string) {
	if c.server != "" && c.server != server {
		c.log.Warn("another server answers: no lock is granted for a while", zap.String("server", server), zap.Duration("for", c.barredBy))
		c.barred = time.Now().Add(c.barredBy)
		c.touchAfter(c.barredBy, slices.Collect(maps.Keys(c.active))...)
	}
	c.server = server
}

// adopt updates a lock from a reading of its row. It is called with mu held.
func (c *Client) adopt(n *name, version uint64, q queue) {
	for _, p := range q.Processes {
		c.barredBy = max(c.barredBy, min(p.TTL, lease.MaxTTL))
	}
	if version < n.highest && (version > 0 || !n.pruned(c.floor)) {
		// A holder may still trust a place that is gone.
		c.log.Warn("the row of a lock went back to an older version: the lock is not granted for a while", zap.String("lock", n.text), zap.Duration("for", c.barredBy))
		n.barred = time.Now().Add(c.barredBy)
		c.touchAfter(c.barredBy, n)
	}
	n.highest, n.floor = version, max(n.floor, version)
	if n.refused && version == n.version {
		n.aside = true // the write was refused although the version matches
	}
	n.refused = false
	if n.known {
		n.contended = version != n.version
	}
	n.known, n.version, n.queue, n.seen = true, version, q, time.Now()
	n.news++
	c.notice(n)
	if !n.busy && !n.resting() && (c.unsettled(n) || c.haunted(n)) {
		c.touch(n)
	}
}

// notice updates the requests from the row. It is called with mu held.
func (c *Client) notice(n *name) {
	for _, r := range slices.Clone(n.requests) {
		if r.term == nil || r.term.over {
			continue
		}
		p := n.queue.find(r.ID)
		switch r.state {
		case wanted:
			if p != nil && p.Granted > 0 {
				c.give(r, *p)
			}
		case held:
			if p == nil || p.Granted != r.Granted {
				c.lose(r, fmt.Errorf("%w: the row of lock %q was changed by another program", ErrLost, n.text))
			}
		case leaving:
			if p == nil && !n.unsure {
				c.forget(r)
			}
		}
	}
}

// withCause adds the cause of an ended context to an error.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
