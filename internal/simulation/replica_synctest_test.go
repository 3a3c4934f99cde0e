package simulation_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/settings"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

const (
	ttl   = 15 * time.Second
	grace = 2 * time.Second
	slots = 6
	// trustMost is how long a term is trusted after a heartbeat took effect, by
	// the slowest clock.
	trustMost = (ttl-ttl/100-grace)*100/99 + time.Millisecond
	wakeUp    = 100 * time.Millisecond // how long after a process woke its timers have run
)

// replica is one start of one process.
type replica struct {
	*scheduler.Scheduler
	w       *world
	host    *host
	link    *link
	release *release
	mode    bool // runs are to be spread
	log     *blockable
	began   time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	killed  chan struct{}
	kill    func() // as SIGKILL does: nothing of it does anything any more

	// Guarded by w.mu.
	dead   bool
	left   time.Time            // when it began to stop
	over   map[uint64]time.Time // when its terms ended, by token
	woken  time.Time            // when it last did, after it stood still
	thawed time.Time            // the same, of a virtual machine that stood still
	// renewals are those of its leases since then.
	renewals int
}

func startReplica(w *world, h *host, release *release, mode bool, rng *rand.Rand) *replica {
	r := &replica{
		w: w, host: h, link: newLink(w, h, rng), release: release, log: &blockable{waits: func() { w.count("line waits") }},
		mode: mode, began: time.Now(), over: map[uint64]time.Time{}, done: make(chan struct{}), killed: make(chan struct{}),
	}
	r.log.says = func(line string) { w.note("%s says: %s", by(r.Owner()), line) }
	ended := func(s election.State) {
		if s.Role == election.Draining {
			w.mu.Lock()
			defer w.mu.Unlock()
			r.over[s.Token] = time.Now()
		}
	}
	// Clocks differ by hours in most seeds, and there is more to see when that
	// keeps no replica from leading.
	maxSkew := w.limit
	if maxSkew == 0 {
		maxSkew = 10_000 * time.Hour
	}
	timing := lease.Timing{TTL: ttl, Grace: grace}
	var spread scheduler.Option = func(*settings.Scheduler) {}
	if mode {
		spread = scheduler.WithSpread()
	}
	s, err := scheduler.New(r.link, group, spread, scheduler.WithMaxRuns(slots), scheduler.WithTiming(timing), scheduler.WithObserver(ended),
		scheduler.WithMaxSkew(maxSkew), scheduler.WithLogger(zap.New(r.log)),
		func(s *settings.Scheduler) { s.Election.Keeper.Clock = h.clocks })
	if err != nil {
		w.t.Fatal(err)
	}
	r.Scheduler = s
	for _, job := range release.jobs {
		job.Everywhere = job.Everywhere && mode // else it is one that the leader runs
		job.Do = func(ctx context.Context, run jobs.Run) error { return r.do(ctx, job, run) }
		if err := s.Add(job); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := s.Add(newNotifier(r.link)); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.kill = sync.OnceFunc(func() {
		w.mu.Lock()
		r.dead = true
		w.mu.Unlock()
		r.link.dead.Store(true)
		close(r.killed)
		r.host.free()
		r.log.end()
		cancel()
	})
	w.mu.Lock()
	w.replicas[r.Owner()] = r
	w.mu.Unlock()
	go func() {
		defer close(r.done)
		err := s.Run(ctx)
		h.await()
		w.mu.Lock()
		// Work that stands still, or waits for a blocked log, cannot stop in time.
		if err != nil && !r.dead && (!errors.Is(err, election.ErrStillLeading) || r.woken.IsZero() && !r.log.waited.Load()) {
			w.failf("Run: %v", err)
		}
		w.mu.Unlock()
		r.kill() // a program that returns ends all that it runs
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.replicas, r.Owner())
	}()
	return r
}

// stop begins a clean end.
func (r *replica) stop() {
	r.w.mu.Lock()
	r.left = time.Now()
	r.w.mu.Unlock()
	r.cancel()
}

// justWoke reports whether the process stands still, or did not long ago: its
// timers are late for a TTL at most, and with them the ends of contexts. What
// starts a run reads the clocks. Called with w.mu held.
func (r *replica) justWoke() bool {
	return r.host.stands() || !r.woken.IsZero() && time.Since(r.woken) < ttl+grace
}

// isOver reports whether the process has ended.
func (r *replica) isOver() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// stand makes the process stand still.
func (r *replica) stand(how standing) bool {
	if !r.host.stand(how) {
		return false
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for x := range r.w.works {
		if x.replica == r {
			x.stood = true
		}
	}
	r.w.note("%s stands still: %s", by(r.Owner()), how)
	return true
}

// wake makes it go on. The timers that its clocks say are over run soon.
func (r *replica) wake() {
	w := r.w
	w.mu.Lock()
	how := r.host.wake()
	if how == running {
		w.mu.Unlock()
		return
	}
	w.note("%s goes on: %s", by(r.Owner()), how)
	r.woken = time.Now()
	if how == frozen {
		r.thawed, r.renewals = r.woken, 0
	}
	s := w.stoodFor[how]
	s.all++
	for x := range w.works {
		if x.replica == r && x.term != w.terms(x.of).holder.Token {
			s.replaced++
			break
		}
	}
	w.stoodFor[how] = s
	w.mu.Unlock()
	time.AfterFunc(wakeUp, func() {
		w.mu.Lock()
		var mine []*work
		for x := range w.works {
			if x.replica == r {
				mine = append(mine, x)
			}
		}
		w.mu.Unlock()
		for _, x := range mine {
			keeper.TrustOf(x.ctx) // ends the term if it is over
		}
	})
}
