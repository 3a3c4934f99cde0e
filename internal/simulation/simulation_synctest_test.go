package simulation_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
)

// bubbles is how many there are, days how long one is, and fastDays one with
// jobs of seconds.
const bubbles, days, fastDays = 2, 4, 0.1

// Replicas with jobs of every kind live in bubbles of some days: processes crash,
// stand still, and are replaced by other releases; statements are lost, late and
// slow; the database goes away, refuses logins, is restarted, loses its last writes
// and has its clock stepped; every clock has a rate of its own, or, in a third of
// the bubbles, is set off by more than it may be. world, books, work and
// nemesis say what has to hold at which event.
//
// CRONLEASE_SEED replays a bubble, CRONLEASE_ROUNDS=60 simulates a year: see
// package rounds.
func TestSimulation(t *testing.T) { simulations(t, false) }

// The same in a group that begins with runs spread over its replicas, and is switched now and then.
func TestSimulationSpread(t *testing.T) { simulations(t, true) }

func simulations(t *testing.T, spread bool) {
	var mu sync.Mutex
	counts := map[string]int{}
	lived, failed := time.Duration(0), false
	seeds := rounds.Seeds(t, bubbles)
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				mu.Lock()
				enough := failed
				mu.Unlock()
				if enough {
					return // one seed at a time is to be looked into
				}
				synctest.Test(t, func(t *testing.T) {
					n := simulate(t, seed, spread)
					mu.Lock()
					defer mu.Unlock()
					failed = failed || t.Failed()
					lived += time.Since(n.w.began)
					for what, times := range n.w.counts {
						counts[what] += times
					}
				})
			})
		}
	})
	t.Logf("%.0f days: %v", lived.Hours()/24, counts)
	if lived < 300*24*time.Hour || t.Failed() {
		return
	}
	for _, what := range append(slices.Sorted(maps.Keys(events)), effects...) {
		if counts[what] == 0 && (spread || what != "switched" && what != "session taken up") {
			t.Errorf("%q never happened", what)
		}
	}
}

// effects are what the events have to have led to.
var effects = []string{
	"session taken up", "woken before the release", "taken without a look",
	// What old terms still tried.
	"claim refused", "declare refused", "effect refused", "move refused", "renewal refused",
	// Statements whose client had given up, and answers that were lost.
	"late: Acquire", "late: Claim", "late: Declare", "late: Move", "late: Release", "late: Renew", "late and refused",
	"claim repeated", "move repeated", "reply lost", "sent after waking: Renew",
	// Terms that ended, each in its way.
	"run left alone", "taken after a cut", "replaced while asleep", "replaced while frozen", "replaced while stopped",
	"run ended: lost", "run ended: resigned", "run ended: stopped", "run ended: stuck", "rows forgotten", "line waits",
	// Leaders that came back in time.
	"in time: all had crashed", "in time: all was whole again", "in time: the database was back", "in time: the leader crashed",
	// What releases brought, and what became of ticks and runs.
	"job added", "job removed", "policy changed", "schedule changed",
	"missed", "recovered", "row extended", "pruned", "skipped: missed", "skipped: paused", "skipped: too late to start",
	"tick refused", "stands back", "run ended: clocks disagree", "login denied",
	"moved to cancelled", "moved to interrupted", "moved to timed out", "moved to waiting",
	"all shards have succeeded", "paused by a scheduler", "told of failure", "told of missed", "told of recovery",
}

// simulate lives in one bubble.
func simulate(t *testing.T, seed uint64, spread bool) *nemesis {
	defer func() {
		if t.Failed() {
			t.Logf("CRONLEASE_SEED=%d go test -run '^%s$' -count 20 ./internal/simulation", seed, strings.Split(t.Name(), "/")[0])
		}
	}()
	// Bubbles begin with the year 2000. Half of them live around a change of
	// clocks: the last Sunday of March or October, or the first of April.
	rng := rand.New(rand.NewPCG(seed, 9))
	const day = 24 * time.Hour
	begin := time.Duration(rng.Int64N(int64(1000 * day)))
	if rng.IntN(2) == 0 {
		change := []int{85, 92, 302}[rng.IntN(3)] // days of 2000
		begin = time.Duration(change-1)*day - time.Duration(rng.Int64N(int64(2*day)))
	}
	time.Sleep(begin)
	n := newNemesis(t, seed, spread)
	length := float64(days)
	if n.fast {
		length = fastDays
	}
	n.live(time.Duration(length * float64(day)))
	n.end()
	for how, s := range n.w.stoodFor {
		n.w.counts["stood still: "+string(how)] += s.all
		n.w.counts["replaced while "+string(how)] += s.replaced
	}
	return n
}
