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

// A shard's number says which of how many it is, and of which run.
func TestShards(t *testing.T) {
	seen := map[uint64]bool{}
	for _, of := range []uint64{0, 1, 1767225600000001, triggers.After("a", 0, 1), triggers.Backfill(time.Now())} {
		for _, n := range []int{1, 2, 3, triggers.MaxShards} {
			for i := range n {
				number := triggers.Shard(of, i, n)
				if at, total := triggers.ShardOf(number); at != i || total != n || !triggers.IsShardOf(number, of) || triggers.IsShardOf(number, of+1) {
					t.Errorf("shard %d of %d of %d is %d, which is %d of %d", i, n, of, number, at, total)
				}
				if seen[number] || triggers.Follows(number) || triggers.IsBackfill(number) || number >= triggers.First || triggers.KindOf(number) != "shard" {
					t.Errorf("%d is %s, or that of another", number, triggers.KindOf(number))
				}
				seen[number] = true
			}
		}
		if _, n := triggers.ShardOf(of); n != 0 {
			t.Errorf("%d is a shard", of)
		}
	}
}
