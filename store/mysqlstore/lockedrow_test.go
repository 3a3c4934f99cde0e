package mysqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
)

// A lease whose row another transaction locks for longer than a TTL is lost, but
// no other lease of its owner.
func TestOneLockedLeaseRow(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		k, err := keeper.New(s, keeper.Config{Timing: lease.Timing{TTL: 5 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		defer func() {
			cancel()
			<-ended
		}()
		held := map[string]*keeper.Held{}
		for _, group := range []string{"a", "b", "c"} {
			c, err := k.Candidate(group)
			if err != nil {
				t.Fatal(err)
			}
			if held[group], _, err = c.Look(soon(t)); held[group] == nil {
				t.Fatalf("%s is not held: %v", group, err)
			}
		}
		free := lockRow(t, db, "SELECT name FROM cronlease_lease WHERE name = 'b' FOR UPDATE")
		<-held["b"].Context().Done()
		for _, group := range []string{"a", "c"} {
			if !held[group].Trusted() {
				t.Errorf("%s, whose row was not locked, was lost: %v", group, context.Cause(held[group].Context()))
			}
		}
		free()
	})
}

// A release, or a request to resign, that waits for a row holds up no heartbeat.
func TestLockedRowHoldsUpNoHeartbeat(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		locked, other := take(t, s, "locked", "me"), take(t, s, "other", "me")
		beat := uint64(1)
		for what, run := range map[string]struct {
			statement string
			do        func() error
		}{
			"release":       {"UPDATE `cronlease_lease` SET released", func() error { return s.Release(soon(t), "locked", "me", locked) }},
			"ask to resign": {"UPDATE `cronlease_lease` SET resign_asked", func() error { return s.AskResign(soon(t), "locked", locked) }},
		} {
			free, isWaiting := lockRow(t, db, "SELECT name FROM cronlease_lease WHERE name = 'locked' FOR UPDATE"), waits(t, db, run.statement)
			done := make(chan error)
			go func() { done <- run.do() }()
			eventually(t, what+" waits for the row", isWaiting)
			if n := renew(t, s, "other", "me", other, beat, beat+1); n != 1 {
				t.Errorf("%d renewed", n)
			}
			beat++
			if !isWaiting() {
				t.Errorf("the heartbeat came after the %s", what)
			}
			free()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", what, err)
			}
			exec(t, db.Open(t), "UPDATE cronlease_lease SET released = 0 WHERE name = 'locked'")
		}
	})
}
