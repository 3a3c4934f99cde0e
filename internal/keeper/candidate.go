package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
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
	begun      bool // see Begin; of keeper.mu
	gate       func(lease.Skew) error
	onRewind   func() // see OnRewind
	follows    bool   // see FollowOnly
	barred     error  // what the gate said last
	held       *Held  // the last one
	namesake   uint64 // the last term of another process with this owner's name
	leftOver   uint64 // the last such term that was logged, see isLeftOver
	early      *Early
	suspected  *suspected // the term that is being watched since the signal came
	taken      Previous   // what the last early acquire replaced
	refused    refused
}

// refused is a row that this replica failed to take.
type refused struct{ token, heartbeat uint64 }

type unanswered struct {
	sent     instant
	previous Previous // what it expects in the row
}

// Candidate returns a candidate for the group's lease.
func (k *Keeper) Candidate(group string) (*Candidate, error) {
	check := store.CheckGroup
	if k.sessions {
		check = func(group string) error { return store.CheckName("group", group) }
	}
	if err := check(group); err != nil {
		return nil, err
	}
	return &Candidate{
		keeper: k, group: group,
		watch:      watch{ttl: k.timing.TTL, drift: k.timing.Drift},
		unanswered: map[uint64]unanswered{},
	}, nil
}

// Look reads the lease, and takes it if it may be taken. It returns the lease
// when it is ours now, and otherwise how long to wait before it is worth
// looking again, unless a hand-over signal comes earlier. An error means that the
// database gave no clear answer; look again after a while; one that matches
// [ErrContended] means that the keeper's owner contends for the group elsewhere.
func (c *Candidate) Look(ctx context.Context) (*Held, time.Duration, error) {
	c.suspected = nil
	return c.look(ctx)
}

// Watch is Look without taking: it reads the lease.
func (c *Candidate) Watch(ctx context.Context) error {
	leave, err := c.enter()
	if err != nil {
		return err
	}
	defer leave()
	c.knowHeld()
	return c.read(ctx)
}

// knowHeld has the watch know of the last lease that this candidate returned: a row from before it has gone back.
func (c *Candidate) knowHeld() {
	if c.held != nil {
		c.keeper.mu.Lock()
		c.watch.saw(c.held.token, c.held.beat, c.held.before.ttl)
		c.keeper.mu.Unlock()
	}
}

func (c *Candidate) look(ctx context.Context) (*Held, time.Duration, error) {
	leave, err := c.enter()
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	c.knowHeld()
	// The second round sees what the first prepared or released, and the third
	// which replica was faster.
	for range 3 {
		if err := c.read(ctx); err != nil {
			return nil, 0, err
		}
		if h, wait, err := c.act(ctx, c.finding()); h != nil || wait > 0 || err != nil {
			return h, wait, err
		}
	}
	return nil, c.jitter(), nil
}

// finding is what the last reading means now.
func (c *Candidate) finding() finding {
	row := c.watch.last.Lease
	return finding{
		lease: row != nil, fence: c.watch.last.Fence != nil,
		takeable: c.watch.takeableIn(c.keeper.now()), leftOver: row != nil && c.isLeftOver(*row),
		barred: c.barred != nil, suspected: c.suspected != nil, follows: c.follows,
	}
}

// act does what follows from a reading. It returns the lease when it is ours now, how long to
// wait before it is worth looking again, or neither: then another round is due.
func (c *Candidate) act(ctx context.Context, f finding) (*Held, time.Duration, error) {
	switch f.move() {
	case stay:
		return nil, c.until(f.takeable), nil
	case refrain:
		return nil, c.keeper.timing.TTL/3 + c.jitter(), nil
	case settle:
		return c.settle(ctx, *c.watch.last.Lease)
	case prepare:
		return nil, 0, c.prepare(ctx)
	case hasten:
		if wait, err := c.earlier(ctx, f.takeable); err != nil || wait > 0 {
			return nil, wait, err
		}
	}
	h, err := c.acquire(ctx)
	return h, 0, err
}

