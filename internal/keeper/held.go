package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Previous is the term that a lease was taken over from. The acquire compared
// its row, so that it was not renewed later.
type Previous struct {
	// Owner was the holder. Token is zero when the group is new.
	Owner string
	Token uint64
	// RenewedAt is its last heartbeat, or its acquire, by the database's clock.
	RenewedAt time.Time

	server string        // where the acquire ran
	ttl    time.Duration // that the acquire wrote into the row
	stands time.Duration // how long after at its holder may still trust it
	at     instant
}

// standing is how long after at the holder of the term may still trust it; zero
// unless its lease was taken early.
func (p Previous) standing(at instant) time.Duration {
	return max(0, p.stands-at.atLeast(p.at))
}

// Held is a lease while this process holds it: one term. It is trusted from
// the acquire until its trust deadline passes unrenewed, its row turns out to
// be another owner's, or [Held.End] is called; it never becomes trusted again.
// After that it drains: the keeper goes on renewing, for a TTL at most, only to
// keep others out while work stops. [Held.Release] ends that too.
//
// A Held is safe for concurrent use.
type Held struct {
	keeper *Keeper
	group  string
	token  uint64
	before Previous
	log    *zap.Logger
	ctx    context.Context
	cancel context.CancelCauseFunc
	resign chan struct{} // closed when the holder is asked to resign
	moved  chan struct{} // closed when another server has answered: see Answered

	// All guarded by keeper.mu.
	since    instant            // when the newest statement that is known to have renewed was sent
	spare    time.Duration      // what trust was left when that was known
	renewed  chan struct{}      // closed when the next one is known; nil while nobody waits
	beat     uint64             // the heartbeat that it wrote
	pending  map[uint64]instant // numbers whose statement may still have run, or may run later
	asked    bool               // what the row is known to say of resigning
	askOnce  sync.Once
	moveOnce sync.Once // not guarded
	due      time.Time // the next heartbeat
	draining bool
	ended    instant // when trust ended
	lostAt   instant // when the row turned out to be another owner's
	settled  bool    // see Settle
	dropped  bool    // not renewed any more
	timer    *time.Timer
}

