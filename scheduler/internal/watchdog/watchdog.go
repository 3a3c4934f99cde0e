// Package watchdog ends a term of which a part stands still.
package watchdog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/election"
)

// Watchdog ends a term when one of its activities has made no progress for a TTL:
// its loop, the look at the ledger or a statement. A replica that keeps the lease
// and runs nothing keeps all others out. Whatever the reason, a blocked log or a
// fault in this package, another replica can lead then.
type Watchdog struct {
	ttl time.Duration
	now func() time.Time // by the monotonic clock of the machine

	mu     sync.Mutex
	pulses map[*Pulse]struct{}
}

// Pulse is one activity that must make progress.
type Pulse struct {
	dog  *Watchdog
	what string
	at   time.Time // when it last did; of dog.mu
}

// New returns a watchdog that waits for ttl, by the monotonic clock now. Its methods are safe for concurrent use.
func New(ttl time.Duration, now func() time.Time) *Watchdog {
	return &Watchdog{ttl: ttl, now: now, pulses: map[*Pulse]struct{}{}}
}

// Begin watches an activity, until its pulse ends.
func (w *Watchdog) Begin(what string) *Pulse {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &Pulse{dog: w, what: what, at: w.now()}
	w.pulses[p] = struct{}{}
	return p
}

// Beat says that the activity makes progress.
func (p *Pulse) Beat() {
	p.dog.mu.Lock()
	defer p.dog.mu.Unlock()
	p.at = p.dog.now()
}

// BeatFor says that the activity makes progress, and that its next step may take
// so long: the activity bounds that itself.
func (p *Pulse) BeatFor(d time.Duration) {
	p.dog.mu.Lock()
	defer p.dog.mu.Unlock()
	p.at = p.dog.now().Add(d)
}

// End ends the activity.
func (p *Pulse) End() {
	p.dog.mu.Lock()
	defer p.dog.mu.Unlock()
	delete(p.dog.pulses, p)
}

// Stuck names what has stood still for a TTL; nil when nothing has.
func (w *Watchdog) Stuck() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for p := range w.pulses {
		if still := now.Sub(p.at); still > w.ttl {
			return fmt.Errorf("%w: %s has stood still for %v", election.ErrStuck, p.what, still.Round(time.Millisecond))
		}
	}
	return nil
}

// Watch ends the term once something has stood still for a TTL. A process that was
// paused as a whole finds its trust over, and the term has ended as lost.
func (w *Watchdog) Watch(ctx context.Context, held election.Term) {
	tick := time.NewTicker(w.ttl / 8)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.Stuck(); err != nil && held.Trusted() {
				held.End(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
