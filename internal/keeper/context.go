package keeper

import (
	"context"
	"errors"
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

// ErrCutShort is what an error matches of work that was stopped, to be safe, in a term
// that goes on: it could not know so. The run is interrupted, and has not failed.
var ErrCutShort = errors.New("cut short in a term that goes on")

// TrustOf is [Held.Trust] of the term of the work that ctx belongs to, by the clocks
// themselves and not by the context: a process that was paused finds out here first
// that its term is over. Outside of a term it is zero.
func TrustOf(ctx context.Context) Trust {
	if h := HeldOf(ctx); h != nil {
		return h.Trust()
	}
	return Trust{}
}
