package mysqlstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
)

const manyGroups = 20

func groups() (all []string) {
	for i := range manyGroups {
		all = append(all, fmt.Sprintf("group%02d", i))
	}
	return all
}

// However many signals a store has, they have two connections. Another store gets each signal
// soon after it was passed, and all of them when the connection is lost that had them.
func TestManySignalsShareConnections(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		admin := db.Open(t)
		user, next := uniqueName("app"), uniqueName("next")
		leader, follower := open(t, userDSN(t, db, user, "ALL ON @.*")), open(t, userDSN(t, db, next, "ALL ON @.*"))
		held, waiting := map[string]store.HandoverSignal{}, map[string]store.HandoverSignal{}
		type woken struct {
			group string
			err   error
		}
		came := make(chan woken, manyGroups)
		wait := func(group string) {
			go func() { came <- woken{group, waiting[group].Wait(soon(t))} }()
		}
		for i, group := range groups() {
			held[group] = leader.HandoverSignal(group)
			obtain(t, held[group])
			if err := held[group].(store.PresenceSignal).Announce(soon(t), 7, read(t, leader, group).Server); err != nil {
				t.Fatal(err)
			}
			waiting[group] = follower.HandoverSignal(group)
			if i == 0 {
				wait(group) // alone
				eventually(t, "it waits alone", func() bool { return listeners(t, db)() == 1 })
			}
		}
		for _, group := range groups()[1:] {
			wait(group)
		}
		eventually(t, "all wait", boardLooks(t, db))
		eventually(t, "two connections each, and that for readings", func() bool { return sessions(t, admin, user) <= 3 && sessions(t, admin, next) <= 5 })

		var took []time.Duration
		for _, group := range groups() {
			began := time.Now()
			if err := held[group].Pass(soon(t)); err != nil {
				t.Fatal(err)
			}
			if got := <-came; got.group != group || got.err != nil {
				t.Fatalf("%s was passed: %s was woken: %v", group, got.group, got.err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("a signal of %d took %v, at most %v", manyGroups, took[manyGroups/2], took[manyGroups-1])

		// And back.
		for _, group := range groups() {
			if err := waiting[group].(store.PresenceSignal).Announce(soon(t), 8, read(t, leader, group).Server); err != nil {
				t.Fatal(err)
			}
		}
		back := make(chan error, manyGroups)
		for _, group := range groups() {
			go func() { back <- held[group].Wait(soon(t)) }()
		}
		eventually(t, "all wait", boardLooks(t, db))
		if there, _, err := held["group07"].(store.PresenceSignal).Present(soon(t), 8); err != nil || !there {
			t.Errorf("a term is present: %v, %v", there, err)
		}
		began := time.Now()
		killSignal(t, db, "group07")
		for range groups() {
			if err := <-back; err != nil {
				t.Error(err)
			}
		}
		t.Logf("all signals of a lost connection after %v", time.Since(began))
		if there, _, err := held["group07"].(store.PresenceSignal).Present(soon(t), 8); err != nil || there {
			t.Errorf("a term is present: %v, %v", there, err)
		}
		ctx, cancel := context.WithTimeout(soon(t), 300*time.Millisecond)
		defer cancel()
		if err := waiting["group07"].Wait(ctx); err == nil {
			t.Error("the former holder still has its signal")
		}
		for group := range held {
			closeSignal(t, held[group])
			closeSignal(t, waiting[group])
		}
		eventually(t, "the locks are free", isFree(t, db, "group07"))
		eventually(t, "no connection is left but those for readings", func() bool { return sessions(t, admin, user) <= 2 && sessions(t, admin, next) <= 2 })
		obtain(t, open(t, db.DSN).HandoverSignal("group07"))
	})
}

// A process that follows several groups shows itself again when its connection was lost.
func TestFollowersOfManyGroupsStayPresent(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		holder, watch := open(t, db.DSN).HandoverSignal("billing"), open(t, db.DSN).HandoverSignal("billing").(store.PresenceSignal)
		obtain(t, holder)
		obtain(t, s.HandoverSignal("other"))
		waiter := s.HandoverSignal("billing")
		ctx, cancel := context.WithCancel(soon(t))
		done := make(chan error)
		go func() { done <- waiter.Wait(ctx) }()
		eventually(t, "it waits", boardLooks(t, db))
		if err := waiter.(store.PresenceSignal).Announce(soon(t), 7, read(t, s, "billing").Server); err != nil {
			t.Fatal(err)
		}
		present := func() bool {
			there, _, err := watch.Present(soon(t), 7)
			return err == nil && there
		}
		eventually(t, "it is present", present)
		killSignal(t, db, "other")
		eventually(t, "it is not", func() bool { return !present() })
		eventually(t, "it is present again", present)
		cancel()
		if err := <-done; err == nil {
			t.Error("it was woken")
		}
	})
}
