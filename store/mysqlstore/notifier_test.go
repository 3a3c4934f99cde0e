package mysqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// openNotifier opens one that is closed when the test ends.
func openNotifier(t testing.TB, s *mysqlstore.Store) store.Notifier {
	t.Helper()
	d := s.Notifier()
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close notifier: %v", err)
		}
	})
	return d
}

func address(t testing.TB, d store.Notifier) string {
	t.Helper()
	a, err := d.Address(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if a == "" {
		t.Fatal("the notifier has no address")
	}
	return a
}

// nameOf is the name in an address, of the lock that the notifier's session has.
func nameOf(address string) string {
	_, name, _ := strings.Cut(address, "#")
	return name
}

// connectionOf is the id of the notifier's session.
func connectionOf(t testing.TB, db dbtest.Database, address string) int {
	t.Helper()
	return count(t, db.Open(t), "SELECT COALESCE(IS_USED_LOCK(?), 0)", nameOf(address))
}

// waitFor begins a Wait for a row to change, which lasts longer than the test.
func waitFor(t testing.TB, d store.Notifier, name, mark string) <-chan error {
	t.Helper()
	ctx, woken := soon(t), make(chan error, 1)
	go func() { woken <- d.Wait(ctx, []store.LockWatch{{Name: name, Mark: []byte(mark)}}, 25*time.Second) }()
	return woken
}

// sleeps tells whether the connection waits to be woken.
func sleeps(t testing.TB, db dbtest.Database, address string) func() bool {
	admin := db.Open(t)
	return func() bool {
		return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = IS_USED_LOCK(?) AND info LIKE 'SELECT IF(EXISTS(%' AND state IN ('User sleep', 'User lock')", nameOf(address)) == 1
	}
}

func notify(t testing.TB, d store.Notifier, addresses ...string) {
	t.Helper()
	if err := d.Notify(soon(t), addresses...); err != nil {
		t.Fatalf("notify: %v", err)
	}
}

// quickly is when a Wait that is woken ends; alone, it lasts for 25 s.
const quickly = 10 * time.Second

func isWoken(t testing.TB, woken <-chan error, what string) {
	t.Helper()
	select {
	case err := <-woken:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(quickly):
		t.Fatalf("%s: Wait has not ended within %v", what, quickly)
	}
}

// Each notification of a connection that sleeps ends its sleep.
func TestNotifierIsWokenWhileItSleeps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, other := migrated(t, db.DSN), open(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "mark"))
		d := openNotifier(t, s)
		at := address(t, d)
		asleep := sleeps(t, db, at)
		for range 50 {
			woken := waitFor(t, d, "a", "mark")
			eventually(t, "the notifier sleeps", asleep)
			notify(t, other.Notifier(), at)
			isWoken(t, woken, "a notification")
		}
		isEqual(t, address(t, d), at, "address after all these notifications")
	})
}

// MariaDB blocks two sessions for up to 2 s that kill the same SLEEP at the same
// moment.
func TestTwoNotifyAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "mark"))
		d := openNotifier(t, s)
		at := address(t, d)
		asleep := sleeps(t, db, at)
		notifiers := []store.Notifier{open(t, db.DSN).Notifier(), open(t, db.DSN).Notifier()}
		for _, r := range notifiers {
			notify(t, r, at)
		}
		var late []time.Duration
		for range 100 {
			woken := waitFor(t, d, "a", "mark")
			eventually(t, "the notifier sleeps", asleep)
			var both sync.WaitGroup
			begin := time.Now()
			for _, r := range notifiers {
				both.Go(func() { notify(t, r, at) })
			}
			both.Wait()
			if took := time.Since(begin); took > time.Second {
				late = append(late, took)
			}
			isWoken(t, woken, "two notifications")
		}
		if len(late) > 1 { // one may be of a busy machine
			t.Errorf("of 100 pairs of notifications, these blocked each other: %v", late)
		}
	})
}

// When the connection goes whose lock notifiers wait for, another one takes it.
func TestRestLockIsLost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "mark"))
		admin, d, e := db.Open(t), openNotifier(t, s), openNotifier(t, s)
		owner := func() int { return count(t, admin, "SELECT COALESCE(IS_USED_LOCK(?), 0)", s.RestLock()) }
		at, other := address(t, d), address(t, e)
		if dbserver.Dialect(db.Kind) == dbserver.MySQL {
			isEqual(t, owner(), 0, "connection with the lock")
			return
		}
		for range 5 {
			woken, alsoWoken := waitFor(t, d, "a", "mark"), waitFor(t, e, "a", "mark")
			eventually(t, "the notifier sleeps", sleeps(t, db, at))
			eventually(t, "the other notifier sleeps", sleeps(t, db, other))
			old := owner()
			exec(t, admin, fmt.Sprint("KILL ", old))
			isWoken(t, woken, "the lock is lost")
			isWoken(t, alsoWoken, "the lock is lost")
			eventually(t, "another connection has the lock", func() bool {
				now := owner()
				return now != 0 && now != old && now != connectionOf(t, db, at) && now != connectionOf(t, db, other)
			})
			isEqual(t, address(t, d)+address(t, e), at+other, "addresses after that")
		}
	})
}

