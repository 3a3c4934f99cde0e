package simulation

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seeds returns a seed for each of n bubbles, and Times as many when more was
// asked for. With CRONLEASE_SEED set it is that one alone.
//
// A seed replays what the simulation decides. In which order goroutines run that
// are ready at one instant is up to Go, and differs: what a seed has found may
// take some runs to come again (go test -count).
func Seeds(t testing.TB, n int) []uint64 {
	t.Helper()
	if text := os.Getenv("CRONLEASE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CRONLEASE_SEED: %v", err)
		}
		return []uint64{seed}
	}
	seeds := make([]uint64, n*Times(t))
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	return seeds
}

// Times is how many times as much as usual is to be simulated: CRONLEASE_SIMULATE,
// or 1.
func Times(t testing.TB) int {
	t.Helper()
	text := os.Getenv("CRONLEASE_SIMULATE")
	if text == "" {
		return 1
	}
	times, err := strconv.Atoi(text)
	if err != nil || times < 1 {
		t.Fatalf("CRONLEASE_SIMULATE=%q: must be a number from 1", text)
	}
	return times
}
