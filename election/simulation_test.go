package election_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/store"
)

// simDays is how long each bubble is.
const simDays = 1

// Replicas come and go, statements are lost, late and slow, the database goes
// away, is restarted, loses its last writes, and has its clock stepped. At each
// statement that takes effect, and at each term's beginning and end: tokens
// grow, each has one owner, no two terms overlap, a healthy leader is not deposed,
// and there is a leader whenever nothing was wrong for a TTL and a second.
//
// CRONLEASE_SEED replays a bubble, CRONLEASE_ROUNDS=20 runs 20 times as many: see
// package rounds.
func TestSimulation(t *testing.T) {
	seeds := rounds.Seeds(t, 1)
	var woken atomic.Int64
	t.Cleanup(func() { // when the seeds are done
		if woken.Load() == 0 && len(seeds) >= 5 { // one in a hundred has none
			t.Error("no waiter was woken before the release")
		}
	})
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNemesis(t, seed)
				for time.Since(n.w.began) < simDays*24*time.Hour && !t.Failed() {
					n.round()
				}
				counts := n.end()
				t.Logf("CRONLEASE_SEED=%d: %v", seed, counts)
				for _, want := range []string{"acquired", "terms", "cut", "hung", "lossy", "all cut", "all hung", "killed", "stopped", "restarted", "stepped", "in time", "taken without a look"} {
					if counts[want] == 0 {
						t.Errorf("%q never happened", want)
					}
				}
				woken.Add(int64(counts["woken before the release"]))
			})
		})
	}
}

// nemesis decides what goes wrong. One goroutine owns it.
type nemesis struct {
	w        *world
	t        *testing.T
	rng      *rand.Rand
	replicas []*simReplica
	mixed    bool // each replica has a TTL of its own

	lateUntil time.Time // when the last late statement has run; of w.mu
	calmSince time.Time // zero while something is wrong
	noStart   time.Time // until then no replica may start, see lossy events
	odd       bool      // this round had an event for which TTL + 1 s is not promised
	offset    time.Duration
	most      time.Duration // the largest offset ever
	direction int           // of the last step
	stepped   time.Time
	snapshots []snapshot
	lost      time.Duration // when rows were last changed, in the world's time
}

type snapshot struct {
	lease *store.Lease
	fence *store.Fence
}

func newNemesis(t *testing.T, seed uint64) *nemesis {
	n := &nemesis{w: newWorld(t), t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	n.w.wholeFor = func() time.Duration {
		if n.calmSince.IsZero() {
			return 0
		}
		return time.Since(n.calmSince)
	}
	n.mixed = n.rng.IntN(3) == 0
	for range 3 + n.rng.IntN(3) {
		n.start()
	}
	return n
}

const simTTL = 20 * time.Second // the longest

func (n *nemesis) start() {
	if time.Now().Before(n.noStart) {
		return
	}
	ttl := 15 * time.Second
	if n.mixed {
		ttl = []time.Duration{10 * time.Second, 15 * time.Second, simTTL}[n.rng.IntN(3)]
	}
	r := startSim(n.w, ttl, n.rng.IntN(4) > 0, rand.New(rand.NewPCG(n.rng.Uint64(), 1)))
	n.replicas = append(n.replicas, r)
	n.w.count("started")
	n.w.note("%s starts, with a TTL of %v", by(r.Owner()), ttl)
}

func (n *nemesis) span(most time.Duration) time.Duration {
	return time.Duration(n.rng.Int64N(int64(most)))
}

// victim is the leader, as often as not.
func (n *nemesis) victim() *simReplica {
	if n.rng.IntN(2) == 0 {
		for _, r := range n.replicas {
			if r.State().Role == election.Leading {
				return r
			}
		}
	}
	return n.replicas[n.rng.IntN(len(n.replicas))]
}

// round is a time of trouble and the calm after it.
func (n *nemesis) round() {
	n.odd = false
	n.setCalm(false)
	n.w.note("trouble")
	for range 1 + n.rng.IntN(8) {
		n.replicas = slices.DeleteFunc(n.replicas, func(r *simReplica) bool { return !r.isRunning() })
		if len(n.replicas) == 0 || n.rng.IntN(10) == 0 && len(n.replicas) < 6 {
			n.start()
		}
		if len(n.replicas) > 0 {
			n.event()
		}
		time.Sleep(n.span(15 * time.Second))
	}
	n.heal()
	if stubborn := n.w.stubborn.Load(); stubborn > 0 && time.Since(n.w.began)-time.Duration(stubborn) < 3*simTTL {
		n.odd = true
	}
	bound := simTTL + time.Second
	if !n.mixed {
		bound = 15*time.Second + time.Second
	}
	if n.odd {
		bound = 5 * simTTL
	}
	time.Sleep(bound)
	synctest.Wait()
	switch leaders := n.w.leaders(); {
	case leaders > 1:
		n.w.failf("%d leaders", leaders)
	case leaders == 0:
		n.w.failf("no leader, %v after all was whole again (odd: %v)", bound, n.odd)
	case n.odd:
		n.w.count("in the end")
	default:
		n.w.count("in time")
	}
	n.setCalm(true)
	if n.rng.IntN(3) == 0 {
		time.Sleep(n.span(time.Hour))
	}
}

func (n *nemesis) setCalm(calm bool) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.calmSince = time.Time{}
	if calm {
		n.calmSince = time.Now()
	}
}

