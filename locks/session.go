package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
)

// session is one session of this process: the lease that all its locks live by.
type session struct {
	held  *keeper.Held
	over  bool          // its context has ended
	ended chan struct{} // closed when it is over
	open  int           // locks that were granted under it and whose holders have not stopped
	// doubtful: the database has not confirmed that all requests which left are out of their rows.
	doubtful bool
}

// keepSession opens the session when it is first needed, and again after it was
// lost. It returns once the client is closed and no requests are left.
func (c *Client) keepSession() {
	candidate, err := c.keeper.Candidate(c.rows.self.Group)
	if err != nil {
		panic(err) // the name is ours
	}
	defer close(c.finished)
	failed := retry.Forever(min(c.timing.TTL/30, 100*time.Millisecond), min(c.timing.TTL/5, time.Second))
	for c.running.Err() == nil {
		want, done := c.wantsSession()
		if done {
			c.orderly = time.Now().After(c.doubtful)
			return
		}
		if !want {
			c.keeper.Trouble().Ended(openingSession)
			c.pause(c.rows.requests.sessions, time.Hour)
			continue
		}
		held, wait, err := candidate.Look(c.running)
		c.sawServer(candidate.Reading())
		switch {
		case held != nil:
			c.keeper.Trouble().Worked(openingSession)
			failed.Reset()
			c.doubtful = time.Time{} // the one before is over
			c.keep(held)
		case err != nil && c.running.Err() == nil:
			wait = failed.NextBackOff()
			c.keeper.Trouble().Failed(openingSession, err)
			c.noSession(err)
			c.pause(nil, wait)
		default:
			c.pause(nil, wait)
		}
	}
}

// wantsSession is [requests.needs].
func (c *Client) wantsSession() (want, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows.requests.needs()
}

// noSession notes that the database did not answer, and fails the TryLock requests.
func (c *Client) noSession(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.rounds.noted(err)
	for n := range c.rows.requests.locks() {
		c.rows.requests.giveUpTries(n, err)
	}
}

// keep runs one session, from its acquire to its release.
func (c *Client) keep(h *keeper.Held) {
	s := &session{held: h, ended: make(chan struct{})}
	c.begin(s)
	// Not in this goroutine, which may be busy: the contexts of all locks end with
	// the session's.
	context.AfterFunc(h.Context(), func() { c.end(s, context.Cause(h.Context())) })
	for alive := true; alive; {
		select {
		case <-s.ended:
			alive = false
		case <-c.rows.requests.sessions:
			if _, done := c.wantsSession(); done {
				h.End(ErrClosed)
			}
		}
	}
	if !c.drain(s) || c.running.Err() != nil {
		h.Abandon()
		c.finish(s, errLeftToExpire)
		if c.running.Err() == nil {
			c.log.Error("locks that were lost have not been unlocked: their session is left to expire")
			c.expire()
		}
		return
	}
	err := h.Release(c.running)
	if err != nil {
		c.log.Warn("the session is left to expire", zap.Error(err))
		err = fmt.Errorf("%w: %w", errLeftToExpire, err)
	}
	c.finish(s, err)
}

var errLeftToExpire = errors.New("the session has ended, and is left to expire")

// finish ends what is left of a session: it was released, unless there is a doubt.
func (c *Client) finish(s *session, doubt error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.requests.finish(s, doubt)
	if doubt != nil && s.doubtful {
		c.doubtful = time.Now().Add(c.timing.TTL)
	}
}

// expire waits until a session that was just abandoned has expired for all other
// processes. A candidate that looked at it earlier would find a lease in its own
// name that it does not hold, and release it while the work under its locks still
// runs.
func (c *Client) expire() {
	over := time.Now().Add(c.timing.TTL + c.timing.TTL/50) // clock rates differ by less
	for c.running.Err() == nil {
		_, done := c.wantsSession()
		left := time.Until(over)
		if done || left <= 0 {
			return
		}
		c.pause(c.rows.requests.sessions, left)
	}
}

// begin gives every waiting request a place in the new session.
func (c *Client) begin(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.rounds.noted(nil)
	c.rows.requests.begin(s)
	poke(c.listens)
}

// end takes all locks of a session from their holders. Waiting requests go on
// waiting, in the next session.
func (c *Client) end(s *session, cause error) {
	lost := 0
	if errors.Is(cause, ErrLost) {
		// Deferred before the mutex: a log that is blocked must not keep it. The holders
		// know by their contexts.
		defer func() { c.events.Emit(event.LocksLost{Header: c.head(s.held.Token()), Locks: lost, Cause: cause}) }()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(s.ended)
	lost = c.rows.requests.end(s, cause)
}

// drain waits until every lock of the session was unlocked, for at most a TTL:
// by then the session has expired.
func (c *Client) drain(s *session) bool {
	expired := time.NewTimer(c.timing.TTL)
	defer expired.Stop()
	for {
		c.mu.Lock()
		open := s.open
		c.mu.Unlock()
		if open == 0 {
			return true
		}
		select {
		case <-c.rows.requests.sessions:
		case <-expired.C:
			return false
		case <-c.running.Done():
			return false
		}
	}
}

// sawServer notes which server answered.
func (c *Client) sawServer(r *store.Reading) {
	if r == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.answeredBy(r.Server)
}
