package election

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/cronlease/cronlease/store"
)

// ringer listens for the store's bell on a goroutine of its own. All but listen
// is called by the campaign's goroutine, which owns the fields below.
type ringer struct {
	bell  store.HandoverSignal // nil where the store has none
	begin chan struct{}        // capacity 1: asks listen to wait for the bell
	rung  chan struct{}        // capacity 1: the bell is ours
	lost  chan struct{}        // capacity 1: the bell broke while listening

	listening bool // between start and rung
	has       bool
	// After the bell came without a lease to take, it is left to other replicas
	// for a moment. The moment is short at first, since a leader that has just
	// begun may not wait for the bell yet, and grows while no leader keeps it.
	fruitless *backoff.ExponentialBackOff
	started   time.Time
	notBefore time.Time
}

func newRinger(leases store.Leases, group string, fruitless *backoff.ExponentialBackOff) *ringer {
	r := &ringer{begin: make(chan struct{}, 1), rung: make(chan struct{}, 1), lost: make(chan struct{}, 1), fruitless: fruitless}
	if s, ok := leases.(store.HandoverSignals); ok {
		r.bell = s.HandoverSignal(group)
	}
	return r
}

// listen waits for the bell whenever it is asked to, until ctx ends.
func (r *ringer) listen(ctx context.Context, failed *backoff.ExponentialBackOff) {
	if r.bell == nil {
		return
	}
	defer func() { _ = r.bell.Close() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.begin:
		}
		for began := time.Now(); r.bell.Wait(ctx) != nil; began = time.Now() {
			// Without a bell the timed look remains, so this is not logged. But
			// when a bell breaks after a while, the database may have failed
			// too: the sooner that is seen, the sooner its TTL begins.
			if time.Since(began) > r.fruitless.MaxInterval {
				select {
				case r.lost <- struct{}{}:
				default:
				}
			}
			if !pause(ctx, failed.NextBackOff()) {
				return
			}
		}
		failed.Reset()
		r.rung <- struct{}{}
	}
}

// pause waits, and reports whether ctx has not ended by then.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// start puts this replica in line for the bell, unless it has it.
func (r *ringer) start() {
	if r.bell != nil && !r.listening && !r.has {
		r.listening = true
		r.started = time.Now()
		r.begin <- struct{}{}
	}
}

// ready fires when it is time to start, and never while start is not needed.
func (r *ringer) ready() <-chan time.Time {
	if r.bell == nil || r.listening || r.has {
		return nil
	}
	return time.After(time.Until(r.notBefore))
}

// got notes that the bell is ours.
func (r *ringer) got() {
	r.has, r.listening = true, false
	if time.Since(r.started) > r.fruitless.MaxInterval {
		r.fruitless.Reset() // a leader kept it meanwhile
	}
}

// passIdle hands the bell on when it came without a lease to take.
func (r *ringer) passIdle() {
	if r.has {
		r.notBefore = time.Now().Add(r.fruitless.NextBackOff())
		r.pass()
	}
}

// pass hands the bell on.
func (r *ringer) pass() {
	if !r.has {
		return
	}
	r.has = false
	// Its own time limit: a bell that cannot be passed is dropped by its
	// connection sooner or later, and nothing depends on it.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.bell.Pass(ctx)
}
