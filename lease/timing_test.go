package lease_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
)

func TestTimingDefaults(t *testing.T) {
	t.Parallel()
	got, err := lease.Timing{}.Complete()
	want := lease.Timing{TTL: 15 * time.Second, RenewEvery: 5 * time.Second, AttemptTimeout: 3 * time.Second, Grace: 2 * time.Second, Drift: 0.01}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	if got.Trust() != 12850*time.Millisecond {
		t.Errorf("trust %v", got.Trust())
	}
}

// Each limit, on its two sides, and the field that the error names.
func TestTimingLimits(t *testing.T) {
	t.Parallel()
	const s, ms, ns = time.Second, time.Millisecond, time.Nanosecond
	type timing = lease.Timing
	for name, c := range map[string]struct {
		timing timing
		field  string // "" when it is to be accepted
	}{
		"TTL at least":            {timing{TTL: s}, ""},
		"TTL too small":           {timing{TTL: s - ns}, "TTL"},
		"TTL negative":            {timing{TTL: -s}, "TTL"},
		"TTL at most":             {timing{TTL: 24 * time.Hour}, ""},
		"TTL too large":           {timing{TTL: 24*time.Hour + ns}, "TTL"},
		"drift small":             {timing{Drift: 1e-9}, ""},
		"drift negative":          {timing{Drift: -1e-9}, "Drift"},
		"drift large":             {timing{Drift: 0.2499}, ""},
		"drift too large":         {timing{Drift: 0.25}, "Drift"},
		"drift not a number":      {timing{Drift: math.NaN()}, "Drift"},
		"drift infinite":          {timing{Drift: math.Inf(1)}, "Drift"},
		"grace at most":           {timing{TTL: 10 * s, Grace: 7900 * ms}, ""},
		"grace too long":          {timing{TTL: 10 * s, Grace: 7900*ms + ns}, "Grace"},
		"grace too long by drift": {timing{TTL: 10 * s, Grace: 7900 * ms, Drift: 0.02}, "Grace"},
		"grace negative":          {timing{Grace: -ns}, "Grace"},
		"grace endless":           {timing{Grace: math.MaxInt64}, "Grace"},
		"interval negative":       {timing{RenewEvery: -ns}, "RenewEvery"},
		"timeout negative":        {timing{AttemptTimeout: -ns}, "AttemptTimeout"},
		"interval at most":        {timing{RenewEvery: 9850*ms - ns}, ""},
		"interval too long":       {timing{RenewEvery: 9850 * ms}, "RenewEvery"},
		"interval endless":        {timing{RenewEvery: math.MaxInt64}, "RenewEvery"},
		"timeout at most":         {timing{AttemptTimeout: 7850*ms - ns}, ""},
		"timeout too long":        {timing{AttemptTimeout: 7850 * ms}, "RenewEvery"},
		"timeout endless":         {timing{AttemptTimeout: math.MaxInt64}, "RenewEvery"},
		"both endless":            {timing{RenewEvery: math.MaxInt64, AttemptTimeout: math.MaxInt64}, "RenewEvery"},
	} {
		_, err := c.timing.Complete()
		var timingError *lease.TimingError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.field != "" && !errors.As(err, &timingError):
			t.Errorf("%s: error %v", name, err)
		case c.field != "" && timingError.Field != c.field:
			t.Errorf("%s: error names %s: %v", name, timingError.Field, err)
		case c.field != "" && (!strings.Contains(err.Error(), c.field) || timingError.Value == "" || timingError.Limit == ""):
			t.Errorf("%s: error %q lacks the field, its value or the limit", name, err)
		}
		if _, keeperErr := keeper.New(memdb.New(), keeper.Config{Timing: c.timing}); (keeperErr == nil) != (err == nil) {
			t.Errorf("%s: NewKeeper: %v, Complete: %v", name, keeperErr, err)
		}
	}
}

// Every accepted Timing leaves room for one failed heartbeat, and for work to
// stop before another replica can take the lease.
func TestTimingRelation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		duration := func(name string) time.Duration {
			return rapid.OneOf(
				rapid.Just(time.Duration(0)),
				rapid.Map(rapid.Int64Range(-10, int64(30*time.Hour)), func(i int64) time.Duration { return time.Duration(i) }),
				rapid.Map(rapid.Int64(), func(i int64) time.Duration { return time.Duration(i) }),
			).Draw(t, name)
		}
		in := lease.Timing{
			TTL: duration("TTL"), RenewEvery: duration("RenewEvery"), AttemptTimeout: duration("AttemptTimeout"), Grace: duration("Grace"),
			Drift: rapid.OneOf(rapid.Just(0.0), rapid.Float64()).Draw(t, "Drift"),
		}
		got, err := in.Complete()
		if err != nil {
			return
		}
		if got.TTL < lease.MinTTL || got.TTL > lease.MaxTTL || got.RenewEvery <= 0 || got.AttemptTimeout <= 0 || got.Grace <= 0 || got.Drift <= 0 {
			t.Fatalf("accepted %+v", got)
		}
		// In float64, which does not overflow; a microsecond for its rounding.
		sum := float64(got.RenewEvery) + float64(got.AttemptTimeout) + float64(got.Grace) + got.Drift*float64(got.TTL)
		if sum >= float64(got.TTL)+1000 {
			t.Fatalf("accepted %+v, which needs %v", got, time.Duration(sum))
		}
		if again, err := got.Complete(); err != nil || again != got {
			t.Fatalf("%+v, once complete, becomes %+v, %v", got, again, err)
		}
	})
}
