package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/store"
)

// options are what a caller asks for.
type options struct {
	read      bool
	try       bool
	limit     time.Duration
	label     string
	reentrant bool
	invalid   error
}

// acquire takes the lock, or returns why it cannot.
func (c *Client) acquire(ctx context.Context, text string, o options) (*Lock, error) {
	if err := errors.Join(c.check(), o.invalid, store.CheckName("lock", text)); err != nil {
		return nil, err
	}
	if len(o.label) > MaxLabel {
		return nil, fmt.Errorf("locks: lock %q: its label %.40q... has %d bytes: at most %d", text, o.label, len(o.label), MaxLabel)
	}
	if l := holding(ctx, c, text); l != nil {
		return l.nest(ctx, o)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("locks: lock %q: %w", text, err)
	}
	l, ahead, err := c.request(ctx, text, o)
	if errors.Is(err, ErrBusy) {
		switch dead, ended := c.findsDead(ctx, ahead); {
		case ended != nil:
			err = fmt.Errorf("%w: %w", err, ended)
		case dead: // which does not count
			l, _, err = c.request(ctx, text, o)
		}
	}
	return l, err
}

// findsDead reports whether one of the processes is dead, or why it does not know when ctx ends:
// a takeover has to wait for its answers then, and goes on beside the caller.
func (c *Client) findsDead(ctx context.Context, ahead []process) (dead bool, ended error) {
	if ctx.Done() == nil {
		return c.liveness.checkOnce(ctx, ahead), nil
	}
	c.mu.Lock()
	closing := c.rows.requests.isClosing()
	if !closing {
		c.group.Add(1) // before Close waits
	}
	c.mu.Unlock()
	if closing {
		return false, nil
	}
	found := make(chan bool, 1)
	go func() {
		defer c.group.Done()
		found <- c.liveness.checkOnce(ctx, ahead)
	}()
	select {
	case dead = <-found:
		return dead, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// request makes one request and waits for its answer. If it is refused, ahead are
// the other processes in the queue.
func (c *Client) request(ctx context.Context, text string, o options) (l *Lock, ahead []process, err error) {
	r := &request{
		try:     o.try,
		place:   place{Read: o.read, For: o.limit, Label: o.label},
		decided: make(chan struct{}), left: make(chan struct{}),
	}
	l = &Lock{client: c, request: r}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))

	c.mu.Lock()
	if c.rows.requests.isClosing() {
		c.mu.Unlock()
		return nil, nil, fmt.Errorf("locks: lock %q: %w", text, ErrClosed)
	}
	c.start()
	asked := time.Now()
	r.name = c.rows.name(text)
	var own round
	if c.rows.requests.submit(r) {
		own = c.schedule(ctx, r.name)
	}
	c.mu.Unlock()
	c.roundOf(ctx, own)

	select {
	case <-r.decided:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err != nil {
		return nil, c.rows.ahead(r.name, ""), fmt.Errorf("locks: lock %q: %w", text, r.err)
	}
	cause := context.Cause(ctx)
	if r.open {
		ended := r.ended()
		if cause == nil && ended == nil {
			l.ctx = l.attach(r.ctx)
			c.events.Emit(event.LockGranted{Header: c.head(r.Granted), Lock: text, Waited: time.Since(asked)})
			return l, nil, nil
		}
		c.rows.requests.close(r)
		if cause == nil {
			cause = fmt.Errorf("it was no longer trusted when it was granted: %w", ended)
		}
	}
	err = fmt.Errorf("locks: lock %q: %w%s", text, cause, c.rows.why(r))
	c.rows.requests.withdraw(r, err)
	return nil, nil, err
}
