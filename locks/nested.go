package locks

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/lease"
)

// unlockNested is called with mu held.
func (l *Lock) unlockNested() error {
	if l.done {
		return fmt.Errorf("locks: unlock %q: %w", l.Name(), ErrUnlocked)
	}
	l.done = true
	cause := l.ended()
	l.cancel(cmp.Or(cause, ErrUnlocked))
	if l.until != nil {
		l.until.Stop()
	}
	if cause != nil {
		return fmt.Errorf("locks: unlock %q: others may have had it: %w", l.Name(), cause)
	}
	return nil
}

type contextKey struct{}

// attach returns the holder's context, which carries the locks that it holds.
func (l *Lock) attach(ctx context.Context) context.Context {
	return lease.WithHold(context.WithValue(ctx, contextKey{}, append(locksOf(ctx), l)), l.hold())
}

// locksOf returns the locks that a context carries.
func locksOf(ctx context.Context) []*Lock {
	all, _ := ctx.Value(contextKey{}).([]*Lock)
	return all[:len(all):len(all)]
}

// holding returns the lock of that name that the context carries and that was not
// unlocked yet, or nil.
func holding(ctx context.Context, c *Client, text string) *Lock {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range locksOf(ctx) {
		if l.client == c && l.Name() == text && l.request.open {
			return l
		}
	}
	return nil
}

// nest answers a request for a lock that the caller's context already holds.
func (l *Lock) nest(ctx context.Context, o options) (*Lock, error) {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	ended := l.request.ended()
	switch {
	case !o.reentrant:
		return nil, fmt.Errorf("locks: lock %q: %w: use its Lock, or Reentrant()", l.Name(), ErrNested)
	case l.request.Read && !o.read:
		return nil, fmt.Errorf("locks: lock %q: %w, for reading: it cannot become a writer's", l.Name(), ErrNested)
	case ended != nil:
		return nil, fmt.Errorf("locks: lock %q: %w", l.Name(), ended)
	}
	inner := &Lock{client: l.client, request: l.request}
	var cancel context.CancelCauseFunc
	inner.ctx, cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(l.request.ctx, func() { cancel(context.Cause(l.request.ctx)) })
	inner.cancel = func(cause error) {
		stop() // or the outer lock would keep this one in memory until its own end
		cancel(cause)
	}
	if o.limit > 0 {
		inner.until = time.AfterFunc(o.limit, func() { inner.cancel(fmt.Errorf("%w (%v)", ErrLimit, o.limit)) })
	}
	return inner, nil
}
