// Package retry says how long to wait between attempts that go on until their
// caller stops them.
package retry

import (
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
