package triggers_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/triggers"
)

func TestNumbers(t *testing.T) {
	// Pinned: replicas of all releases have to agree.
	if n := triggers.After("extract", 0); n != 4920246781897596 {
		t.Errorf("after the tick of extract: %d", n)
	}
	seen := map[uint64]bool{}
	for trigger := range uint64(1000) {
		for _, job := range []string{"a", "b"} {
			n := triggers.After(job, trigger)
			b := triggers.Backfill()
			if seen[n] || seen[b] || !triggers.IsAfter(n) || triggers.IsBackfill(n) || triggers.IsAfter(b) || !triggers.IsBackfill(b) || n >= 1<<53 || b >= 1<<53 {
				t.Fatalf("%d and %d", n, b)
			}
			seen[n], seen[b] = true, true
		}
	}
	for _, n := range []uint64{0, 1, 1 << 32, 1767225600000001, triggers.First - 1} {
		if triggers.IsAfter(n) || triggers.IsBackfill(n) {
			t.Errorf("%d is a scheduler's", n)
		}
	}
}
