package keeper

import (
	"context"
	"time"
)

type heldKey struct{}

// WithHeld returns the context of the term's work.
func WithHeld(ctx context.Context, h *Held) context.Context {
	return context.WithValue(ctx, heldKey{}, h)
}

// HeldOf returns the term of the work that ctx belongs to, nil outside of one. This
// is how package scheduler gets at what an election's users need not see.
func HeldOf(ctx context.Context) *Held {
	h, _ := ctx.Value(heldKey{}).(*Held)
	return h
}

// TrustLeft is how long the term of the work that ctx belongs to may still be
// trusted, by the clocks themselves and not by the context: a process that was
// paused finds out here first. Zero means that the term is over. Outside of a term
// it is zero too.
func TrustLeft(ctx context.Context) time.Duration {
	if h := HeldOf(ctx); h != nil {
		return h.TrustLeft()
	}
	return 0
}
