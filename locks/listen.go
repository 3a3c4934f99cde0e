package locks

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/store"
)

const (
	// lookEvery is the longest wait for a notification: it may be lost.
	lookEvery = time.Second
	// pollEvery is how often to poll without a notifier.
	pollEvery = 100 * time.Millisecond
	// notifyEvery is how often a process notifies itself, until the notifier's Wait
	// watches a lock that had no waiter yet when the Wait began.
	notifyEvery = 20 * time.Millisecond
)

// The tasks of a client that the log of an outage names; see keeper.Trouble.
const (
	readingWaited   = "read locks that are waited for"
	readingHeld     = "read locks that are held"
	checkingHolders = "look whether the holder of a lock is alive"
	writingLocks    = "write locks"
	openingSession  = "open a session for locks"
)

// listen waits on behalf of all waiters of this process: for a notification, for rows that
// change, and for sessions that end.
func (c *Client) listen() {
	look := time.NewTimer(c.timing.RenewEvery)
	defer look.Stop()
	for c.running.Err() == nil {
		c.mu.Lock()
		waiting, rows := c.rows.requests.waiting()
		c.mu.Unlock()
		if len(waiting) == 0 {
			c.keeper.Trouble().Ended(readingWaited)
			c.keeper.Trouble().Ended(checkingHolders)
			c.notifier.setWatched(nil)
			select {
			case <-c.listens:
			case <-look.C:
				look.Reset(c.lookAround())
			case <-c.running.Done():
			}
			continue
		}
		c.await(rows, c.checkAhead(waiting))
		if c.running.Err() != nil {
			return
		}
		if err := c.peek(c.running, waiting, false); err != nil {
			if c.running.Err() == nil {
				c.keeper.Trouble().Failed(readingWaited, err)
			}
			c.pause(nil, pollEvery)
			continue
		}
		c.keeper.Trouble().Worked(readingWaited)
		c.retryOverdue(waiting)
		select {
		case <-look.C:
			look.Reset(c.lookAround())
		default:
		}
	}
}

// checkAhead finds out whether the processes that this one's waiters are queued
// behind are alive, and returns how long to wait before doing it again.
func (c *Client) checkAhead(names []*name) time.Duration {
	var ahead []process
	known := map[sessionID]bool{}
	c.mu.Lock()
	for _, n := range names {
		p := n.waits()
		if p == nil {
			continue
		}
		for _, of := range c.rows.ahead(n, p.ID) {
			if s := of.sessionID(); !known[s] {
				known[s] = true
				ahead = append(ahead, of)
			}
		}
	}
	c.mu.Unlock()
	_, next := c.liveness.check(c.running, ahead)
	return next
}

// releaseDead has the places of a process whose session is over removed.
func (c *Client) releaseDead(p process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.releaseDead(p)
}

// await waits for a notification, for at most limit.
func (c *Client) await(rows []store.LockWatch, limit time.Duration) {
	if c.notifier.Notifier == nil {
		c.pause(nil, min(limit, pollEvery))
		return
	}
	ctx, cancel := context.WithTimeout(c.running, limit+c.timing.AttemptTimeout)
	defer cancel()
	address, err := c.notifier.Address(ctx)
	if err == nil {
		c.setAddress(address)
		watched := make(map[string]bool, len(rows))
		for _, row := range rows {
			watched[row.Name] = true
		}
		c.notifier.setWatched(watched)
		err = c.notifier.Wait(ctx, rows, limit)
		c.notifier.setWatched(nil)
	}
	if err != nil && c.running.Err() == nil {
		c.log.Debug("notifications cannot be waited for", zap.Error(err))
		c.pause(nil, pollEvery)
	}
}

// retryOverdue schedules overdue writes: of a lock that was not granted while it was
// barred, or that its last holder could not pass on.
func (c *Client) retryOverdue(names []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.rows.sight.now()
	for _, n := range names {
		if n.turn.isBusy() {
			continue
		}
		if p, _ := c.rows.plan(n, now); p != nil {
			c.rows.rounds.touch(n)
		}
	}
}

// lookAround checks that the rows of held locks still say so, and that the rows of
// unlocked ones still show the unlock: another program can restore or
// delete rows, and a failover can lose an unlock, see [row.prove]. It
// returns how long it is until the next check.
func (c *Client) lookAround() time.Duration {
	c.mu.Lock()
	names := c.rows.reread()
	c.mu.Unlock()
	if len(names) == 0 {
		c.keeper.Trouble().Ended(readingHeld)
		return c.timing.RenewEvery
	}
	var err error
	for some := range slices.Chunk(names, batchMost) {
		if err = c.look(c.running, some, false); err != nil {
			break
		}
	}
	if err == nil {
		c.keeper.Trouble().Worked(readingHeld)
	}
	if err == nil || c.running.Err() != nil {
		return c.timing.RenewEvery
	}
	c.keeper.Trouble().Failed(readingHeld, err)
	return c.timing.RenewEvery / 4
}

// setAddress notes where to notify this process, and has the address written into
// the rows of all locks that it waits for.
func (c *Client) setAddress(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.notifier.address == address {
		return
	}
	c.notifier.address = address
	for n := range c.rows.requests.locks() {
		if n.waits() != nil {
			c.rows.rounds.touch(n)
		}
	}
}
