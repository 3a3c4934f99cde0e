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

// look reads the rows of the locks. What is being written, or was seen anew
// meanwhile, is left alone, unless the writer itself asks.
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

// breakOff leaves a lock alone whose row cannot be read, for a while. It is
// called with mu held.
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
	c.log.Error("a lock cannot be given", zap.String("lock", n.text), zap.Error(err))
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

// resting reports whether nothing is to be done about a lock for a while. It is
// called with mu held.
func (n *name) resting() bool {
	now := time.Now()
	return now.Before(n.broken) || now.Before(n.barred)
}

// answeredBy notes which server answered. After a change of it nobody is given
// a lock for a TTL: what this one shows may lack what was written last, and the
// holder trusts that for a TTL at most. It is called with mu held.
func (c *Client) answeredBy(server string) {
	if c.server != "" && c.server != server {
		c.log.Warn("another server answers: no lock is given for a while", zap.String("server", server), zap.Duration("for", c.barredBy))
		c.barred = time.Now().Add(c.barredBy)
		c.touchAfter(c.barredBy, slices.Collect(maps.Keys(c.active))...)
	}
	c.server = server
}

// adopt takes in what a reading shows of a lock. It is called with mu held.
func (c *Client) adopt(n *name, version uint64, q queue) {
	for _, p := range q.Processes {
		c.barredBy = max(c.barredBy, min(p.TTL, lease.MaxTTL))
	}
	if version < n.highest && (version > 0 || !n.pruned(c.floor)) {
		// Somebody may still trust what is gone.
		c.log.Warn("the row of a lock is older than it was: it is not given for a while", zap.String("lock", n.text), zap.Duration("for", c.barredBy))
		n.barred = time.Now().Add(c.barredBy)
		c.touchAfter(c.barredBy, n)
	}
	n.highest, n.floor = version, max(n.floor, version)
	if n.refused && version == n.version {
		n.aside = true // it was not written although it is as expected
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

// notice tells the requests what the row says of them. It is called with mu
// held.
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
				c.lose(r, fmt.Errorf("%w: the row of lock %q was changed by somebody else", ErrLost, n.text))
			}
		case leaving:
			if p == nil && !n.unsure {
				c.forget(r)
			}
		}
	}
}

// withCause makes an error of an ended context say why it ended.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
