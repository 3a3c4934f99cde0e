package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// plan is the write that a round intends for one lock.
type plan struct {
	name    *name
	write   Write
	queue   queue   // what write makes of the row
	granted []place // what it gives
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

// needsBell reports whether somebody here is about to wait, and the client has
// no bell yet on which to be rung.
func (c *Client) needsBell(plans []plan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bell != nil && c.address == "" && slices.ContainsFunc(plans, func(p plan) bool {
		return slices.ContainsFunc(p.queue.Places, func(at place) bool {
			return at.Granted == 0 && p.queue.Processes[at.Process].Group == c.self.Group
		})
	})
}

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
		c.barredBy = max(c.barredBy, p.TTL)
	}
	if version < n.highest {
		// Somebody may still trust what is gone.
		c.log.Warn("the row of a lock is older than it was: it is not given for a while", zap.String("lock", n.text), zap.Duration("for", c.barredBy))
		n.barred = time.Now().Add(c.barredBy)
		c.touchAfter(c.barredBy, n)
	}
	n.highest, n.floor = version, max(n.floor, version)
	if n.known {
		n.contended = version != n.version
	}
	n.known, n.version, n.queue = true, version, q
	n.news++
	c.notice(n)
	if !n.busy && !n.resting() && (c.unsettled(n) || c.haunted(n)) {
		c.touch(n)
	}
}

// haunted reports whether there is a place in this session's name that nobody
// asked for, as when an unlock was forgotten by the database. It is called with
// mu held.
func (c *Client) haunted(n *name) bool {
	if c.term == nil || c.term.over {
		return false
	}
	mine := session{c.self.Group, c.term.held.Token()}
	return slices.ContainsFunc(n.queue.Places, func(p place) bool {
		return n.queue.Processes[p.Process].session() == mine && !slices.ContainsFunc(n.requests, func(r *request) bool { return r.ID == p.ID })
	})
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

// plans decides what to write. Refused are locks whose row would have to be read
// anew before somebody who does not wait is told that it is not free; fresh are
// those that were.
func (c *Client) plans(batch, fresh []*name) (plans []plan, refused []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range batch {
		p, busy := c.plan(n)
		if len(busy) > 0 {
			if !slices.Contains(fresh, n) {
				refused = append(refused, n)
				continue
			}
			for _, r := range busy {
				r.decide(ErrBusy)
				r.state = leaving
				c.forget(r)
			}
		}
		if p != nil {
			plans = append(plans, *p)
		}
	}
	return plans, refused
}

// plan decides what to write for one lock, nil for nothing, and which requests
// that do not wait cannot be served. It is called with mu held.
func (c *Client) plan(n *name) (p *plan, busy []*request) {
	if c.term == nil || c.term.over || !n.known {
		return nil, nil // the next session begins anew
	}
	q := n.queue.clone()
	mine := session{c.self.Group, c.term.held.Token()}
	changed := q.keep(func(of process, p place) bool {
		if of.Group != mine.group {
			_, dead := c.dead[of.session()]
			return !dead
		}
		// What is in this client's name and not asked for is a place of an
		// earlier session, or of a write that was carried out late.
		return of.session() == mine && slices.ContainsFunc(n.requests, func(r *request) bool {
			return r.ID == p.ID && r.state != leaving
		})
	})
	// A row that was rewound is left as it is for that time, so that others who
	// know better notice too.
	rewound := time.Now().Before(n.barred)
	barred := rewound || time.Now().Before(c.barred)
	self := c.self
	self.Token = mine.token
	for _, r := range n.requests {
		if r.state != wanted || r.term != c.term || q.find(r.ID) != nil {
			continue
		}
		if r.try && (barred || !q.free(r.Read)) {
			busy = append(busy, r)
			continue
		}
		if r.Since == 0 {
			r.Since = c.databaseNow()
		}
		q.join(self, r.place)
		changed = true
	}
	if rewound {
		return nil, busy
	}
	// A token is greater than all that were, and a version is none that a late
	// write may expect, also if the row was deleted or restored: by the
	// database's clock.
	version := max(n.version+1, n.floor+1, uint64(c.databaseNow()))
	var granted []place
	if !barred {
		granted = q.grant(version, c.databaseNow())
	}
	changed = c.setBell(&q, mine) || changed
	q.settle()
	if !changed && len(granted) == 0 && !n.unsure {
		return nil, busy
	}
	return &plan{n, Write{Name: n.text, Expect: n.version, Version: version, Queue: q.encode()}, q, granted}, busy
}

// setBell writes down where to ring this process, as long as it waits. It is
// called with mu held.
func (c *Client) setBell(q *queue, mine session) bool {
	for i := range q.Processes {
		p := &q.Processes[i]
		if p.session() != mine {
			continue
		}
		bell := ""
		if slices.ContainsFunc(q.Places, func(p place) bool { return p.Process == i && p.Granted == 0 }) {
			bell = c.address
		}
		if p.Bell != bell {
			p.Bell = bell
			return true
		}
	}
	return false
}

// writeRows carries out the plans.
func (c *Client) writeRows(ctx context.Context, plans []plan) error {
	writes := make([]Write, len(plans))
	for i, p := range plans {
		writes[i] = p.write
	}
	c.mu.Lock()
	server := c.server
	c.mu.Unlock()
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	done, err := c.store.WriteLocks(ctx, server, writes)
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

// unsettled reports whether a request is not as the row has it. It is called
// with mu held.
func (c *Client) unsettled(n *name) bool {
	return slices.ContainsFunc(n.requests, func(r *request) bool {
		return r.term != nil && !r.term.over && (r.state == leaving || r.state == wanted && n.queue.find(r.ID) == nil)
	})
}

// ringOthers rings those who were given a lock.
func (c *Client) ringOthers() {
	for last := false; !last; {
		last = c.running.Err() != nil // and rings those whom the last unlock has served
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
			c.log.Debug("somebody who waits could not be woken", zap.Error(err)) // and will look
		}
		cancel()
	}
}

// withCause makes an error of an ended context say why it ended.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
