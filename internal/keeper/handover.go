package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/store"
)

// Take takes the lease if its holder has released it since the last look. It is for
// the moment when the hand-over signal has come, and saves the look: its statement
// compares what a look would have to show. Nil and no error: look.
//
// A term that it began without an answer, or by a clock that the gate refuses, is
// not kept: the next look releases it.
func (c *Candidate) Take(ctx context.Context, signal store.DirectHandover) (*Held, error) {
	leave, err := c.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if !c.mayTake() {
		return nil, nil
	}
	read := c.watch.last
	request := c.request()
	attempt, cancel := c.attempt(context.WithoutCancel(ctx))
	defer cancel()
	sent := c.keeper.now()
	token, err := signal.Take(attempt, request)
	replied := c.keeper.now()
	switch {
	case errors.Is(err, store.ErrChanged), errors.Is(err, errors.ErrUnsupported):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("group %q: %w", c.group, ctxerr.With(attempt, err))
	case token == request.Floor+1:
		return nil, nil // the clock was set back since the look: ask the gate about it
	}
	now := time.UnixMicro(int64(token)) // the largest of what a token can be
	if c.ask(now, sent, replied); c.barred != nil {
		return nil, nil
	}
	// The last heartbeat is not known, only that the lease was not released yet when
	// it was read: by what the clock showed then, or by what it must have shown
	// then if it was set back since.
	previous := Previous{Token: read.Lease.Token, RenewedAt: read.Now, server: read.Server, ttl: request.TTL, at: sent}
	if then := now.Add(-replied.atMost(c.watch.replied) - c.keeper.timing.AttemptTimeout); then.Before(previous.RenewedAt) {
		previous.RenewedAt = then.Truncate(time.Microsecond) // as all that a database stamps
	}
	return c.hold(ctx, token, request.Heartbeat, sent, previous)
}

// mayTake reports whether a look that showed the row of the last look as released,
// and nothing else changed but the heartbeat, would take the lease. The connection
// is the same, and so is the server.
func (c *Candidate) mayTake() bool {
	w := &c.watch
	if c.barred != nil || w.last == nil || w.last.Lease == nil || w.last.Fence == nil {
		return false
	}
	row := w.last.Lease
	return !row.Released && row.Owner != c.keeper.owner &&
		row.Token == w.highToken && // this replica has had no newer term since
		w.quarantinedFor(c.keeper.now()) <= 0 &&
		uint64(max(0, w.last.Now.UnixMicro())) > w.highToken // so that the new token shows the clock
}
