package keeper

import "time"

// SetClocks makes the keeper read its two clocks from f. For this package's
// tests; before anything else is called.
func (k *Keeper) SetClocks(f func() (mono, wall time.Time)) {
	k.now = func() instant {
		mono, wall := f()
		return instant{mono: mono, wall: wall.Round(0)}
	}
}

// SetOwner makes the keeper one of another owner. For this package's tests;
// before anything else is called.
func (k *Keeper) SetOwner(owner string) { k.owner = owner }

// Locked reports whether the keeper's mutex is locked.
func (k *Keeper) Locked() bool {
	if !k.mu.TryLock() {
		return true
	}
	k.mu.Unlock()
	return false
}

// Unanswered is how many acquires the candidate remembers.
func (c *Candidate) Unanswered() int { return len(c.unanswered) }

// Pending is how many renewals the term remembers as unanswered.
func (h *Held) Pending() int {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	return len(h.pending)
}
