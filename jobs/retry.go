package jobs

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Retry says how often a run that failed, panicked or timed out is tried again.
// The waiting is in the ledger, so that it survives a takeover.
type Retry struct {
	// Attempts is how many there are in all. Zero and one: no retry. A start that was recorded
	// and did not begin, since its leader ended, does not count, unless the leader after that ends
	// between two attempts.
	Attempts int
	// Initial is the wait before the second attempt. Zero: 1 s. It doubles
	// with each further one.
	Initial time.Duration
	// Max bounds the wait. Zero: 5 min, or Initial if that is longer.
	Max time.Duration
	// Jitter spreads each wait by so much of it, up and down, from 0 to 1.
	// Zero: 0.2.
	Jitter float64
}

// Permanent wraps an error of a job so that it is not retried. It is
// [backoff.Permanent] of cenkalti/backoff.
func Permanent(err error) error { return backoff.Permanent(err) }

// IsPermanent reports whether err ends the attempts.
func IsPermanent(err error) bool {
	var permanent *backoff.PermanentError
	return errors.As(err, &permanent)
}

// After is the wait after so many attempts, and whether there is another one.
func (r Retry) After(attempt int) (time.Duration, bool) {
	if attempt >= r.Attempts {
		return 0, false
	}
	r = r.complete()
	const most = math.MaxInt64 / 4 // 73 years; twice that is the longest with jitter, and more would overflow
	r.Initial, r.Max = min(r.Initial, most), min(r.Max, most)
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.Initial),
		backoff.WithMaxInterval(r.Max),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(r.Jitter),
		backoff.WithMaxElapsedTime(0),
	)
	var wait time.Duration
	for range min(attempt, 64) { // by then any wait has reached its maximum
		wait = b.NextBackOff()
	}
	return min(wait, r.Max), true
}

// Longest is the longest wait that [Retry.After] can return for so many attempts:
// zero if there is no further one.
func (r Retry) Longest(attempt int) time.Duration {
	if attempt >= r.Attempts {
		return 0
	}
	r = r.complete()
	longest := float64(r.Initial) * math.Pow(2, float64(max(attempt-1, 0))) * (1 + r.Jitter)
	if longest >= float64(r.Max) {
		return r.Max
	}
	return time.Duration(longest)
}

func (r Retry) complete() Retry {
	if r.Initial == 0 {
		r.Initial = time.Second
	}
	if r.Max == 0 {
		r.Max = max(r.Initial, 5*time.Minute)
	}
	if r.Jitter == 0 {
		r.Jitter = 0.2
	}
	return r
}

func (r Retry) validate() error {
	var wrong []error
	c := r.complete()
	if r.Attempts < 0 {
		wrong = append(wrong, fmt.Errorf("Retry.Attempts %d: must not be negative", r.Attempts))
	}
	if r.Initial < 0 {
		wrong = append(wrong, fmt.Errorf("Retry.Initial %v: must not be negative", r.Initial))
	} else if c.Max < c.Initial {
		wrong = append(wrong, fmt.Errorf("Retry.Max %v: must be at least Retry.Initial, %v", c.Max, c.Initial))
	}
	if !(r.Jitter >= 0 && r.Jitter <= 1) {
		wrong = append(wrong, fmt.Errorf("Retry.Jitter %v: must be from 0 to 1", r.Jitter))
	}
	return errors.Join(wrong...)
}
