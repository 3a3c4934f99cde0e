package jobs

import (
	"context"
	"time"
)

type trustKey struct{}

// WithTrust returns a context that answers [TrustLeft]. It is for schedulers.
func WithTrust(ctx context.Context, left func() time.Duration) context.Context {
	return context.WithValue(ctx, trustKey{}, left)
}

// TrustLeft is how long the term of the run that ctx belongs to may still be
// trusted, by the clocks themselves and not by the context: a process that was
// paused finds out here first. Ask it right before an effect that must not
// happen after the term; zero means that the term is over. Outside of a run it
// is zero too.
func TrustLeft(ctx context.Context) time.Duration {
	if left, ok := ctx.Value(trustKey{}).(func() time.Duration); ok {
		return left()
	}
	return 0
}