func TestNotifierWhoseConnectionIsKilled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, other := migrated(t, db.DSN), open(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "mark"))
		admin, d := db.Open(t), openNotifier(t, s)
		old := address(t, d)
		woken, asleep := waitFor(t, d, "a", "mark"), sleeps(t, db, old)
		eventually(t, "the notifier sleeps", asleep)
		exec(t, admin, fmt.Sprint("KILL ", connectionOf(t, db, old)))
		select {
		case err := <-woken:
			if err == nil {
				t.Error("Wait on a connection that was killed has no error")
			}
		case <-time.After(quickly):
			t.Fatal("Wait on a connection that was killed has not ended")
		}

		// And once more, without a waiter.
		for range 2 {
			now := address(t, d)
			if now == old {
				t.Fatalf("the address of a connection that was killed is still %q", now)
			}
			asleep = sleeps(t, db, now)
			woken = waitFor(t, d, "a", "mark")
			eventually(t, "the notifier sleeps", asleep)
			notify(t, other.Notifier(), old)
			select {
			case err := <-woken:
				t.Errorf("woken at the address of a connection that was killed: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			notify(t, other.Notifier(), old, now)
			isWoken(t, woken, "a notification at the new address")
			old = now
			exec(t, admin, fmt.Sprint("KILL ", connectionOf(t, db, old)))
			eventually(t, "the connection ends", func() bool {
				return count(t, admin, "SELECT IS_USED_LOCK(?) IS NOT NULL", nameOf(old)) == 0
			})
		}
	})
}

// A notification at an address that is not that of a notifier of this start of this
// server ends no statement.
func TestNotifyEndsNoOtherStatement(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, other := migrated(t, db.DSN), open(t, db.DSN)
		admin := db.Open(t)
		var dead []string
		for range 3 {
			d := s.Notifier()
			dead = append(dead, address(t, d))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range dead {
			eventually(t, "the connection ends", func() bool {
				return count(t, admin, "SELECT IS_USED_LOCK(?) IS NOT NULL", nameOf(at)) == 0
			})
		}
		// Connections that are opened after that, and one of the same account that is busy.
		var id string
		victim := conn(t, db.Open(t))
		if err := victim.QueryRowContext(soon(t), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		// An update, which ends only when the row is free: KILL QUERY makes it fail.
		writeLocks(t, s, replace("a", 0, "mark"))
		end := fenced(t, db, "a")
		exec(t, victim, "SET innodb_lock_wait_timeout = 60")
		ended := make(chan error, 1)
		go func() {
			_, err := victim.ExecContext(soon(t), "UPDATE cronlease_lock SET queue = CONCAT(queue, 'x') WHERE name = 'a'")
			ended <- err
		}()
		eventually(t, "the statement waits", waits(t, db, "UPDATE cronlease_lock SET queue"))
		server, _, _ := strings.Cut(dead[0], "#")
		addresses := append(dead, "elsewhere#"+id, "#"+id, id, server, server+"#", server+id, server+"# "+id, server+"#"+id+" ", server+"#"+id+";", server+"#-"+id,
			server+"#+"+id, server+"#0x"+id, strings.ToUpper(server)+"x#"+id, server[:len(server)-1]+"#"+id, server+"0#"+id, server+"##"+id, server+"#"+id+"#")
		for _, at := range addresses {
			notify(t, other.Notifier(), at)
		}
		notify(t, other.Notifier(), addresses...)
		select {
		case err := <-ended:
			t.Fatalf("the statement of another connection ended: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		end()
		if err := <-ended; err != nil {
			t.Errorf("the statement of another connection: %v", err)
		}
		isEqual(t, rows(t, s, "a"), "a 1 markx", "rows")
	})
}

// Notifiers of another account cannot be woken, and that is no error.
func TestNotifyOfAnotherAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "mark"))
		other := open(t, userDSN(t, db, uniqueName("u"), leastGrants...))
		d, mine := openNotifier(t, s), openNotifier(t, other)
		at := address(t, d)
		woken, asleep := waitFor(t, d, "a", "mark"), sleeps(t, db, at)
		eventually(t, "the notifier sleeps", asleep)
		own := address(t, mine)
		notify(t, other.Notifier(), at)
		// Those that come after it are woken.
		heard, hears := waitFor(t, mine, "a", "mark"), sleeps(t, db, own)
		eventually(t, "the other notifier sleeps", hears)
		notify(t, other.Notifier(), at, own)
		isWoken(t, heard, "a notification after that of another account")
		select {
		case err := <-woken:
			t.Errorf("woken by another account: %v", err)
		default:
		}
		notify(t, s.Notifier(), at)
		isWoken(t, woken, "a notification of its own account")
	})
}

