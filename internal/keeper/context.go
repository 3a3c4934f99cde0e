package keeper

import (
	"context"
	"time"
)

type heldKey struct{}

// WithHeld returns the context of the term's work: package scheduler finds the
// term in it.
func WithHeld(ctx context.Context, h *Held) context.Context {
	return context.WithValue(ctx, heldKey{}, h)
}

// TrustLeft is how long the term of the work that ctx belongs to may still be
// trusted, by the clocks themselves and not by the context: a process that was
// paused finds out here first. Zero means that the term is over. Outside of a term
// it is zero too.
func TrustLeft(ctx context.Context) time.Duration {
	if h, ok := ctx.Value(heldKey{}).(*Held); ok {
		return h.TrustLeft()
	}
	return 0
}
