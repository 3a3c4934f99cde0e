package locks

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
)

const (
	// lookEvery is the longest wait for the bell: a ring may be lost.
	lookEvery = time.Second
	// pollEvery is how often to poll without a bell.
	pollEvery = 100 * time.Millisecond
	// coverEvery is how often a process rings its own bell, until the bell's Wait
	// covers a lock that had no waiter yet when the Wait began.
	coverEvery = 20 * time.Millisecond
	// idleMost is how many of the locks that were unlocked are reread.
	idleMost = 256
)

// The tasks of a client that the log of an outage names; see [lease.Trouble].
const (
	readingWaited  = "read locks that are waited for"
	readingHeld    = "read locks that are held"
	judgingHolders = "look whether the holder of a lock is alive"
	writingLocks   = "write locks"
	openingSession = "open a session for locks"
)

// listen waits on behalf of all waiters of this process: for a ring, for rows that
// change, and for sessions that end.
func (c *Client) listen() {
	look := time.NewTimer(c.timing.RenewEvery)
	defer look.Stop()
	for c.running.Err() == nil {
		waiting, rows := c.waiting()
		if len(waiting) == 0 {
			c.keeper.Trouble().Ended(readingWaited)
			c.keeper.Trouble().Ended(judgingHolders)
			c.setCovered(nil)
			select {
			case <-c.listens:
			case <-look.C:
				look.Reset(c.lookAround())
			case <-c.running.Done():
			}
			continue
		}
		c.await(rows, c.judgeAhead(waiting))
		if c.running.Err() != nil {
			return
		}
		if err := c.look(c.running, waiting, false); err != nil {
			if c.running.Err() == nil {
				c.keeper.Trouble().Failed(readingWaited, err)
			}
			c.pause(nil, pollEvery)
			continue
		}
		c.keeper.Trouble().Worked(readingWaited)
		c.heal(waiting)
		select {
		case <-look.C:
			look.Reset(c.lookAround())
		default:
		}
	}
}

// waiting returns the locks that this process waits for, and for each the mark that
// its row contains until the first of these waiters is granted the lock. The ones
// behind it cannot be granted before it is. Without a session there are no places,
// but the holders and waiters that will be ahead of them are watched nevertheless.
func (c *Client) waiting() (names []*name, rows []Watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.active {
		switch p := n.waits(); {
		case n.busy: // the write in flight will show
		case p != nil:
			names = append(names, n)
			rows = append(rows, Watch{n.text, p.mark()})
		case c.term != nil && c.term.over && slices.ContainsFunc(n.requests, func(r *request) bool { return r.state == wanted }):
			names = append(names, n)
		}
	}
	return names, rows
}

// waits returns this process's first waiting place in the queue as it is known, or
// nil if there is none. It is called with mu held.
func (n *name) waits() *place {
	if !n.known {
		return nil
	}
	for i := range n.queue.Places {
		p := &n.queue.Places[i]
		if p.Granted > 0 {
			continue
		}
		for _, r := range n.requests {
			if r.ID == p.ID && r.state == wanted && r.term != nil && !r.term.over {
				return p
			}
		}
	}
	return nil
}

// await waits for the bell, for at most limit.
func (c *Client) await(rows []Watch, limit time.Duration) {
	if c.bell == nil {
		c.pause(nil, min(limit, pollEvery))
		return
	}
	ctx, cancel := context.WithTimeout(c.running, limit+c.timing.AttemptTimeout)
	defer cancel()
	address, err := c.bell.Address(ctx)
	if err == nil {
		c.setAddress(address)
		covered := make(map[string]bool, len(rows))
		for _, row := range rows {
			covered[row.Name] = true
		}
		c.setCovered(covered)
		err = c.bell.Wait(ctx, rows, limit)
		c.setCovered(nil)
	}
	if err != nil && c.running.Err() == nil {
		c.log.Debug("the bell cannot be listened to", zap.Error(err))
		c.pause(nil, pollEvery)
	}
}

// heal schedules overdue writes: of a lock that was not granted while it was
// barred, or that its last holder could not pass on.
func (c *Client) heal(names []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.databaseNow()
	for _, n := range names {
		if n.busy || !n.known {
			continue
		}
		if p, _ := c.plan(n, now); p != nil {
			c.touch(n)
		}
	}
}

// lookAround checks that the rows of held locks still say so, and that the rows of
// recently unlocked ones still show the unlock: another program can restore or
// delete rows, and a failover can lose an unlock. (An unlock that is older than the
// session's last heartbeat but one cannot be lost without that heartbeat.) It
// returns how long it is until the next check.
func (c *Client) lookAround() time.Duration {
	c.mu.Lock()
	var names, idle []*name
	for _, n := range c.names {
		switch {
		case n.holds():
			names = append(names, n)
		case len(n.requests) == 0: // known or not: the write that was to repair it may have been refused
			idle = append(idle, n)
		}
	}
	if len(names) == 0 {
		idle = slices.DeleteFunc(idle, func(n *name) bool { return time.Since(n.used) > 2*c.timing.RenewEvery })
	}
	slices.SortFunc(idle, func(a, b *name) int { return b.used.Compare(a.used) })
	c.mu.Unlock()
	names = append(names, idle[:min(len(idle), idleMost)]...)
	if len(names) == 0 {
		c.keeper.Trouble().Ended(readingHeld)
		return c.timing.RenewEvery
	}
	err := c.look(c.running, names, false)
	if err == nil {
		c.keeper.Trouble().Worked(readingHeld)
	}
	if err == nil || c.running.Err() != nil {
		return c.timing.RenewEvery
	}
	c.keeper.Trouble().Failed(readingHeld, err)
	return c.timing.RenewEvery / 4
}

// holds reports whether this process holds the lock. It is called with mu held.
func (n *name) holds() bool {
	return slices.ContainsFunc(n.requests, func(r *request) bool { return r.state == held })
}