// settle adopts or releases a term that [Candidate.isLeftOver] found.
func (c *Candidate) settle(ctx context.Context, row store.Lease) (*Held, time.Duration, error) {
	// A late acquire of ours: its client gave up, the server did not.
	if c.barred == nil {
		if h, err := c.adopt(ctx, row); h != nil || err != nil {
			return h, 0, err
		}
	}
	at := c.keeper.now()
	if wait := releasableIn(c.watch.quarantinedFor(at), c.taken.standing(at)); wait > 0 {
		return nil, c.until(wait), nil
	}
	// The release may arrive after the next look, whatever comes of it here: what it was sent for is adopted no more.
	delete(c.unanswered, row.Heartbeat)
	// Logged once: while the server takes no writes, each look gets here.
	if c.leftOver != row.Token {
		c.leftOver = row.Token
		c.keeper.log.Info("releasing a lease that this process took and does not keep", zap.String("group", c.group), zap.Uint64("token", row.Token))
	}
	return nil, 0, c.keeper.release(ctx, c.group, row.Token, nil)
}

// isLeftOver reports whether the row has a term that this process acquired but
// does not keep. A term that another process acquired under the same owner name
// is treated like any other owner's: it is neither adopted nor released.
func (c *Candidate) isLeftOver(row store.Lease) bool {
	k := c.keeper
	switch {
	case row.Owner != k.owner || row.Released || k.holds(c.group, row.Token):
		return false
	case k.issued(row.Heartbeat):
		return true
	}
	if c.namesake != row.Token {
		c.namesake = row.Token
		k.log.Error("another process holds the lease under the name of this one: no two starts of a process may have one name",
			zap.String("group", c.group), zap.Uint64("token", row.Token))
	}
	return false
}

// until is how long to wait for something that is due after wait. A lease is
// looked at once a minute at least: what two clocks can differ by between two
// looks delays a takeover.
func (c *Candidate) until(wait time.Duration) time.Duration {
	return min(wait, time.Minute) + c.jitter()
}

// jitter keeps a crash from making every follower write at the same moment.
func (c *Candidate) jitter() time.Duration {
	return rand.N(min(c.keeper.timing.TTL/64, 250*time.Millisecond))
}

// Reading is the last reading of the group's rows, nil before the first.
func (c *Candidate) Reading() *store.Reading { return c.watch.last }

// Refused reports whether the row of the last reading is one that this replica
// failed to take: that the database reads it does not show that the trouble is over.
func (c *Candidate) Refused() bool {
	row := (*store.Lease)(nil)
	if c.watch.last != nil {
		row = c.watch.last.Lease
	}
	return row != nil && c.refused == refused{row.Token, row.Heartbeat}
}

// HeartbeatAge is the least age of the heartbeat that the last reading showed:
// for so long none was seen to follow it.
func (c *Candidate) HeartbeatAge() time.Duration {
	if c.watch.last == nil {
		return 0
	}
	return c.watch.age + c.keeper.now().atLeast(c.watch.replied)
}

func (c *Candidate) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := c.keeper.timing.AttemptTimeout
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
}

// TakeableIn is for how long the lease may not be taken yet, by the last reading, zero or less is now.
func (c *Candidate) TakeableIn() time.Duration { return c.watch.takeableIn(c.keeper.now()) }

func (c *Candidate) read(ctx context.Context) error { return c.keeper.Read(ctx, c) }

// Read reads the leases of several candidates of this keeper in one statement, and takes none.
func (k *Keeper) Read(ctx context.Context, all ...*Candidate) error {
	ctx, cancel := all[0].attempt(ctx)
	defer cancel()
	groups := make([]string, len(all))
	for i, c := range all {
		groups[i] = c.group
	}
	sent := k.now()
	var readings []store.Reading
	err := all[0].timed("read", func() (err error) {
		readings, err = k.store.Read(ctx, groups...)
		return ctxerr.With(ctx, err)
	})
	if err != nil {
		if len(groups) > 1 {
			return fmt.Errorf("%d groups: %w", len(groups), err)
		}
		return fmt.Errorf("group %q: %w", groups[0], err)
	}
	replied := k.now()
	for i, c := range all {
		c.watch.observe(readings[i], sent, replied)
		c.ask(c.watch.last.Now, sent, replied)
		if c.watch.rewound && c.onRewind != nil {
			c.onRewind()
		}
	}
	return nil
}

// timed calls f, a call of the database.
func (c *Candidate) timed(name string, f func() error) error {
	return c.keeper.events.Timed(event.Header{Group: c.group, Owner: c.keeper.owner}, name, 0, f)
}

