package keeper

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
)

// Heed has the holder learn at once what is asked of it through the database, until
// ctx ends. Where the store cannot wake it, the next heartbeat finds out. A holder with
// a ledger gives two functions: known is the number of the ledger's changes that it
// knows, and look looks for others and reports whether there were any.
func (h *Held) Heed(ctx context.Context, known func() uint64, look func() bool) {
	signals, ok := h.keeper.store.(store.RequestSignals)
	if !ok {
		return
	}
	signal := signals.RequestSignal(h.group, h.token)
	defer func() { _ = signal.Close() }()
	timing := h.keeper.timing
	soon := min(timing.TTL/30, time.Second)
	failed := retry.Forever(soon, min(timing.TTL/3, 30*time.Second))
	idle := retry.Forever(time.Millisecond, soon) // when it comes for nothing
	for ctx.Err() == nil {
		var number *uint64
		if known != nil {
			number = new(known())
		}
		switch err := signal.Wait(ctx, number); {
		case err != nil:
			_ = retry.Sleep(ctx, failed.NextBackOff())
		case look != nil && look():
			failed.Reset()
			idle.Reset()
		default:
			h.Beat() // it finds a request to resign
			failed.Reset()
			_ = retry.Sleep(ctx, idle.NextBackOff())
		}
	}
}