func TestLocksAfterARestart(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind)
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			s := migrated(t, db.DSN)
			isEqual(t, writeLocks(t, s, replace("a", 0, "mark"), replace("b", 0, "mark")), "[true true]", "new rows")
			before, d := readLocks(t, s, "a"), openNotifier(t, s)
			old := address(t, d)
			woken := waitFor(t, d, "a", "mark")
			eventually(t, "the notifier sleeps", sleeps(t, db, old))
			// Two starts in one second look like one.
			eventually(t, "more than a second passes", func() bool { return readLocks(t, s, "a").Now.Sub(before.Now) > 1100*time.Millisecond })

			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-woken:
				if err == nil {
					t.Error("Wait has no error when the server dies")
				}
			case <-time.After(quickly):
				t.Fatal("Wait has not ended with the server")
			}
			if _, err := d.Address(soon(t)); err == nil {
				t.Error("Address without a server has no error")
			}
			if err := server.Start(soon(t)); err != nil {
				t.Fatal(err)
			}

			after, now := readLocks(t, s, "a"), address(t, d)
			if after.Server == before.Server {
				t.Errorf("the server is still %q", after.Server)
			}
			if now == old || !strings.HasPrefix(now, after.Server+"#") {
				t.Errorf("the address is %q after %q, on the server %q", now, old, after.Server)
			}
			done, err := s.WriteLocks(soon(t), before.Server, []store.LockWrite{replace("a", 1, "x"), replace("b", 1, "x"), replace("c", 0, "x")})
			if err != nil || fmt.Sprint(done) != "[false false false]" {
				t.Errorf("WriteLocks on the server before: %t, %v", done, err)
			}
			isEqual(t, rows(t, s, "a", "b", "c"), "a 1 mark, b 1 mark, c 0 ", "rows")
			isEqual(t, writeLocks(t, s, replace("a", 1, "mark")), "[true]", "on the server that answers now")

			// The number in the old address may be another connection's now.
			woken = waitFor(t, d, "a", "mark")
			eventually(t, "the notifier sleeps", sleeps(t, db, now))
			prefix, _, _ := strings.Cut(old, "#")
			notify(t, s.Notifier(), old, prefix+"#"+nameOf(now))
			select {
			case err := <-woken:
				t.Errorf("woken at an address of the server before: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			notify(t, s.Notifier(), now)
			isWoken(t, woken, "a notification at the new address")
		})
	}
}

// The pool of a service may cut off reads that take longer than two seconds, and
// with a DSN the store has no such limit.
func TestNotifierWithAReadTimeout(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		pool := openOn(t, openSQL(t, with(t, db, func(c *mysql.Config) { c.ReadTimeout = 2 * time.Second })))
		own := open(t, with(t, db, func(c *mysql.Config) { c.ReadTimeout = 500 * time.Millisecond }))
		writeLocks(t, own, replace("a", 0, "mark"))
		for name, s := range map[string]*mysqlstore.Store{"pool": pool, "DSN": own} {
			d := openNotifier(t, s)
			at := address(t, d)
			for range 2 {
				if err := d.Wait(soon(t), []store.LockWatch{{Name: "a", Mark: []byte("mark")}}, time.Second); err != nil {
					t.Errorf("%s: Wait for a second: %v", name, err)
				}
			}
			isEqual(t, address(t, d), at, name+": address after that")
		}
	})
}

func TestNotifierOfAClosedStore(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		pool := db.Open(t)
		for name, make := range map[string]func() (*mysqlstore.Store, error){
			"DSN":  func() (*mysqlstore.Store, error) { return mysqlstore.Open(db.DSN) },
			"pool": func() (*mysqlstore.Store, error) { return mysqlstore.New(pool) },
		} {
			s, err := make()
			if err != nil {
				t.Fatal(err)
			}
			writeLocks(t, s, replace("of/"+name, 0, "mark"))
			d, idle := s.Notifier(), s.Notifier()
			at, unused := address(t, d), address(t, idle)
			woken := waitFor(t, d, "of/"+name, "mark")
			eventually(t, "the notifier sleeps", sleeps(t, db, at))
			closeStore(t, s)
			select {
			case err := <-woken:
				if err == nil || !strings.Contains(err.Error(), "closed") {
					t.Errorf("%s: Wait of a store that was closed: %v", name, err)
				}
			case <-time.After(quickly):
				t.Fatalf("%s: Wait has not ended with its store", name)
			}
			if _, err := d.Address(soon(t)); err == nil {
				t.Errorf("%s: Address of a store that was closed has no error", name)
			}
			// Close leaves no connection of the store's, used or not.
			admin := db.Open(t)
			left := func(at string) int {
				return count(t, admin, "SELECT IS_USED_LOCK(?) IS NOT NULL", nameOf(at))
			}
			eventually(t, name+": the connection of the notifier that was used ends", func() bool { return left(at) == 0 })
			ctx, cancel := context.WithTimeout(soon(t), 2*time.Second)
			for left(unused) > 0 && ctx.Err() == nil {
				<-time.After(10 * time.Millisecond)
			}
			cancel()
			isEqual(t, left(unused), 0, name+": connections of a notifier without a waiter, after its store was closed")
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if err := idle.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
