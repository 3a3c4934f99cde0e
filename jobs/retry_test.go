package jobs_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/jobs"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		retry   jobs.Retry
		attempt int
		least   time.Duration
		most    time.Duration
		again   bool
	}{
		{"none", jobs.Retry{}, 1, 0, 0, false},
		{"one", jobs.Retry{Attempts: 1}, 1, 0, 0, false},
		{"defaults, first", jobs.Retry{Attempts: 2}, 1, 800 * time.Millisecond, 1200 * time.Millisecond, true},
		{"defaults, third", jobs.Retry{Attempts: 4}, 3, 3200 * time.Millisecond, 4800 * time.Millisecond, true},
		{"defaults, at most", jobs.Retry{Attempts: 100}, 99, 4 * time.Minute, 5 * time.Minute, true},
		{"the last", jobs.Retry{Attempts: 3}, 3, 0, 0, false},
		{"beyond the last", jobs.Retry{Attempts: 3}, 9, 0, 0, false},
		{"initial above the default maximum", jobs.Retry{Attempts: 3, Initial: time.Hour}, 2, 48 * time.Minute, time.Hour, true},
		{"maximum", jobs.Retry{Attempts: 9, Initial: time.Second, Max: 3 * time.Second, Jitter: 1e-9}, 3, 3*time.Second - 1000, 3 * time.Second, true},
		{"any number", jobs.Retry{Attempts: math.MaxInt}, math.MaxInt - 1, 4 * time.Minute, 5 * time.Minute, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for range 100 {
				wait, again := test.retry.After(test.attempt)
				if wait < test.least || wait > test.most || again != test.again {
					t.Fatalf("%v, %v", wait, again)
				}
			}
		})
	}
}

// The wait doubles, within its jitter, and never passes its maximum.
func TestRetryAfterProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := jobs.Retry{
			Attempts: rapid.IntRange(2, 1000).Draw(t, "attempts"),
			Initial:  time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "initial")),
			Jitter:   rapid.Float64Range(0.001, 1).Draw(t, "jitter"),
		}
		r.Max = r.Initial + time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "max"))
		attempt := rapid.IntRange(1, r.Attempts-1).Draw(t, "attempt")
		wait, again := r.After(attempt)
		middle := min(float64(r.Initial)*math.Pow(2, float64(attempt-1)), float64(r.Max))
		// backoff rounds each doubling down.
		least, most := middle*(1-r.Jitter)-float64(attempt), min(middle*(1+r.Jitter)+1, float64(r.Max))
		if !again || float64(wait) < least || float64(wait) > most {
			t.Fatalf("attempt %d of %+v waits %v, want %v to %v", attempt, r, wait, time.Duration(least), time.Duration(most))
		}
	})
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	cause := errors.New("no luck")
	if err := fmt.Errorf("send: %w", jobs.Permanent(cause)); !jobs.IsPermanent(err) || !errors.Is(err, cause) || err.Error() != "send: no luck" {
		t.Errorf("%v", err)
	}
	if jobs.IsPermanent(cause) || jobs.IsPermanent(nil) {
		t.Error("permanent")
	}
}

func TestRetryIsChecked(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]jobs.Retry{
		"":                                      {Attempts: 5, Initial: time.Second, Max: time.Second, Jitter: 1},
		"Retry.Attempts -1":                     {Attempts: -1},
		"Retry.Initial -1s":                     {Initial: -time.Second},
		"Retry.Max 1s: must be at least":        {Initial: 2 * time.Second, Max: time.Second},
		"Retry.Max 1ms: must be at least":       {Max: time.Millisecond},
		"Retry.Jitter -0.1: must be":            {Jitter: -0.1},
		"Retry.Jitter 1.1: must be":             {Jitter: 1.1},
		"Retry.Jitter NaN: must be from 0 to 1": {Jitter: math.NaN()},
	} {
		j := valid()
		j.Retry = r
		wantError(t, j.Validate(), want)
	}
}

// wantError compares an error with a part of its text, "" for none.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// No wait is longer than Longest says, and the bound is a tight one.
func TestLongestRetry(t *testing.T) {
	t.Parallel()
	for _, r := range []jobs.Retry{
		{Attempts: 8}, {Attempts: 8, Initial: 3 * time.Second, Max: 20 * time.Second, Jitter: 0.5}, {Attempts: 3, Initial: time.Second, Max: time.Second, Jitter: 1e-9},
	} {
		for attempt := 1; attempt <= r.Attempts; attempt++ {
			longest, most := r.Longest(attempt), time.Duration(0)
			for range 2000 {
				wait, _ := r.After(attempt)
				most = max(most, wait)
			}
			if most > longest || most < longest*9/10 {
				t.Errorf("%+v: waits up to %v after attempt %d, and Longest says %v", r, most, attempt, longest)
			}
		}
	}
	if d := (jobs.Retry{Attempts: 3, Initial: 1 << 62, Max: math.MaxInt64, Jitter: 1e-300}).Longest(2); d != math.MaxInt64 {
		t.Errorf("the longest of all waits is %v", d)
	}
}
