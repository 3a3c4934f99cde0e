//go:build linux

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// hour is what the samples of a figure are in a run of an hour, after its warm-up. at says how far the run is, from 0
// to 1.
func hour(value func(at float64) float64) []float64 {
	values := make([]float64, 324)
	for i := range values {
		values[i] = value(float64(i) / float64(len(values)))
	}
	return values
}

const hourQuarter = 54 * time.Minute / 4

// A flat figure passes in spite of noise, and a leak does not.
func TestJudge(t *testing.T) {
	t.Parallel()
	noise := func(random *rand.Rand, base, spread float64) func(float64) float64 {
		return func(float64) float64 { return base + spread*random.NormFloat64() }
	}
	for _, c := range []struct {
		name   string
		figure int
		flat   bool
		value  func(random *rand.Rand) func(at float64) float64
	}{
		{"goroutines of the jobs that run", goroutines, true, func(r *rand.Rand) func(float64) float64 { return noise(r, 100, 8) }},
		{"a crowd for a moment, at every end", goroutines, true, func(r *rand.Rand) func(float64) float64 {
			return func(at float64) float64 {
				if r.IntN(10) == 0 || at > 0.97 {
					return 3000
				}
				return 100
			}
		}},
		{"a restarted worker that has not led", descriptors, true, func(*rand.Rand) func(float64) float64 {
			return func(at float64) float64 {
				if at > 0.5 {
					return 50
				}
				return 65
			}
		}},
		{"a goroutine each tick", goroutines, false, func(r *rand.Rand) func(float64) float64 {
			n := noise(r, 100, 8)
			return func(at float64) float64 { return n(at) + at*3240 }
		}},
		{"a goroutine each tick that ends after a minute", goroutines, true, func(r *rand.Rand) func(float64) float64 {
			return noise(r, 160, 8)
		}},
		{"a goroutine of one worker each hand-over", goroutines, false, func(r *rand.Rand) func(float64) float64 {
			n := noise(r, 100, 8)
			return func(at float64) float64 { return n(at) + math.Floor(at*36) }
		}},
		{"a connection each minute and a half", connections, false, func(r *rand.Rand) func(float64) float64 {
			n := noise(r, 39, 1)
			return func(at float64) float64 { return n(at) + math.Floor(at*36) }
		}},
		{"garbage", heap, true, func(r *rand.Rand) func(float64) float64 { return noise(r, 2.3*mb, 0.2*mb) }},
		{"100 bytes each run", heap, false, func(r *rand.Rand) func(float64) float64 {
			n := noise(r, 2.3*mb, 0.2*mb)
			return func(at float64) float64 { return n(at) + at*3240*130*100 }
		}},
		{"rows up to the next pruning", ledgerRows, true, func(r *rand.Rand) func(float64) float64 {
			phase := r.Float64()
			return func(at float64) float64 { return 30_000 + 20_000*math.Mod(phase+at*54*60/cycle.Seconds(), 1) }
		}},
		{"a history that is not pruned", ledgerRows, false, func(*rand.Rand) func(float64) float64 {
			return func(at float64) float64 {
				return 30_000 + at*3240 + 20_000*math.Mod(at*54*60/cycle.Seconds(), 1) + at*9_000
			}
		}},
		{"a lock too many", lockRows, false, func(*rand.Rand) func(float64) float64 {
			return func(at float64) float64 { return 10 + math.Floor(at*2) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				v := measured[c.figure].judge(hour(c.value(rand.New(rand.NewPCG(seed, 0)))), hourQuarter)
				if !v.judged || v.flat != c.flat {
					t.Fatalf("seed %d: %+v, %v; want flat %v", seed, v, v, c.flat)
				}
			}
		})
	}
}

func TestJudgeTooLittle(t *testing.T) {
	t.Parallel()
	grows := hour(func(at float64) float64 { return 100 + 1e6*at })
	for _, c := range []struct {
		figure  int
		values  []float64
		quarter time.Duration
		want    string
	}{
		{goroutines, nil, hourQuarter, "too short to tell"},
		{goroutines, grows[:4*fewest-1], hourQuarter, "too short to tell"},
		{goroutines, grows[:4*fewest], time.Minute, "GROWS"},
		{ledgerRows, grows, cycle - 1, "too short to tell"},
		{ledgerRows, grows, cycle, "GROWS"},
	} {
		if got := fmt.Sprint(measured[c.figure].judge(c.values, c.quarter)); got != c.want {
			t.Errorf("%s, %d samples, quarter %v: %s, want %s", measured[c.figure].name, len(c.values), c.quarter, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{7, 1, 2}, 2}, {[]float64{4, 100, 2, 1}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}
