package mysqlstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// shown tells which of the terms 1 to 4 of a group some connection has the lock of.
func shown(t testing.TB, db dbtest.Database) func() string {
	admin := db.Open(t)
	return func() string {
		terms := ""
		for token := 1; token <= 4; token++ {
			name := mysqlstore.LockName("cronlease:term:", db.Config(t).DBName, "cronlease_", fmt.Sprint("billing\x00", token))
			if count(t, admin, "SELECT IS_FREE_LOCK(?)", name) == 0 {
				terms += fmt.Sprint(token)
			}
		}
		return terms
	}
}

// A connection that lives on keeps no lock of a term that is over, however often the
// term was announced and the connection lost.
func TestPresenceKeepsNoLocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		s := open(t, db.DSN)
		server := read(t, s, "billing").Server
		shown, isFree, listening := shown(t, db), isFree(t, db, "billing"), listeners(t, db)
		holder, other := s.HandoverSignal("billing").(store.PresenceSignal), open(t, db.DSN).HandoverSignal("billing")
		announce := func(token uint64) {
			t.Helper()
			if err := holder.Announce(soon(t), token, server); err != nil {
				t.Fatal(err)
			}
		}
		want := func(terms, when string) {
			t.Helper()
			if got := shown(); got != terms {
				t.Errorf("%s: locks of the terms %q, want %q", when, got, terms)
			}
		}
		pass := func(b store.HandoverSignal) {
			t.Helper()
			if err := b.Pass(soon(t)); err != nil {
				t.Fatal(err)
			}
		}

		obtain(t, holder)
		announce(1)
		announce(1)
		want("1", "announced twice")
		announce(2)
		want("2", "a second term")
		killSignal(t, db, "billing")
		eventually(t, "the term is absent", func() bool { return shown() == "" })
		obtain(t, holder)
		want("2", "regained after a lost connection")
		announce(2)
		pass(holder)
		want("", "passed")
		eventually(t, "the signal is free", isFree)

		obtain(t, other)
		announce(3) // by a leader that does not have the signal
		woken := make(chan error)
		go func() { woken <- holder.Wait(soon(t)) }()
		eventually(t, "the leader waits", func() bool { return listening() == 1 && shown() == "3" })
		pass(holder) // the term is over
		pass(other)
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		want("", "passed without the signal, which came then")
		announce(4)
		want("4", "the next term")
		pass(holder)
		want("", "passed again")

		announce(4)
		ctx, cancel := context.WithCancel(soon(t))
		obtain(t, other)
		go func() { woken <- holder.Wait(ctx) }()
		eventually(t, "the leader waits again", func() bool { return listening() == 1 && shown() == "4" })
		cancel()
		<-woken
		eventually(t, "a Wait that has ended shows no term", func() bool { return shown() == "" })
	})
}

// One that never waits for the signal can be seen as well, alone or beside other groups of its process.
func TestPresenceWithoutAWait(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		s := open(t, db.DSN)
		server, shown := read(t, s, "billing").Server, shown(t, db)
		signal := s.HandoverSignal("billing").(store.PresenceSignal)
		announce := func(when string) {
			t.Helper()
			if err := signal.Announce(soon(t), 2, server); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if got := shown(); got != "2" {
				t.Errorf("%s: locks of the terms %q, want 2", when, got)
			}
		}
		announce("alone")
		if err := signal.Pass(soon(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it hides", func() bool { return shown() == "" })
		announce("again")
		other := s.HandoverSignal("mail")
		eventually(t, "it is seen beside another group", func() bool {
			err := signal.Announce(soon(t), 2, server)
			return err == nil && shown() == "2"
		})
		closeSignal(t, other)
		closeSignal(t, signal)
		eventually(t, "it is closed", func() bool { return shown() == "" })
		if err := signal.Announce(soon(t), 2, server); err != nil || shown() != "" {
			t.Errorf("after that: %v, %q", err, shown())
		}
	})
}
