package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

// Candidate contends for one group's lease on behalf of a keeper. It is used by
// one goroutine at a time, and not while a lease that it returned is held.
type Candidate struct {
	keeper *Keeper
	group  string
	watch  watch
	// unanswered are the acquires whose outcome is unknown, by the heartbeat
	// that each would write.
	unanswered map[uint64]unanswered
	held       *Held // the last one
}

type unanswered struct {
	sent     instant
	compared uint64 // the token that it expects in the row
}

// Candidate returns a candidate for the group's lease.
func (k *Keeper) Candidate(group string) (*Candidate, error) {
	if err := CheckName("group", group); err != nil {
		return nil, err
	}
	return &Candidate{
		keeper: k, group: group,
		watch:      watch{ttl: k.timing.TTL},
		unanswered: map[uint64]unanswered{},
	}, nil
}

// Look reads the lease, and takes it if it may be taken. It returns the lease
// when it is ours now, and otherwise how long to wait before it is worth
// looking again, unless a bell rings earlier. An error means that the database
// gave no clear answer; look again after a while.
func (c *Candidate) Look(ctx context.Context) (*Held, time.Duration, error) {
	if c.held != nil {
		c.keeper.mu.Lock()
		c.watch.saw(c.held.token, c.held.beat)
		c.keeper.mu.Unlock()
	}
	// The second round sees what the first prepared or released, the third who
	// was quicker.
	for range 3 {
		if err := c.read(ctx); err != nil {
			return nil, 0, err
		}
		row, fence := c.watch.last.Lease, c.watch.last.Fence
		wait := c.watch.takeableIn(c.keeper.now())
		switch {
		case row != nil && row.Owner == c.keeper.owner && !row.Released:
			// A late acquire of ours: its client gave up, the server did not.
			h, err := c.adopt(ctx, *row)
			if h != nil || err != nil {
				return h, 0, err
			}
		case row == nil && fence == nil && wait > 0:
			// The group is known here, and gone there. It is watched like a
			// row that was rewound, before it begins anew.
			return nil, wait, nil
		case row == nil || fence == nil:
			if err := c.prepare(ctx); err != nil {
				return nil, 0, err
			}
		case wait > 0:
			// Jitter, so that a crash does not make every follower write at
			// the same moment.
			return nil, wait + rand.N(c.keeper.timing.TTL/64), nil
		default:
			h, err := c.acquire(ctx)
			if h != nil || err != nil {
				return h, 0, err
			}
		}
	}
	return nil, rand.N(c.keeper.timing.AttemptTimeout / 4), nil
}

// Reading is the last reading of the group's rows, nil before the first.
func (c *Candidate) Reading() *Reading { return c.watch.last }

func (c *Candidate) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := c.keeper.timing.AttemptTimeout
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
}

func (c *Candidate) read(ctx context.Context) error {
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	sent := c.keeper.now()
	readings, err := c.keeper.store.Read(ctx, c.group)
	if err != nil {
		return fmt.Errorf("read lease of %q: %w", c.group, withCause(ctx, err))
	}
	c.watch.observe(readings[0], sent, c.keeper.now())
	return nil
}

func (c *Candidate) prepare(ctx context.Context) error {
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	if err := c.keeper.store.Prepare(ctx, c.group, c.keeper.timing.TTL); err != nil {
		return fmt.Errorf("prepare lease of %q: %w", c.group, withCause(ctx, err))
	}
	return nil
}

// acquire takes the row that was just read. Nil and no error: somebody was
// quicker.
func (c *Candidate) acquire(ctx context.Context) (*Held, error) {
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	request := Acquire{
		Read:      *c.watch.last,
		Owner:     c.keeper.owner,
		Heartbeat: c.keeper.nextNumber(),
		TTL:       c.keeper.timing.TTL,
		Floor:     c.watch.highToken,
	}
	sent := c.keeper.now()
	token, err := c.keeper.store.Acquire(ctx, request)
	switch {
	case err == nil:
		return c.hold(ctx, token, request.Heartbeat, sent)
	case errors.Is(err, ErrChanged):
		return nil, nil
	default:
		c.unanswered[request.Heartbeat] = unanswered{sent, request.Read.Lease.Token}
		return nil, fmt.Errorf("acquire lease of %q: %w", c.group, withCause(ctx, err))
	}
}

// adopt takes over a term that an unanswered acquire of ours began, if there is
// trust left: it counts from when that statement was sent. Otherwise the term
// is released by its owner and token. Nil and no error: look again.
func (c *Candidate) adopt(ctx context.Context, row Lease) (*Held, error) {
	a, ok := c.unanswered[row.Heartbeat]
	// The same number is never used twice, so the row was written by that very
	// statement; a term that was held before is over, whatever the row says.
	if ok && row.Token > a.compared && (c.held == nil || row.Token > c.held.token) {
		h, err := c.hold(ctx, row.Token, row.Heartbeat, a.sent)
		if h != nil {
			h.log.Info("adopted a lease whose acquire was not answered")
			return h, err
		}
	}
	c.keeper.log.Info("releasing a lease in our name that we do not hold", zap.String("group", c.group), zap.Uint64("token", row.Token))
	return nil, c.keeper.release(ctx, c.group, row.Token)
}

// hold begins a term, unless its answer came after its trust deadline.
func (c *Candidate) hold(ctx context.Context, token, number uint64, sent instant) (*Held, error) {
	clear(c.unanswered) // each of them expects an older token
	c.watch.saw(token, number)
	h := c.keeper.hold(c.group, token, number, sent)
	c.held = h
	if h.Trusted() {
		return h, nil
	}
	return nil, h.Release(ctx)
}
