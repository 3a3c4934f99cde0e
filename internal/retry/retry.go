// Package retry waits between attempts that go on until their caller stops them.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Forever returns waits that grow from initial to most, and never tell the caller
// to give up: the library's default does after 15 minutes.
func Forever(initial, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(initial),
		backoff.WithMaxInterval(max(initial, most)),
		backoff.WithMaxElapsedTime(0),
	)
}

// Sleep waits for d, or until ctx ends, and then returns its error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