func (c *Candidate) prepare(ctx context.Context) error {
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	// The holder of a lease that was deleted trusts it for its own TTL.
	ttl := max(c.keeper.timing.TTL, c.watch.highTTL)
	if err := c.keeper.store.Prepare(ctx, c.group, ttl); err != nil {
		return fmt.Errorf("group %q: %w", c.group, ctxerr.With(ctx, err))
	}
	return nil
}

// acquire takes the row that was just read. Nil and no error: another replica
// was faster. When ctx ends it still waits for the answer: a lease taken
// without this replica's knowledge would keep every replica out for a TTL.
func (c *Candidate) acquire(ctx context.Context) (*Held, error) {
	ctx, cancel := c.attempt(context.WithoutCancel(ctx))
	defer cancel()
	request := c.request()
	sent := c.keeper.now()
	previous := Previous{
		Owner: request.Read.Lease.Owner, Token: request.Read.Lease.Token, RenewedAt: request.Read.Lease.RenewedAt,
		server: request.Read.Server, stands: c.watch.stands(sent), at: sent,
	}
	if previous.stands > 0 {
		// The next replica waits for the row's TTL, which has to be long enough for
		// the replaced holder, too: see [Candidate.Suspect].
		request.TTL = max(request.TTL, request.Read.Lease.TTL)
		if previous.stands > c.taken.standing(sent) {
			c.taken = previous
		}
	}
	previous.ttl = request.TTL
	maps.DeleteFunc(c.unanswered, func(_ uint64, a unanswered) bool { return !c.trusts(a.sent) })
	var token uint64
	err := c.timed("acquire", func() (err error) {
		token, err = c.keeper.store.Acquire(ctx, request)
		return err
	})
	switch {
	case err == nil:
		if previous.stands > 0 {
			c.keeper.log.Info("took the lease of a leader whose connection is gone", zap.String("group", c.group), zap.Uint64("token", token),
				zap.String("leader", request.Read.Lease.Owner), zap.Uint64("leader_token", previous.Token))
		}
		return c.hold(ctx, token, request.Heartbeat, sent, previous)
	case errors.Is(err, store.ErrChanged):
		return nil, nil
	default:
		c.refused = refused{request.Read.Lease.Token, request.Read.Lease.Heartbeat}
		c.unanswered[request.Heartbeat] = unanswered{sent, previous}
		return nil, fmt.Errorf("group %q: %w", c.group, ctxerr.With(ctx, err))
	}
}

// request is an acquire that leans on the last reading.
func (c *Candidate) request() store.Acquire {
	return store.Acquire{
		Read:      *c.watch.last,
		Owner:     c.keeper.owner,
		Heartbeat: c.keeper.nextNumber(),
		TTL:       c.keeper.timing.TTL,
		Floor:     c.watch.highToken,
	}
}

// adopt takes over a term that an unanswered acquire of ours began, if there is
// trust left: it counts from when that statement was sent. Nil and no error:
// there is nothing to adopt.
func (c *Candidate) adopt(ctx context.Context, row store.Lease) (*Held, error) {
	a, ok := c.unanswered[row.Heartbeat]
	// The same number is never used twice, so the row was written by that very
	// statement; a term that was held before is over, whatever the row says.
	if !ok || !c.trusts(a.sent) || row.Token <= a.previous.Token || c.held != nil && row.Token <= c.held.token {
		return nil, nil
	}
	h, err := c.hold(ctx, row.Token, row.Heartbeat, a.sent, a.previous)
	if h != nil {
		h.log.Info("adopted a lease whose acquire was not answered")
	}
	return h, err
}

// trusts reports whether a term whose acquire was sent then can have trust left.
func (c *Candidate) trusts(sent instant) bool {
	return c.keeper.now().atMost(sent) < c.keeper.timing.Trust()
}

// hold begins a term, unless its answer came after its trust deadline.
func (c *Candidate) hold(ctx context.Context, token, number uint64, sent instant, previous Previous) (*Held, error) {
	clear(c.unanswered) // each of them expects an older token
	c.watch.saw(token, number, previous.ttl)
	h := c.keeper.hold(c.group, token, number, sent, previous)
	c.held = h
	if h.Trusted() {
		return h, nil
	}
	return nil, h.Release(ctx)
}
