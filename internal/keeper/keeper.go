// Package keeper acquires leases, keeps them alive with heartbeats, and says when
// their holder may not act any more. Package lease has the argument why that is
// safe. The elections and the sessions of locks are built on it.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Keeper is one owner: it holds any number of leases and keeps them all alive
// with one statement per heartbeat. [Keeper.Run] has to run for as long as any
// of them is held. A Keeper is safe for concurrent use.
type Keeper struct {
	store  store.Leases
	owner  string
	timing lease.Timing
	events *stream.Stream
	group  string // for events; may be empty
	log    *zap.Logger
	now    func() instant
	send   func(context.Context, store.Renew) (int, error)
	// sessions: the groups may be reserved ones, see CheckGroup.
	sessions bool
	first    uint64 // heartbeat numbers begin after it, at random: see issued

	wake chan struct{} // capacity 1: something is due sooner than planned

	trouble *Trouble

	mu          sync.Mutex // guards what follows, and the fields of every Held
	held        map[*Held]struct{}
	contending  map[string]*Candidate // by group
	watching    bool                  // look is to run again
	number      uint64                // the last heartbeat number used: never twice by one owner
	lastAttempt instant               // when Run last sent a heartbeat, or saw that none was due
	running     bool
}

// Config is what a keeper can be told. The zero value is good.
type Config struct {
	Timing lease.Timing
	// Label is the first part of the owner's name, which helps people to find the
	// process. Default "worker".
	Label string
	// Logger is silent by default.
	Logger *zap.Logger
	// Events is where the keeper tells what happens. Default: one with Logger alone.
	Events *stream.Stream
	// Group is for the events of a keeper that has a single group.
	Group string
	// Sessions lets the keeper contend for the groups that are reserved for the
	// sessions of locks. It is for package locks.
	Sessions bool
	// Clock reads the clocks of the machine that the keeper lives on. Default:
	// this one's. Simulations have machines of their own.
	Clock func() clocks.Instant
	// Renew sends a heartbeat instead of the store's, which it uses for that. A
	// scheduler's heartbeat looks at its ledger too.
	Renew func(context.Context, store.Renew) (renewed int, err error)
}

// New returns a keeper of a new owner. It starts nothing. The error is a
// [*lease.TimingError].
func New(leases store.Leases, c Config) (*Keeper, error) {
	if leases == nil {
		return nil, errors.New("lease: store is nil")
	}
	timing, err := c.Timing.Complete()
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Events == nil {
		c.Events = stream.New(c.Logger)
	}
	if c.Clock == nil {
		c.Clock = clocks.Now
	}
	if c.Renew == nil {
		c.Renew = leases.Renew
	}
	owner := NewOwner(c.Label)
	k := &Keeper{
		store:    leases,
		owner:    owner,
		timing:   timing,
		events:   c.Events,
		group:    c.Group,
		log:      ownersLog(c.Events, owner),
		now:      instants(c.Clock),
		send:     c.Renew,
		sessions: c.Sessions,
		first:    rand.Uint64N(1 << 48), // which leaves a long life below 2^63
		wake:     make(chan struct{}, 1),

		held:       map[*Held]struct{}{},
		contending: map[string]*Candidate{},
	}
	k.number = k.first
	k.trouble = NewTrouble(k.events, c.Group, owner)
	k.lastAttempt = k.now()
	return k, nil
}

// Owner is the name that this keeper's leases are held under.
func (k *Keeper) Owner() string { return k.owner }

// Timing is the complete timing.
func (k *Keeper) Timing() lease.Timing { return k.timing }

// Trouble logs failures of the database. Other users of the same database share
// it with the keeper, so that one outage is logged once.
func (k *Keeper) Trouble() *Trouble { return k.trouble }

// Run sends the heartbeats, until ctx ends. No error of the database ends it.
// Leases that are still held then end as lost. It returns ctx's error, or
// another one at once when it already runs.
func (k *Keeper) Run(ctx context.Context) error {
	k.mu.Lock()
	if k.running {
		k.mu.Unlock()
		return errors.New("lease: this keeper is already running")
	}
	k.running = true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.running = false
		for h := range k.held {
			h.end(fmt.Errorf("%w: its keeper was stopped", lease.ErrLost))
			h.drop()
		}
	}()

	// Often enough to make use of what trust is left when the database is back.
	failed := retry.Forever(k.soon(), min(k.timing.RenewEvery/4, time.Second))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(k.untilBeat())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.wake:
			continue
		case <-timer.C:
		}
		asked, err := k.beat(ctx)
		if err != nil {
			if ctx.Err() == nil {
				k.trouble.Failed("heartbeat", err)
			}
			k.retryIn(failed.NextBackOff())
			continue
		}
		if asked {
			k.trouble.Worked("heartbeat")
		} else { // others may have said that none was sent
			k.trouble.Ended("heartbeat")
		}
		failed.Reset()
	}
}

// HeartbeatAge is how long ago the last heartbeat of a lease that is held was
// sent, of those that are known to have renewed it; zero when it is not held.
func (k *Keeper) HeartbeatAge(group string) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	for h := range k.held {
		if h.group == group {
			return k.now().atLeast(h.since)
		}
	}
	return 0
}

// LastAttempt is how long ago a heartbeat was last sent, or found not to be
// needed. More than a TTL means that [Keeper.Run] is stuck or does not run.
func (k *Keeper) LastAttempt() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now().atLeast(k.lastAttempt)
}