// hold starts a term whose acquire was sent at since and wrote the number beat.
func (k *Keeper) hold(group string, token, beat uint64, since instant, previous Previous) *Held {
	ctx, cancel := context.WithCancelCause(context.Background())
	h := &Held{
		keeper: k, group: group, token: token, before: previous, since: since, beat: beat,
		log:     k.log.With(zap.String("group", group), zap.Uint64("token", token)),
		ctx:     ctx,
		cancel:  cancel,
		resign:  make(chan struct{}),
		moved:   make(chan struct{}),
		pending: map[uint64]instant{},
		due:     since.mono.Add(k.timing.RenewEvery),
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[h] = struct{}{}
	// The timer never moves with renewals: when it fires it looks at what is
	// left, so that a renewal and the deadline cannot race for it.
	h.timer = time.AfterFunc(max(0, h.trustLeft(k.now())), h.deadline)
	if !k.watching {
		k.watch()
	}
	k.poke()
	return h
}

// Group is the group of the lease.
func (h *Held) Group() string { return h.group }

// Token names the term.
func (h *Held) Token() uint64 { return h.token }

// Previous is the term that this one took the lease over from.
func (h *Held) Previous() Previous { return h.before }

// Server is the database server that the lease was acquired on, as in
// [store.Reading], and empty once another one has answered.
func (h *Held) Server() string {
	select {
	case <-h.moved:
		return ""
	default:
		return h.before.server
	}
}

// Answered notes that a server has answered. After a failover the term does work that
// the server of the acquire may never have: so the lease is not to be taken early any
// more, not even when that server takes the writes again. See [Candidate.Suspect].
func (h *Held) Answered(server string) {
	if server != h.before.server {
		h.moveOnce.Do(func() { close(h.moved) })
	}
}

// Moved is closed when another server than that of the acquire has answered.
func (h *Held) Moved() <-chan struct{} { return h.moved }

// PreviousStands is how long the holder of the previous term, or of one before it,
// may still trust its own. It is zero unless the lease was taken early
// ([Candidate.Suspect]), and until it is zero, work of those terms may still be
// done.
func (h *Held) PreviousStands() time.Duration {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	return h.before.standing(h.keeper.now())
}

// Settle says that no work of earlier terms is left that may still be done, so
// that the lease can be released: see [Held.Release].
func (h *Held) Settle() {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	h.settled = true
}

// Trouble is the keeper's.
func (h *Held) Trouble() *Trouble { return h.keeper.trouble }

// Owner is the holder's name.
func (h *Held) Owner() string { return h.keeper.owner }

// Hold is the term as fenced work needs to know it.
func (h *Held) Hold() lease.Hold {
	return lease.Hold{Store: h.keeper.store, Kind: lease.HoldLease, Name: h.group, Owner: h.Owner(), Token: h.token, Trusted: h.Trusted}
}

// Context ends when the lease is not trusted any more, with a cause that
// matches [lease.ErrLost] or is what [Held.End] was given.
func (h *Held) Context() context.Context { return h.ctx }

// ResignAsked is closed once this holder is asked to step down.
func (h *Held) ResignAsked() <-chan struct{} { return h.resign }

// Trusted reports whether the holder may still act. It reads the clocks
// itself, because the context of a process that was paused can look alive for
// a while after the deadline. Whatever starts something asks this first.
func (h *Held) Trusted() bool { return h.TrustLeft() > 0 }

// TrustLeft is the time until the trust deadline; zero when the term is over.
func (h *Held) TrustLeft() time.Duration {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	return max(0, h.trustLeft(h.keeper.now()))
}

// Trust is how long work of a term may go on, as one look shows it.
type Trust struct {
	// Left is the time until the trust deadline. Zero: the term is over.
	Left time.Duration
	// Spare is how much was left when the newest heartbeat was answered; zero before
	// the first one.
	Spare time.Duration
	// Renewed is closed once a later heartbeat has been answered.
	Renewed <-chan struct{}
}

// Trust is for what ends work at the trust deadline by itself.
func (h *Held) Trust() Trust {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	if h.renewed == nil {
		h.renewed = make(chan struct{})
	}
	return Trust{max(0, h.trustLeft(h.keeper.now())), h.spare, h.renewed}
}

// OverFor is how long ago this holder lost the lease: when it learnt that its row is
// another's, and at the trust deadline at the latest. Zero while the lease is kept, also
// for work that stops after the term's context has ended.
func (h *Held) OverFor() time.Duration {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	now := h.keeper.now()
	over := now.atMost(h.since) - h.keeper.timing.Trust()
	if !h.lostAt.mono.IsZero() {
		over = max(over, now.atMost(h.lostAt))
	}
	return max(0, over)
}

// End ends the term: its context is cancelled with the cause. The lease is
// still kept, for a TTL at most, until Release. Only the first end counts.
func (h *Held) End(cause error) {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	h.end(cause)
}

// Beat has the next heartbeat sent at once.
func (h *Held) Beat() {
	h.keeper.mu.Lock()
	h.due = h.keeper.now().mono
	h.keeper.mu.Unlock()
	h.keeper.poke()
}

// ReleaseTries is how often [Held.Release] tries, for an attempt's timeout each.
const ReleaseTries = 3

// Release gives the lease back, so that another replica can take it at once. It
// must not be called before all work of the term has stopped. It ends the term
// if nothing else did, works on after ctx has ended, and tries [ReleaseTries] times; the
// error says that the lease is left to expire.
//
// A released lease says that nothing of any term goes on. So one that was taken
// early and is not settled is left to expire, while [Held.PreviousStands] is not
// zero.
func (h *Held) Release(ctx context.Context) error { return h.HandOver(ctx, nil) }

// HandOver is Release, the first try of which passes the signal too, unless that is
// nil. Whatever comes of it, the caller passes the signal afterwards, to be sure.
func (h *Held) HandOver(ctx context.Context, signal store.DirectHandover) error {
	h.keeper.mu.Lock()
	h.end(lease.ErrReleased)
	h.drop()
	stands := h.before.standing(h.keeper.now())
	settled := h.settled
	h.keeper.mu.Unlock()
	if stands > 0 && !settled {
		return fmt.Errorf("release lease of %q: work of the term before may still go on, for %v at most", h.group, stands.Round(time.Millisecond))
	}
	return h.keeper.release(ctx, h.group, h.token, signal)
}

// Abandon stops the renewals and leaves the lease to expire.
func (h *Held) Abandon() {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	h.end(lease.ErrReleased)
	h.drop()
}

// release marks a term of this owner as released, by the signal at first if there is
// one.
func (k *Keeper) release(ctx context.Context, group string, token uint64, signal store.DirectHandover) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	for try := range ReleaseTries {
		attempt, cancel := context.WithTimeoutCause(ctx, k.timing.AttemptTimeout, fmt.Errorf("no answer within %v", k.timing.AttemptTimeout))
		err = k.events.Timed(event.Header{Group: group, Owner: k.owner, Token: token}, "release", 0, func() (err error) {
			if try == 0 && signal != nil {
				err = signal.Release(attempt, k.owner, token)
			} else if err = k.store.Release(attempt, group, k.owner, token); errors.Is(err, store.ErrChanged) {
				err = nil // another replica has it already
			}
			return ctxerr.With(attempt, err)
		})
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("group %q: %w", group, err)
}

// What follows is called with keeper.mu held.

// trustLeft is the time until the trust deadline, and ends the term when that
// has passed.
func (h *Held) trustLeft(at instant) time.Duration {
	if h.draining {
		return 0
	}
	left := h.keeper.timing.Trust() - at.atMost(h.since)
	if left <= 0 {
		h.end(fmt.Errorf("%w: not renewed for %v", lease.ErrLost, at.atMost(h.since).Round(time.Millisecond)))
	}
	return left
}

// end is End.
func (h *Held) end(cause error) {
	if h.draining {
		return
	}
	h.draining = true
	h.ended = h.keeper.now()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.cancel(cause)
}

// deadline runs when the trust of the acquire is over.
func (h *Held) deadline() {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	if left := h.trustLeft(h.keeper.now()); left > 0 {
		h.timer.Reset(left)
	}
}

// drop stops the renewals.
func (h *Held) drop() {
	h.dropped = true
	delete(h.keeper.held, h)
	h.keeper.rest()
}

// confirm takes in that the row has the number. What was sent earlier and is
// unanswered expected an older one, so it cannot apply any more.
func (h *Held) confirm(number uint64) {
	sent, ok := h.pending[number]
	if !ok || h.dropped {
		return
	}
	// An answer that comes after the trust deadline does not undo that it has passed:
	// what goes by the deadline alone has stopped the work.
	h.spare = h.trustLeft(h.keeper.now())
	h.beat = number
	h.since = sent
	clear(h.pending)
	h.due = sent.mono.Add(h.keeper.timing.RenewEvery)
	if h.renewed != nil {
		close(h.renewed)
		h.renewed = nil
	}
}

// settle concludes from the row what an unclear renewal has done.
func (h *Held) settle(row *store.Lease) {
	if h.dropped {
		return
	}
	switch {
	case row == nil:
		h.lose("its row was deleted")
	case row.Token != h.token || row.Owner != h.keeper.owner:
		h.lose(fmt.Sprintf("held by %q under token %d", row.Owner, row.Token))
	case row.Released:
		h.lose("its row was released by another process")
	case row.Heartbeat != h.beat && !h.isPending(row.Heartbeat):
		h.lose(fmt.Sprintf("its row has heartbeat %d, not %d: it was restored or rewritten", row.Heartbeat, h.beat))
	default:
		if h.isPending(row.Heartbeat) {
			h.confirm(row.Heartbeat)
		} else {
			h.due = h.keeper.now().mono.Add(h.keeper.soon())
		}
		h.asked = row.ResignAsked // and a request can be taken back
		if h.asked {
			h.askOnce.Do(func() { close(h.resign) })
		}
	}
}

func (h *Held) isPending(number uint64) bool {
	_, ok := h.pending[number]
	return ok
}

// lose ends a term whose row is not this owner's any more.
func (h *Held) lose(why string) {
	h.end(fmt.Errorf("%w: %s", lease.ErrLost, why))
	h.lostAt = h.keeper.now()
	h.drop()
}
