package mysqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/store"
)

// A server that takes the words for a shared lock and locks nothing is refused,
// by its name and with the reason: claims would not be safe there.
func TestCheckRefusesServersWithoutSharedLocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		behind := with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() })
		if err := open(t, behind).Check(soon(t)); err != nil {
			t.Errorf("with shared locks: %v", err)
		}
		proxy.Replace("LOCK IN SHARE MODE", "                  ")
		var version string
		if err := db.Open(t).QueryRowContext(soon(t), "SELECT VERSION()").Scan(&version); err != nil {
			t.Fatal(err)
		}
		err := open(t, behind).Check(soon(t))
		if !keeper.Ends(err) || !strings.Contains(err.Error(), version) || !strings.Contains(err.Error(), "LOCK IN SHARE MODE") {
			t.Errorf("without shared locks: %v", err)
		}
	})
}

// The row that the proof locks is made again by Migrate.
func TestMigrateMakesTheRowOfLocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		exec(t, db.Open(t), "TRUNCATE cronlease_lock")
		if err := s.Check(soon(t)); err == nil || !strings.Contains(err.Error(), "run Migrate") {
			t.Errorf("Check: %v", err)
		}
		if err := s.Migrate(soon(t)); err != nil {
			t.Error(err)
		}
		if err := s.Check(soon(t)); err != nil {
			t.Error(err)
		}
	})
}

// A proxy that shares sessions among connections is refused: settings of one
// connection reach another one's statements.
func TestCheckRefusesSharedSessions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		addr := dbtest.NewSharingProxy(t, db.Config(t).Addr)
		s := open(t, with(t, db, func(c *mysql.Config) { c.Addr = addr }))
		_, err := s.Read(soon(t), "billing")
		for _, err := range []error{err, s.Check(soon(t)), s.Prepare(soon(t), "billing", 1e9), s.Migrate(soon(t))} {
			if !keeper.Ends(err) || !strings.Contains(err.Error(), "different sessions") {
				t.Errorf("%v", err)
			}
		}
		if _, err := s.Notifier().Address(soon(t)); !keeper.Ends(err) {
			t.Errorf("notifier: %v", err)
		}
	})
}

// Behind a proxy with connection ids of its own, a notification reaches no other connection.
func TestNotifyHitsNoStranger(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "mark"))
		stranger := conn(t, db.Open(t))
		var id uint64
		if err := stranger.QueryRowContext(soon(t), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		proxy.Replace("SELECT CONNECTION_ID()", fmt.Sprintf("SELECT %-15d", id))
		behind := open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		d := openNotifier(t, behind)
		at := address(t, d)

		slept := make(chan error, 1)
		go func() {
			var interrupted int
			err := stranger.QueryRowContext(soon(t), "SELECT SLEEP(0.5)").Scan(&interrupted)
			if err == nil && interrupted != 0 {
				err = errors.New("interrupted")
			}
			slept <- err
		}()
		woken, asleep := waitFor(t, d, "a", "mark"), sleeps(t, db, at)
		eventually(t, "the notifier sleeps", asleep)
		notify(t, behind.Notifier(), at)
		isWoken(t, woken, "a notification through a proxy with other numbers")
		if err := <-slept; err != nil {
			t.Errorf("the stranger: %v", err)
		}
	})
}

// A notifier whose session is not its own has no address, and only looks.
func TestDeafNotifier(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "mark"))
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		proxy.Replace("CONNECTION_ID()", "(1 - 2)        ")
		d := openNotifier(t, open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() })))
		at, err := d.Address(soon(t))
		if at != "" || err != nil {
			t.Errorf("address %q, %v", at, err)
		}
		if err := d.Wait(soon(t), []store.LockWatch{{Name: "a", Mark: []byte("mark")}}, time.Millisecond); err != nil {
			t.Error(err)
		}
	})
}
