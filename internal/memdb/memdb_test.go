package memdb_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Leases(t, func(testing.TB) storetest.Harness {
		s := memdb.New()
		return storetest.Harness{
			Open:      func(testing.TB) store.Leases { return s },
			Update:    func(_ testing.TB, group string, change storetest.Change) { s.Update(group, change) },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
			Restart:   func(testing.TB) { s.Restart() },
		}
	})
}

// A backup has the rows of leases and ledgers as they were, each time that it is
// restored.
func TestBackup(t *testing.T) {
	t.Parallel()
	s, ctx := memdb.New(), t.Context()
	take := func() store.Holder {
		t.Helper()
		readings, err := s.Read(ctx, "g")
		if err != nil {
			t.Fatal(err)
		}
		h := store.Holder{Group: "g", Owner: "o"}
		h.Token, err = s.Acquire(ctx, store.Acquire{Read: readings[0], Owner: "o", Heartbeat: 1, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if err := s.Prepare(ctx, "g", time.Minute); err != nil {
		t.Fatal(err)
	}
	first := take()
	key := jobs.Key{Job: "job", Tick: time.Unix(1, 0).UTC()}
	claims := []store.Claim{{Key: key, State: jobs.Running}}
	if _, err := s.Claim(ctx, first, store.ClaimID{1}, claims); err != nil {
		t.Fatal(err)
	}
	restore := s.Backup()
	for id := range byte(2) {
		if done, err := s.Move(ctx, first, []store.Move{{Key: key, From: jobs.Running, Attempt: 1, Owner: "o", Token: first.Token, To: jobs.Failed}}); err != nil || !done[0] {
			t.Errorf("moved %v, %v", done, err)
		}
		claims[0].Tick = key.Tick.Add(time.Second)
		if result, err := s.Claim(ctx, first, store.ClaimID{2 + id}, claims); err != nil || !result[0].Mine {
			t.Errorf("claimed %+v, %v", result, err)
		}
		take()
		restore()
		readings, err := s.Read(ctx, "g")
		if err != nil || readings[0].Lease.Token != first.Token || readings[0].Fence.Token != first.Token {
			t.Errorf("%+v, %v, want token %d", readings, err, first.Token)
		}
	}
}
