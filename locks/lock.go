package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/lease"
)

// Lock is a lock while it is held, from the call that got it to its Unlock, or
// until it is lost. It is safe for concurrent use.
type Lock struct {
	client  *Client
	request *request
	ctx     context.Context

	// Of a nested one, which is a part of another: what ends its context, and
	// its limit. Guarded by Client.mu.
	cancel context.CancelCauseFunc
	until  *time.Timer
	done   bool
}

// Name is the lock's name.
func (l *Lock) Name() string { return l.request.name.text }

// Token is the fencing token: greater than that of every earlier holder of the
// lock. Readers who were given it by one statement share one. Pass it on to
// whatever must refuse a holder that was replaced.
func (l *Lock) Token() uint64 { return l.request.Granted }

// Context has the values of the context that the lock was asked for with, but
// not its end, which bounds the waiting only. It ends when the lock may not be
// relied on any more, with a cause that matches [ErrLost], [ErrLimit] or
// [ErrUnlocked]. In the same database, fence.Do with this context refuses to
// commit what an earlier holder does.
func (l *Lock) Context() context.Context { return l.ctx }

// Trusted reports whether the lock may still be relied on. It reads the clocks
// itself, because the context of a process that was paused can look alive for
// a while. Whatever starts something asks this first.
func (l *Lock) Trusted() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return l.request.trusted() && l.ctx.Err() == nil
}

// trusted is called with mu held.
func (r *request) trusted() bool {
	return r.state == held && r.ctx.Err() == nil && r.term.held.Trusted() &&
		(r.For == 0 || time.Since(r.began) < r.For)
}

// Unlock gives the lock back, and the next in line has it. It is called once
// all work under the lock has stopped. A nested lock is given back with the
// outer one. Unlock returns nil when the database has confirmed it. When ctx ends
// before, or a TTL passes, as when somebody keeps the lock's row locked, the error
// says so and the client goes on trying. A lock that was lost
// is an error that matches [ErrLost] or [ErrLimit]: others may have held it
// meanwhile. Only the first call does anything; later ones return
// [ErrUnlocked].
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
	cause := context.Cause(r.ctx) // nil while nothing was wrong
	if cause == nil && !r.trusted() {
		cause = fmt.Errorf("%w: its time had passed", ErrLost)
	}
	c.close(r)
	if r.state == held {
		r.state = leaving
		c.touch(r.name)
	}
	r.cancel(ErrUnlocked)
	c.mu.Unlock()

	ctx, cancel := context.WithTimeoutCause(ctx, c.timing.TTL, fmt.Errorf("no answer within %v", c.timing.TTL))
	defer cancel()
	select {
	case <-r.left:
	case <-ctx.Done():
		select {
		case <-r.left:
		default:
			return fmt.Errorf("locks: unlock %q: not confirmed yet, and gone on with: %w", l.Name(), context.Cause(ctx))
		}
	}
	if cause != nil {
		return fmt.Errorf("locks: unlock %q: others may have had it: %w", l.Name(), cause)
	}
	return nil
}

// hold is what fenced work compares.
func (l *Lock) hold() lease.Hold {
	return lease.Hold{
		Store: l.client.store, Kind: lease.HoldLock, Name: l.Name(),
		Owner: l.client.self.Owner, Token: l.Token(), Mark: l.request.mark(), Trusted: l.Trusted,
	}
}
