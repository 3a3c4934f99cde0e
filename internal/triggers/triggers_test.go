package triggers_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
)

func TestNumbers(t *testing.T) {
	seen := map[uint64]bool{}
	for trigger := range uint64(1000) {
		for _, job := range []string{"a", "b"} {
			n, later := triggers.After(job, trigger, 1), triggers.After(job, trigger, 2)
			at := time.Date(2000, 1, 1, 0, int(trigger), 59, 0, time.UTC)
			b := triggers.Backfill(at)
			if got := triggers.Requested(b); !got.Equal(at.Truncate(time.Minute)) {
				t.Fatalf("requested at %v, want %v", got, at)
			}
			if seen[n] || seen[later] || seen[b] || n == later || !triggers.IsAfter(n) || triggers.IsBackfill(n) || triggers.IsAfter(b) || !triggers.IsBackfill(b) || n >= 1<<53 || b >= 1<<53 {
				t.Fatalf("%d and %d", n, b)
			}
			seen[n], seen[later], seen[b] = true, true, true
			for _, event := range []string{"failure", "missed"} {
				m := triggers.Notice(event, job, trigger, 1)
				if seen[m] || !triggers.IsNotice(m) || triggers.IsAfter(m) || triggers.IsBackfill(m) || !triggers.Follows(m) || !triggers.Follows(n) || triggers.Follows(b) ||
					triggers.IsNotice(n) || triggers.IsNotice(b) || m >= 1<<53 || triggers.KindOf(m) != "notice" || m == triggers.Notice(event, job, trigger, 2) {
					t.Fatalf("%d", m)
				}
				seen[m] = true
			}
		}
	}
	for _, n := range []uint64{0, 1, 1 << 32, 1767225600000001, triggers.First - 1} {
		if triggers.Follows(n) || triggers.IsBackfill(n) {
			t.Errorf("%d is a scheduler's", n)
		}
	}
}
