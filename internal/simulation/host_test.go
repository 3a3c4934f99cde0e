package simulation_test

import (
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
)

// host is the machine of one replica. Its clocks are slower than the bubble's,
// which makes every timer early, never late, by what they show.
type host struct {
	began time.Time
	slow  float64 // by which part its clocks are slower

	mu         sync.Mutex
	since      time.Time     // when the two below were right
	mono, wall time.Duration // since began
	standing   standing
	woken      chan struct{} // closed when the process goes on; nil while it does
	freed      bool          // it never stands still again
	set        time.Time     // when the wall clock was, last
}

// standing says how a process stands still. A bubble cannot stop goroutines:
// instead nothing goes in or out of a process that stands still, and its clocks
// stop. Timers go on, and find by the clocks that their time has not come.
type standing string

const (
	running standing = ""
	// stopped: by a signal. When it wakes its clocks are right again.
	stopped standing = "stopped"
	// asleep: the machine sleeps, and its monotonic clock has missed that.
	asleep standing = "asleep"
	// frozen: the virtual machine stood still, and none of its clocks shows it.
	frozen standing = "frozen"
)

func newHost(slow float64, wrong time.Duration) *host {
	now := time.Now()
	return &host{began: now, since: now, slow: slow, wall: wrong}
}

// clocks reads its clocks.
func (h *host) clocks() clocks.Instant {
	h.mu.Lock()
	defer h.mu.Unlock()
	shown := h.shown(time.Since(h.since))
	return clocks.Instant{Mono: h.began.Add(h.mono + shown), Wall: h.began.Add(h.wall + shown).Round(0)}
}

// shown is what the clocks show of a time; called with mu held. While the
// process stands still they crawl: a timer that finds itself early by the same
// nanosecond again and again would never let time pass.
func (h *host) shown(d time.Duration) time.Duration {
	if h.standing != running {
		return d / 1024
	}
	return d - time.Duration(float64(d)*h.slow)
}

// settle brings the two clocks up to now; called with mu held.
func (h *host) settle() {
	d := h.shown(time.Since(h.since))
	h.mono, h.wall, h.since = h.mono+d, h.wall+d, time.Now()
}

// step sets the wall clock.
func (h *host) step(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wall, h.set = h.wall+by, time.Now()
}

// correct sets the wall clock right.
func (h *host) correct() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settle()
	h.wall, h.set = time.Since(h.began), time.Now()
}

// stand makes the process stand still, and reports whether it does now. A machine
// whose wall clock was set a moment ago does not sleep: set back by more than the
// sleep, it would hide that there was one, which nothing else tells.
func (h *host) stand(how standing) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.standing != running || h.freed || how == asleep && time.Since(h.set) < ttl {
		return false
	}
	h.settle()
	h.standing, h.woken = how, make(chan struct{})
	return true
}

// wake makes the process go on. It returns how it stood still.
func (h *host) wake() standing {
	h.mu.Lock()
	defer h.mu.Unlock()
	how := h.standing
	if how == running {
		return how
	}
	missed := time.Since(h.since)
	h.settle()
	h.standing = running
	missed = h.shown(missed) - missed/1024
	switch how {
	case stopped:
		h.mono, h.wall = h.mono+missed, h.wall+missed
	case asleep:
		h.wall += missed
	}
	close(h.woken)
	h.woken = nil
	return how
}

// free wakes the process for good.
func (h *host) free() {
	h.wake()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freed = true
}

// await waits while the process stands still.
func (h *host) await() {
	for {
		h.mu.Lock()
		woken := h.woken
		h.mu.Unlock()
		if woken == nil {
			return
		}
		<-woken
	}
}

func (h *host) stands() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.standing != running
}