// heal makes all whole: at least two replicas, no stop under way, nothing late.
func (n *nemesis) heal() {
	n.w.note("all is made whole")
	for _, r := range n.replicas {
		select {
		case <-r.killed:
		default:
			r.link.Heal()
		}
	}
	for time.Now().Before(n.noStart) && len(n.replicas) < 2 {
		time.Sleep(time.Second)
	}
	for len(n.replicas) < 2 {
		n.start()
	}
	alive := 0
	for _, r := range n.replicas {
		select {
		case <-r.killed:
			<-r.done
		default:
			if r.stopped.Load() {
				<-r.done
			} else {
				alive++
			}
		}
	}
	n.replicas = slices.DeleteFunc(n.replicas, func(r *simReplica) bool { return !r.isRunning() })
	for alive < 2 {
		if wait := time.Until(n.noStart); wait > 0 {
			time.Sleep(wait)
		}
		n.start()
		alive++
	}
	// What was sent into the silence is given up by then.
	n.w.mu.Lock()
	late := n.lateUntil
	n.w.mu.Unlock()
	time.Sleep(max(time.Until(late), simTTL/5) + time.Millisecond)
}

// end stops all replicas and returns how often each event happened.
func (n *nemesis) end() map[string]int {
	n.setCalm(false)
	for _, r := range n.replicas {
		r.link.Heal()
		r.stop()
	}
	for _, r := range n.replicas {
		<-r.done
	}
	time.Sleep(2 * time.Minute) // what is late, and the work of stubborn terms
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return maps.Clone(n.w.counts)
}

// lossy is a link on which anything can happen to a statement.
func (n *nemesis) lossy(r *simReplica) func(string) faulty.Fault {
	rng := rand.New(rand.NewPCG(n.rng.Uint64(), 2))
	return func(string) faulty.Fault { // one at a time
		var f faulty.Fault
		span := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
		switch rng.IntN(8) {
		case 0:
			f = faulty.Fault{Err: faulty.ErrLost}
		case 1:
			f = faulty.Fault{Err: faulty.ErrLost, Applied: true}
		case 2:
			f = faulty.Fault{Err: faulty.ErrLost, Late: 1 + span(20*time.Second)}
		case 3:
			f = faulty.Fault{Late: 1 + span(8*time.Second)}
		case 4:
			f = faulty.Fault{Reply: span(8 * time.Second)}
		case 5:
			f = faulty.Fault{Silence: true}
		case 6:
			f = faulty.Fault{Late: 1 + span(time.Second), Reply: span(time.Second)}
		}
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		if until := time.Now().Add(f.Late + f.Reply); until.After(n.lateUntil) {
			n.lateUntil = until
		}
		return f
	}
}

// names of the events, each with how often it comes.
var simEvents = map[string]int{
	"cut": 5, "hung": 5, "lossy": 10, "all cut": 2, "all hung": 2, "all lossy": 3, "healed": 5, "killed": 4, "stopped": 3, "restarted": 2,
	"stepped": 5, "resigned": 1, "asked": 1, "early": 1, "failed over": 2, "lease deleted": 1, "group deleted": 1, "snapshot": 4,
}

func (n *nemesis) event() {
	total := 0
	for _, weight := range simEvents {
		total += weight
	}
	at := n.rng.IntN(total)
	for _, name := range slices.Sorted(maps.Keys(simEvents)) {
		if at -= simEvents[name]; at < 0 {
			victim := n.victim()
			n.w.note("%s is to be %s", by(victim.Owner()), name)
			if n.do(name, victim) {
				n.w.count(name)
			}
			return
		}
	}
}
