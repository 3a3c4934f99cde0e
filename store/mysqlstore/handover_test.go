package mysqlstore_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
)

// direct is a hand-over signal of the store.
func direct(t testing.TB, s store.HandoverSignals, group string) store.DirectHandover {
	t.Helper()
	d, ok := s.HandoverSignal(group).(store.DirectHandover)
	if !ok {
		t.Fatal("no direct hand-over")
	}
	return d
}

type taken struct {
	token uint64
	err   error
}

func takeReleased(t testing.TB, d store.DirectHandover, a store.Acquire) <-chan taken {
	answer := make(chan taken, 1)
	ctx := soon(t)
	go func() {
		token, err := d.Take(ctx, a)
		answer <- taken{token, err}
	}()
	return answer
}

// The waiter is woken before the release is committed, and waits for that. A release
// that is rolled back was none.
func TestTakeWaitsForTheRelease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, next := migrated(t, db.DSN), open(t, db.DSN)
		token := take(t, s, "billing", "me")
		a, d := request(t, next, "billing", "you"), direct(t, next, "billing")
		isWaiting := waits(t, db, "UPDATE (SELECT name AS free")

		admin := db.Open(t)
		during := func(a store.Acquire, end func(*sql.Tx) error) taken {
			tx, err := admin.BeginTx(soon(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "UPDATE cronlease_lease SET released = 1 WHERE name = 'billing'")
			answer := takeReleased(t, d, a)
			eventually(t, "it waits for the release", isWaiting)
			if err := end(tx); err != nil {
				t.Fatal(err)
			}
			return <-answer
		}
		if got := during(a, (*sql.Tx).Rollback); !errors.Is(got.err, store.ErrChanged) {
			t.Errorf("after a release that was rolled back: %v", got)
		}
		// Also where the term is newer than what was read: so that the reading which
		// follows shows the release.
		lease, fence := *a.Read.Lease, *a.Read.Fence
		lease.Token, fence.Token = token-1, token-1
		old := a
		old.Read.Lease, old.Read.Fence = &lease, &fence
		if got := during(old, (*sql.Tx).Rollback); !errors.Is(got.err, store.ErrChanged) {
			t.Errorf("of another term: %v", got)
		}
		if got := during(a, (*sql.Tx).Commit); got.err != nil || got.token <= token {
			t.Errorf("after the release: %v", got)
		}
	})
}

// A signal that comes for nothing holds up nothing of the leader: a Take neither
// waits for its fenced transactions nor keeps claims waiting behind itself.
func TestTakeWaitsForNoFencedWork(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, next := migrated(t, db.DSN), open(t, db.DSN)
		take(t, s, "billing", "me")
		a, d := request(t, next, "billing", "you"), direct(t, next, "billing")
		for _, mode := range []string{"LOCK IN SHARE MODE", "FOR UPDATE"} {
			free := lockRow(t, db, "SELECT name FROM cronlease_fence WHERE name = 'billing' "+mode)
			var quickest time.Duration
			for range 3 { // one may be late for another reason
				began := time.Now()
				if _, err := d.Take(soon(t), a); !errors.Is(err, store.ErrChanged) {
					t.Errorf("%s: %v", mode, err)
				}
				if took := time.Since(began); quickest == 0 || took < quickest {
					quickest = took
				}
			}
			if quickest > time.Second {
				t.Errorf("%s: waited for %v", mode, quickest)
			}
			free()
		}
	})
}

// A release with the signal wakes the next, also when the lease was released before.
func TestReleaseWithTheSignal(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, next := migrated(t, db.DSN), open(t, db.DSN)
		token := take(t, s, "billing", "me")
		holder, waiter := direct(t, s, "billing"), direct(t, next, "billing")
		if err := holder.Release(soon(t), "me", token); err == nil || errors.Is(err, store.ErrChanged) {
			t.Errorf("without the signal: %v", err)
		}
		for round := range 3 {
			obtain(t, holder)
			if err := holder.Release(soon(t), "you", token); !errors.Is(err, store.ErrChanged) {
				t.Errorf("another's lease: %v", err)
			}
			if isFree(t, db, "billing")() {
				t.Error("another's lease: the signal was passed")
			}
			a := request(t, next, "billing", "you")
			if round == 1 {
				if err := s.Release(soon(t), "billing", "me", token); err != nil {
					t.Fatal(err)
				}
			}
			woken, listening := make(chan error, 1), listeners(t, db)
			go func() { woken <- waiter.Wait(soon(t)) }()
			eventually(t, "it waits", func() bool { return listening() == 1 })
			if err := holder.Release(soon(t), "me", token); err != nil {
				t.Fatal(err)
			}
			if err := <-woken; err != nil {
				t.Fatal(err)
			}
			got := <-takeReleased(t, waiter, a)
			if got.err != nil || got.token <= token {
				t.Fatalf("round %d: taken: %v", round, got)
			}
			if err := errors.Join(waiter.Pass(soon(t)), holder.Pass(soon(t)), s.Release(soon(t), "billing", "you", got.token)); err != nil {
				t.Fatal(err)
			}
			token = take(t, s, "billing", "me")
		}
	})
}
