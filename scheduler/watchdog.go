package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/election"
)

// watchdog ends a term when one of its activities has made no progress for a TTL:
// its loop, the look at the ledger or a statement. A replica that keeps the lease
// and runs nothing keeps all others out. Whatever the reason, a blocked log or a
// fault in this package, another replica can lead then.
type watchdog struct {
	ttl time.Duration
	now func() time.Time // by the monotonic clock of the machine

	mu     sync.Mutex
	pulses map[*pulse]struct{}
}

// pulse is one activity that must make progress.
type pulse struct {
	dog  *watchdog
	what string
	at   time.Time // when it last did; of dog.mu
}

func newWatchdog(ttl time.Duration, now func() time.Time) *watchdog {
	return &watchdog{ttl: ttl, now: now, pulses: map[*pulse]struct{}{}}
}

// begin watches an activity, until its pulse ends.
func (w *watchdog) begin(what string) *pulse {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &pulse{dog: w, what: what, at: w.now()}
	w.pulses[p] = struct{}{}
	return p
}

// beat says that the activity makes progress.
func (p *pulse) beat() {
	p.dog.mu.Lock()
	defer p.dog.mu.Unlock()
	p.at = p.dog.now()
}

// beatFor says that the activity makes progress, and that its next step may take
// so long: the activity bounds that itself.
func (p *pulse) beatFor(d time.Duration) {
	p.dog.mu.Lock()
	defer p.dog.mu.Unlock()
	p.at = p.dog.now().Add(d)
}

func (p *pulse) end() {
	p.dog.mu.Lock()
	defer p.dog.mu.Unlock()
	delete(p.dog.pulses, p)
}

// stuck names what has stood still for a TTL; nil when nothing has.
func (w *watchdog) stuck() error {
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

// watch ends the term once something has stood still for a TTL. A process that was
// paused as a whole finds its trust over, and the term has ended as lost.
func (w *watchdog) watch(ctx context.Context, held election.Term) {
	tick := time.NewTicker(w.ttl / 8)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.stuck(); err != nil && held.Trusted() {
				held.End(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
