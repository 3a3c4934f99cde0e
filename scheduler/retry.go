package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// waits are those between statements that fail.
func waits(timing lease.Timing) *backoff.ExponentialBackOff {
	return retry.Forever(min(timing.AttemptTimeout/16, 50*time.Millisecond), min(timing.AttemptTimeout, time.Second))
}

// retry repeats a statement until its answer is clear: nil, or that the term
// is over. It ends with ctx.
func (v *env) retry(ctx context.Context, what string, f func(context.Context) error) error {
	return v.retryLonger(ctx, what, v.timing.AttemptTimeout, f)
}

// retryLonger is retry for work whose size is not known. An attempt that runs out
// of time is followed by one with twice as much, up to most: heartbeats go on
// beside it, so that it need not fit into the time of a statement.
func (v *env) retryLonger(ctx context.Context, what string, most time.Duration, f func(context.Context) error) error {
	timing := v.timing
	wait := waits(timing)
	pulse := v.dog.begin("a statement (" + what + ")")
	defer pulse.end()
	limit := timing.AttemptTimeout
	for {
		pulse.beatFor(limit - timing.AttemptTimeout)
		attempt, cancel := context.WithTimeout(ctx, limit)
		err := f(attempt)
		if attempt.Err() != nil {
			limit = min(2*limit, max(most, limit))
		}
		cancel()
		if err == nil || errors.Is(err, store.ErrReplaced) {
			v.trouble.Worked(what)
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
		v.trouble.Failed(what, err)
		pulse.beat() // the attempt may have taken nearly a TTL
		if retry.Sleep(ctx, wait.NextBackOff()) != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
	}
}