// watch has look run for as long as anything is held. It is called with mu held.
func (k *Keeper) watch() {
	const least = 50 * time.Millisecond
	if k.watching = len(k.held) > 0; k.watching {
		time.AfterFunc(max(k.timing.Grace/4, least), k.look)
	}
}

// look ends the terms whose trust is over. The timers of the terms do that too,
// but count the monotonic clock, which stops while the machine sleeps: so that
// work has most of Grace left after that, this looks four times as often.
func (k *Keeper) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.now()
	for h := range k.held {
		h.trustLeft(at)
	}
	k.watch()
}

// soon is a short time, beside which a heartbeat's interval is long.
func (k *Keeper) soon() time.Duration { return min(k.timing.RenewEvery/16, 400*time.Millisecond) }

// untilBeat is how long until the first of the held leases is due, or until it
// is time to show that the keeper is alive. Where none is due now, that is seen: terms that follow each other fast let no timer fire.
func (k *Keeper) untilBeat() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.now()
	wait := k.timing.TTL / 2
	for h := range k.held {
		wait = min(wait, h.due.Sub(at.mono))
	}
	if wait > 0 {
		k.lastAttempt = at
	}
	return max(0, wait)
}

// retryIn plans the next beat after one that failed, if there still is a lease to renew.
func (k *Keeper) retryIn(wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due := k.now().mono.Add(wait)
	for h := range k.held {
		h.due = due
	}
	k.rest()
}

// rest notes that there are no heartbeats to send any more: that the last ones have failed says nothing of the database
// from now on. It is called with mu held.
func (k *Keeper) rest() {
	if len(k.held) == 0 {
		k.trouble.Ended("heartbeat")
	}
}

// beat renews every lease that is held, in one statement, and reads back where
// the answer leaves a doubt. An error means that the outcome is unknown; asked
// is false when there was nothing to renew.
func (k *Keeper) beat(ctx context.Context) (asked bool, err error) {
	request, batch, timeout, late, overdue := k.batch()
	for _, h := range overdue {
		h.log.Warn("work has not stopped a TTL after its context ended: the lease is left to expire")
	}
	if len(batch) == 0 {
		return false, nil
	}
	renewed, err := k.renew(ctx, request, timeout, late)
	if err != nil {
		return true, fmt.Errorf("%d leases: %w", len(batch), err)
	}
	if renewed == len(batch) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, h := range batch {
			h.confirm(request.Heartbeat)
		}
		return true, nil
	}
	return true, k.settle(ctx, batch)
}

// batch prepares a renewal of all that is due or held: each lease that can
// still be renewed expects its own row and gets the same new number. What
// drains for too long is overdue, and not renewed any more. late is how long ago the first
// of them was due.
func (k *Keeper) batch() (request store.Renew, batch []*Held, timeout, late time.Duration, overdue []*Held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.now()
	k.lastAttempt = at
	k.number++
	request = store.Renew{Owner: k.owner, Heartbeat: k.number}
	timeout = k.timing.AttemptTimeout
	for h := range k.held {
		if left := h.trustLeft(at); left > 0 {
			timeout = min(timeout, left) // an answer after that is of no use
		}
		if h.draining && at.atLeast(h.ended) >= k.timing.TTL {
			h.drop()
			overdue = append(overdue, h)
			continue
		}
		late = max(late, at.mono.Sub(h.due))
		h.pending[k.number] = at
		request.Leases = append(request.Leases, store.Renewal{Group: h.group, Token: h.token, Heartbeat: h.beat, ResignAsked: h.asked})
		batch = append(batch, h)
	}
	return request, batch, timeout, late, overdue
}

func (k *Keeper) renew(ctx context.Context, request store.Renew, timeout, late time.Duration) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	began := time.Now()
	var renewed int
	err := k.events.Timed(event.Header{Group: k.group, Owner: k.owner}, "renew", len(request.Leases), func() (err error) {
		renewed, err = k.send(ctx, request)
		return ctxerr.With(ctx, err)
	})
	k.events.Emit(event.Heartbeat{
		Header: event.Header{At: time.Now(), Group: k.group, Owner: k.owner}, Leases: len(request.Leases), Late: late, Took: time.Since(began), Err: err,
	})
	return renewed, err
}

// settle reads the rows of a batch that was not renewed as a whole.
func (k *Keeper) settle(ctx context.Context, batch []*Held) error {
	groups := make([]string, len(batch))
	for i, h := range batch {
		groups[i] = h.group
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.timing.AttemptTimeout, fmt.Errorf("no answer within %v", k.timing.AttemptTimeout))
	defer cancel()
	readings, err := k.store.Read(ctx, groups...)
	if err != nil {
		return fmt.Errorf("%d leases: %w", len(batch), ctxerr.With(ctx, err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, h := range batch {
		h.settle(readings[i].Lease)
	}
	return nil
}

// holds reports whether the term is one that this keeper keeps alive.
func (k *Keeper) holds(group string, token uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for h := range k.held {
		if h.group == group && h.token == token {
			return true
		}
	}
	return false
}

// nextNumber returns a heartbeat number that this owner has never used.
func (k *Keeper) nextNumber() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.number++
	return k.number
}

// issued reports whether the number is one of this keeper's. Numbers begin at
// random, so that another process which has this owner's name all the same is
// not taken for this one.
func (k *Keeper) issued(number uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return number > k.first && number <= k.number
}

// poke makes Run look again at what is due.
func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}
