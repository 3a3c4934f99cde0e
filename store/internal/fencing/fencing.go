// Package fencing says for the fences of stores without SQL whether work may still be done
// under what its context holds.
package fencing

import (
	"context"
	"fmt"

	"github.com/cronlease/cronlease/lease"
)

// Ended returns why the work of ctx may not go on in a store: a term that is over, which
// matches fenced, or else an end of the context.
func Ended(ctx context.Context, store string, holds []lease.Hold, fenced error) error {
	for _, h := range holds {
		if h.Trusted == nil || h.Trusted() {
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", Refused(h, fenced), context.Cause(ctx))
		}
		return Refused(h, fenced)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: fenced transaction: %w", store, context.Cause(ctx))
	}
	return nil
}

// Refused is fenced with the hold that is over.
func Refused(h lease.Hold, fenced error) error {
	return fmt.Errorf("%w: %v", fenced, h)
}
