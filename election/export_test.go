package election

import (
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/settings"
)

// WithKeeper makes the election hold its lease with a keeper that others use too,
// so that all their leases share one heartbeat statement. The caller runs it, for
// longer than the election. Timing and label are the keeper's.
func WithKeeper(k *keeper.Keeper) Option {
	return func(s *settings.Election) { s.Shared = k }
}
