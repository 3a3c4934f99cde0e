package scheduler_test

import (
	"context"
	"errors"
	"time"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
)

// sleep is work that takes so long and heeds its context.
func sleep(d time.Duration) func(context.Context, jobs.Run) error {
	return func(ctx context.Context, _ jobs.Run) error { return retry.Sleep(ctx, d) }
}

// deaf is work that goes on until free is closed.
func deaf(free <-chan struct{}) func(context.Context, jobs.Run) error {
	return func(context.Context, jobs.Run) error {
		<-free
		return nil
	}
}

var errWork = errors.New("no luck")

// failing is work whose first runs fail, of all ticks together.
func failing(times int) func(context.Context, jobs.Run) error {
	return func(context.Context, jobs.Run) error {
		times--
		if times >= 0 {
			return errWork
		}
		return nil
	}
}
