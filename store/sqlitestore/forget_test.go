package sqlitestore_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// A job that is declared again while it is forgotten loses no more of its history than
// the batch that is under way.
func TestForgetStopsAtADeclaration(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	declared := []store.Declared{{Name: "a", Schedule: "every 1m0s"}}
	if err := s.Declare(soon(t), h, declared); err != nil {
		t.Fatal(err)
	}
	const n, batch = 20_000, 500
	var all []store.Claim
	for i := range n {
		all = append(all, store.Claim{Key: jobs.Key{Job: "a", Tick: tick(i + 1)}, State: jobs.Skipped})
	}
	claim(t, s, h, 1, all...)
	if err := s.Gone(soon(t), h, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Load(soon(t), h.Group)
	if err != nil {
		t.Fatal(err)
	}
	rows := func() int {
		r, err := s.Runs(soon(t), h.Group, jobs.Filter{Job: "a", Limit: n})
		if err != nil {
			t.Fatal(err)
		}
		return len(r)
	}
	forgotten := make(chan bool)
	go func() {
		done, err := s.Forget(soon(t), h.Group, "a", snapshot.Jobs["a"].Gone)
		if err != nil {
			t.Error(err)
		}
		forgotten <- done
	}()
	for rows() == n {
		<-time.After(time.Millisecond)
	}
	if err := s.Declare(soon(t), h, declared); err != nil {
		t.Fatal(err)
	}
	left := rows()
	if done, after := <-forgotten, rows(); !done && after < left-batch {
		t.Errorf("forgotten %v; %d rows were left when it was declared, and %d are", done, left, after)
	}
}
