package locks

import (
	"context"
	"errors"
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

// unlockNested is called with mu held.
func (l *Lock) unlockNested() error {
	if l.done {
		return fmt.Errorf("locks: unlock %q: %w", l.Name(), ErrUnlocked)
	}
	l.done = true
	cause := context.Cause(l.ctx)
	l.cancel(ErrUnlocked)
	if l.until != nil {
		l.until.Stop()
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

// options are what a caller asks for.
type options struct {
	read      bool
	try       bool
	limit     time.Duration
	label     string
	reentrant bool
}

// acquire gets the lock, or says why not.
func (c *Client) acquire(ctx context.Context, text string, o options) (*Lock, error) {
	if err := lease.CheckName("lock", text); err != nil {
		return nil, err
	}
	if o.limit < 0 {
		return nil, fmt.Errorf("locks: lock %q for %v: must be above 0", text, o.limit)
	}
	if l := holding(ctx, c, text); l != nil {
		return l.nest(ctx, o)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("locks: lock %q: %w", text, err)
	}
	l, ahead, err := c.request(ctx, text, o)
	if errors.Is(err, ErrBusy) {
		if found, _ := c.judge(ctx, ahead); found { // a holder that is gone for good does not count
			l, _, err = c.request(ctx, text, o)
		}
	}
	return l, err
}

// request makes one request and waits for its answer. Of one that is refused,
// ahead are those who have the lock.
func (c *Client) request(ctx context.Context, text string, o options) (l *Lock, ahead []process, err error) {
	r := &request{
		try:     o.try,
		place:   place{Read: o.read, For: o.limit, Label: o.label},
		decided: make(chan struct{}), left: make(chan struct{}),
	}
	l = &Lock{client: c, request: r}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))

	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, nil, fmt.Errorf("locks: lock %q: %w", text, ErrClosed)
	}
	c.start()
	r.name = c.name(text)
	c.submit(r)
	c.mu.Unlock()

	select {
	case <-r.decided:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.err != nil:
		return nil, c.appendAhead(nil, r.name, ""), fmt.Errorf("locks: lock %q: %w", text, r.err)
	case r.open && r.trusted() && ctx.Err() == nil:
		l.ctx = l.attach(r.ctx)
		return l, nil, nil
	}
	cause := context.Cause(ctx)
	if r.open { // it was given, and came too late
		c.close(r)
		if cause == nil {
			cause = fmt.Errorf("%w: it was not trusted any more when it came", ErrLost)
		}
	}
	err = fmt.Errorf("locks: lock %q: %w%s", text, cause, c.why(r))
	c.withdraw(r, err)
	return nil, nil, err
}

// withdraw ends a request that nobody waits for any more. It is called with mu
// held.
func (c *Client) withdraw(r *request, err error) {
	switch r.state {
	case wanted:
		c.giveUp(r, err)
	case held:
		r.state = leaving
		c.touch(r.name)
	}
	r.cancel(err)
}

// why says what a request has been waiting for. It is called with mu held.
func (c *Client) why(r *request) string {
	if c.failure != nil {
		return fmt.Sprintf(" (the database: %v)", c.failure)
	}
	for _, p := range r.name.queue.Places {
		if p.Granted > 0 && p.ID != r.ID {
			of := r.name.queue.Processes[p.Process]
			return fmt.Sprintf(" (held by %s under token %d)", of.Owner, p.Granted)
		}
	}
	return ""
}

type contextKey struct{}

// attach makes the context of a holder, which knows what it holds.
func (l *Lock) attach(ctx context.Context) context.Context {
	return lease.WithHold(context.WithValue(ctx, contextKey{}, append(locksOf(ctx), l)), l.hold())
}

// locksOf are the locks that a context holds.
func locksOf(ctx context.Context) []*Lock {
	all, _ := ctx.Value(contextKey{}).([]*Lock)
	return all[:len(all):len(all)]
}

// holding is the lock of that name that the context holds and that was not
// unlocked, or nil.
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

// nest answers who asks for a lock that its context holds.
func (l *Lock) nest(ctx context.Context, o options) (*Lock, error) {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	switch {
	case !o.reentrant:
		return nil, fmt.Errorf("locks: lock %q: %w: use its Lock, or Reentrant()", l.Name(), ErrNested)
	case l.request.Read && !o.read:
		return nil, fmt.Errorf("locks: lock %q: %w, for reading: it cannot become a writer's", l.Name(), ErrNested)
	case !l.request.trusted():
		return nil, fmt.Errorf("locks: lock %q: %w", l.Name(), context.Cause(l.request.ctx))
	}
	inner := &Lock{client: l.client, request: l.request}
	inner.ctx, inner.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(l.request.ctx, func() { inner.cancel(context.Cause(l.request.ctx)) })
	if o.limit > 0 {
		inner.until = time.AfterFunc(o.limit, func() { inner.cancel(fmt.Errorf("%w (%v)", ErrLimit, o.limit)) })
	}
	return inner, nil
}
