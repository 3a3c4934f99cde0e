// Package rounds tells tests how much to do: how many seeds to try, how many processes to kill.
//
// `make test` does a small number of rounds, so that it answers in minutes. `make test-long` does many times as many of
// everything. A test that can do more takes its numbers from here; it is never skipped.
package rounds

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const (
	// timesVariable is how many times as much as in `make test` is to be done: a number from 1, which is the default.
	timesVariable = "CRONLEASE_ROUNDS"
	// seedVariable replays one seed.
	seedVariable = "CRONLEASE_SEED"
)

// Of returns how many rounds a test does that does n in `make test`.
func Of(tb testing.TB, n int) int {
	tb.Helper()
	text := os.Getenv(timesVariable)
	if text == "" {
		return n
	}
	times, err := strconv.Atoi(text)
	if err != nil || times < 1 {
		tb.Fatalf("%s=%q: must be a number from 1", timesVariable, text)
	}
	return n * times
}

// Seeds returns a new random seed for each of the rounds of a test that does n in `make test`, and a third of that under
// the race detector, which makes each of them ten times as long. With CRONLEASE_SEED set it returns that seed alone. The
// test has to print the seed of a round that fails.
//
// A seed replays what a test decides. In which order goroutines run that are ready at one instant is up to Go, and
// differs: what a seed has found may take some runs to come again (go test -count).
func Seeds(tb testing.TB, n int) []uint64 {
	tb.Helper()
	if seed, ok := given(tb); ok {
		return []uint64{seed}
	}
	if raceDetector {
		n = max(1, n/3)
	}
	seeds := make([]uint64, Of(tb, n))
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	return seeds
}

// Seed returns a new random seed, or that of CRONLEASE_SEED.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	if seed, ok := given(tb); ok {
		return seed
	}
	return rand.Uint64()
}

// Pick returns n of all, in their order, of a test that does n in `make test`: others each time, and all of them in as
// many rounds as that takes.
func Pick[T any](tb testing.TB, all []T, n int) []T {
	tb.Helper()
	n = min(Of(tb, n), len(all))
	r := rand.New(rand.NewPCG(Seed(tb), 0))
	var picked []T
	for i, one := range all {
		if r.IntN(len(all)-i) < n-len(picked) {
			picked = append(picked, one)
		}
	}
	return picked
}

func given(tb testing.TB) (seed uint64, ok bool) {
	tb.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return 0, false
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s=%q: must be a number from 0", seedVariable, text)
	}
	return seed, true
}
