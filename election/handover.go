package election

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
)

// handover listens for the store's hand-over signal on a goroutine of its own. All
// but listen is called by the campaign's goroutine, which owns the fields below.
type handover struct {
	signal store.HandoverSignal // nil where the store has none
	apart  bool                 // this replica never leads, and does not wait for the signal
	begin  chan struct{}        // capacity 1: asks listen to wait for the signal
	came   chan struct{}        // capacity 1: the signal is ours
	lost   chan struct{}        // capacity 1: the signal broke while listening

	listening bool // between start and came
	has       bool
	fresh     bool // it came, and no look was made since
	// After the signal came without a lease to take, it is left to other replicas
	// for a moment. The moment is short at first, since a leader that has just
	// begun may not wait for the signal yet, and grows while no leader keeps it.
	fruitless *backoff.ExponentialBackOff
	started   time.Time
	notBefore time.Time
	seen      present // the term that was last found present
	missed    present // the term that was last found not to be, and
	misses    int     // how often
}

// present is a term whose leader was connected to a server.
type present struct {
	token  uint64
	server string
}

func newHandover(leases store.Leases, group string, fruitless *backoff.ExponentialBackOff) *handover {
	h := &handover{begin: make(chan struct{}, 1), came: make(chan struct{}, 1), lost: make(chan struct{}, 1), fruitless: fruitless}
	if s, ok := leases.(store.HandoverSignals); ok {
		h.signal = s.HandoverSignal(group)
	}
	return h
}

// listen waits for the signal whenever it is asked to, until ctx ends.
func (h *handover) listen(ctx context.Context, failed *backoff.ExponentialBackOff) {
	if h.signal == nil {
		return
	}
	defer func() { _ = h.signal.Close() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.begin:
		}
		for began := time.Now(); h.signal.Wait(ctx) != nil; began = time.Now() {
			// Without a signal the timed look remains, so this is not logged. But
			// when a signal breaks after a while, the database may have failed
			// too: the sooner that is seen, the sooner its TTL begins.
			if time.Since(began) > h.fruitless.MaxInterval {
				select {
				case h.lost <- struct{}{}:
				default:
				}
			}
			if retry.Sleep(ctx, failed.NextBackOff()) != nil {
				return
			}
		}
		failed.Reset()
		h.came <- struct{}{}
	}
}

// announce shows other replicas that the leader of the term is connected.
func (h *handover) announce(ctx context.Context, token uint64, server string) {
	if p, ok := h.signal.(store.PresenceSignal); ok {
		_ = p.Announce(ctx, token, server) // without it they wait for the TTL
	}
}

// appear shows that this replica is there and could lead.
func (h *handover) appear(ctx context.Context, owner string) {
	h.announce(ctx, store.ReplicaToken(owner), "") // each look tries again
}

// hide ends what appear has begun.
func (h *handover) hide(ctx context.Context) {
	if _, ok := h.signal.(store.PresenceSignal); ok && !h.has {
		_ = h.signal.Pass(ctx)
	}
}

// meet notes whether the leader in a reading is present. It asks once for each term, unless its leader is absent: then
// it returns how often that was so.
func (h *handover) meet(ctx context.Context, r store.Reading) (misses int) {
	p, ok := h.signal.(store.PresenceSignal)
	if !ok || r.Lease == nil || r.Lease.Owner == "" || r.Lease.Released {
		return 0
	}
	leader := present{r.Lease.Token, r.Server}
	if leader == h.seen {
		return 0
	}
	h.seen = present{} // a leader hides from its first server once it has met another one
	if there, server, err := p.Present(ctx, leader.token); err == nil && there && server == leader.server {
		h.seen = leader
		return 0
	}
	if leader != h.missed {
		h.missed, h.misses = leader, 0
	}
	h.misses++
	return h.misses
}

// left reports whether the leader of a term was present on the server and is not any
// more. met is false where it was not.
func (h *handover) left(ctx context.Context, token uint64, server string) (left, met bool) {
	p, ok := h.signal.(store.PresenceSignal)
	if !ok || h.seen != (present{token, server}) {
		return false, false
	}
	there, answered, err := p.Present(ctx, token)
	return err == nil && !there && answered == server, true
}

// start puts this replica in line for the signal, unless it has it.
func (h *handover) start() {
	if h.signal != nil && !h.apart && !h.listening && !h.has {
		h.listening = true
		h.started = time.Now()
		h.begin <- struct{}{}
	}
}

// ready fires when it is time to start, and never while start is not needed.
func (h *handover) ready() <-chan time.Time {
	if h.signal == nil || h.apart || h.listening || h.has {
		return nil
	}
	return time.After(time.Until(h.notBefore))
}

// got notes that the signal is ours.
func (h *handover) got() {
	h.has, h.fresh, h.listening = true, true, false
	if time.Since(h.started) > h.fruitless.MaxInterval {
		h.fruitless.Reset() // a leader kept it meanwhile
	}
}

// direct is the signal while it is ours, if the store hands leases over with it.
func (h *handover) direct() store.DirectHandover {
	if d, ok := h.signal.(store.DirectHandover); ok && h.has {
		return d
	}
	return nil
}

// passIdle hands the signal on when it came without a lease to take.
func (h *handover) passIdle() {
	if h.has {
		h.notBefore = time.Now().Add(h.fruitless.NextBackOff())
		h.pass()
	}
}

// pass hands the signal on.
func (h *handover) pass() {
	if !h.has {
		return
	}
	h.has, h.fresh = false, false
	// Its own time limit: a signal that cannot be passed is dropped by its
	// connection sooner or later, and nothing depends on it.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.signal.Pass(ctx)
}
