package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/lease"
)

// Lock is a held lock, from the call that acquired it until its Unlock, or until
// it is lost. It is safe for concurrent use.
type Lock struct {
	client  *Client
	request *request
	ctx     context.Context

	// For a nested lock: what ends its context, and its limit. Guarded by
	// Client.mu.
	cancel context.CancelCauseFunc
	until  *time.Timer
	done   bool
}

// Name is the lock's name.
func (l *Lock) Name() string { return l.request.name.text }

// Token is the fencing token: greater than that of every earlier holder of the
// lock. Readers granted by the same statement share one. Pass it to every system
// that has to reject writes of a stale holder.
func (l *Lock) Token() uint64 { return l.request.Granted }

// Context carries the values of the context that was passed to Lock, but not its
// end, which bounds the waiting only. It ends when the lock can no longer be
// relied on, with a cause that matches [ErrLost], [ErrLimit] or [ErrUnlocked]. In
// the same database, fence.Do with this context refuses to commit once the lock
// has passed to another holder.
func (l *Lock) Context() context.Context { return l.ctx }

// Trusted reports whether the lock may still be relied on. It reads the clocks
// itself, because after a process was paused its context can look alive for a
// while. Call it before starting something under the lock.
func (l *Lock) Trusted() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return l.ended() == nil
}

// ended returns why the lock can no longer be relied on, or nil. It is called with mu held.
func (l *Lock) ended() error {
	if cause := context.Cause(l.ctx); cause != nil {
		return cause
	}
	return l.request.ended()
}

// ended returns why a lock that was granted can no longer be relied on, or nil. It reads the
// clocks, so that it may know of an end before the context does, whose cause it then gives. It
// is called with mu held.
func (r *request) ended() error {
	switch session := r.session.held; {
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case !session.Trusted(): // which has ended the session's context
		return context.Cause(session.Context())
	case r.For > 0 && time.Since(r.began) >= r.For:
		return fmt.Errorf("%w (%v)", ErrLimit, r.For)
	}
	return nil
}

// Unlock releases the lock and passes it to the next waiter. Call it once all
// work under the lock has stopped. A nested lock is released with the outer one.
// Unlock returns nil once the database has confirmed the release. If ctx ends or a
// TTL passes before that, for example because another transaction has locked the
// row, the error says so and the client retries in the background. It also says so if
// the session ends before that and is not released either, as in an outage: the lock
// then expires. For a lock that was lost, the error matches [ErrLost] or [ErrLimit]:
// another holder may have had it meanwhile. Only the first call has an effect; later
// ones return [ErrUnlocked].
func (l *Lock) Unlock(ctx context.Context) error {
	c, r := l.client, l.request
	c.mu.Lock()
	if l.cancel != nil {
		defer c.mu.Unlock()
		return l.unlockNested()
	}
	if !r.open {
		past := r.past
		r.past = false
		c.mu.Unlock()
		if past {
			return fmt.Errorf("locks: unlock %q: others may have had it: %w", l.Name(), context.Cause(r.ctx))
		}
		return fmt.Errorf("locks: unlock %q: %w", l.Name(), ErrUnlocked)
	}
	cause := r.ended() // nil if the lock was not lost
	c.rows.requests.close(r)
	var own round
	if r.state == held {
		r.state = leaving
		own = c.schedule(ctx, r.name)
	}
	r.cancel(cmp.Or(cause, ErrUnlocked))
	c.mu.Unlock()
	c.events.Emit(event.LockReleased{Header: c.head(r.Granted), Lock: l.Name(), Held: time.Since(r.began)})
	c.roundOf(ctx, own)
	if errors.Is(cause, ErrLost) { // its place is gone, or ends with its session
		return fmt.Errorf("locks: unlock %q: others may have had it: %w", l.Name(), cause)
	}
	switch doubt := c.awaitLeft(ctx, r); {
	case cause != nil && doubt != nil:
		return fmt.Errorf("locks: unlock %q: others may have had it: %w; %w", l.Name(), cause, doubt)
	case cause != nil:
		return fmt.Errorf("locks: unlock %q: others may have had it: %w", l.Name(), cause)
	case doubt != nil:
		return fmt.Errorf("locks: unlock %q: %w", l.Name(), doubt)
	}
	return nil
}

// awaitLeft waits until a request is out of its row, for at most a TTL.
func (c *Client) awaitLeft(ctx context.Context, r *request) error {
	limited, cancel := context.WithTimeoutCause(ctx, c.timing.TTL, c.unanswered)
	defer cancel()
	if !r.isForgotten() {
		select {
		case <-r.left:
		case <-limited.Done():
		}
	}
	switch {
	case !r.isForgotten():
		return fmt.Errorf("not confirmed; retrying in the background: %w", context.Cause(limited))
	case r.doubt != nil:
		return fmt.Errorf("not confirmed: %w", r.doubt)
	}
	return nil
}

// isForgotten reports whether it is out of its row, or in doubt.
func (r *request) isForgotten() bool {
	select {
	case <-r.left:
		return true
	default:
		return false
	}
}

// hold is what a fenced transaction checks.
func (l *Lock) hold() lease.Hold {
	return lease.Hold{
		Store: l.client.store, Kind: lease.HoldLock, Name: l.Name(),
		Owner: l.client.rows.self.Owner, Token: l.Token(), Mark: l.request.mark(), Trusted: l.Trusted,
	}
}
