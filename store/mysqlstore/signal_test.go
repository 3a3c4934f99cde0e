package mysqlstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func obtain(t testing.TB, b store.HandoverSignal) {
	t.Helper()
	if err := b.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
}

func closeSignal(t testing.TB, b store.HandoverSignal) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("close signal: %v", err)
	}
}

// listeners tells how many connections wait for the lock of a signal of this database. The state tells that they are in its queue.
func listeners(t testing.TB, db dbtest.Database) func() int {
	admin := db.Open(t)
	return func() int {
		return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'SELECT GET_LOCK%' AND state = 'User lock'")
	}
}

// boardLooks tells whether a connection waits for the locks of several signals.
func boardLooks(t testing.TB, db dbtest.Database) func() bool {
	admin := db.Open(t)
	return func() bool {
		return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'SELECT CONCAT_WS%STRAIGHT_JOIN%' AND command = 'Query' AND id <> CONNECTION_ID()") > 0
	}
}

func isFree(t testing.TB, db dbtest.Database, group string) func() bool {
	t.Helper()
	admin, name := db.Open(t), mysqlstore.LockName("cronlease:", db.Config(t).DBName, "cronlease_", group)
	return func() bool { return count(t, admin, "SELECT IS_FREE_LOCK(?)", name) == 1 }
}

func TestSignalGoesRoundInOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		server := read(t, s, "billing").Server
		holder := s.HandoverSignal("billing")
		obtain(t, holder)
		listening := listeners(t, db)
		const waiters = 8
		order := make(chan int, waiters)
		errs := make(chan error, waiters)
		for i := range waiters {
			b := open(t, db.DSN).HandoverSignal("billing")
			// Without a term to show, its wait is repeated each second, at the end of the queue.
			if err := b.(store.PresenceSignal).Announce(soon(t), uint64(i)+1, server); err != nil {
				t.Fatal(err)
			}
			go func() {
				err := b.Wait(soon(t))
				order <- i
				errs <- errors.Join(err, b.Pass(soon(t)))
			}()
			eventually(t, "the next one waits", func() bool { return listening() == i+1 })
		}
		if err := holder.Pass(soon(t)); err != nil {
			t.Fatal(err)
		}
		var got []int
		for range waiters {
			got = append(got, <-order)
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if !slices.IsSorted(got) {
			t.Errorf("woken in the order %v", got)
		}
		if err := holder.Pass(soon(t)); err != nil {
			t.Errorf("pass without the signal: %v", err)
		}
	})
}

func TestSignalWakesWhenTheHoldersConnectionDies(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		listening := listeners(t, db)
		holder, waiter := open(t, db.DSN).HandoverSignal("billing"), open(t, db.DSN).HandoverSignal("billing")
		obtain(t, holder)
		obtain(t, holder) // has it still
		woken := make(chan error)
		go func() { woken <- waiter.Wait(soon(t)) }()
		eventually(t, "the other one waits", func() bool { return listening() == 1 })
		killSignal(t, db, "billing")
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		// The former holder finds out when it asks.
		ctx, cancel := context.WithTimeout(soon(t), 300*time.Millisecond)
		defer cancel()
		if err := holder.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the former holder: %v, although another connection has the signal", err)
		}
		if err := waiter.Pass(soon(t)); err != nil {
			t.Fatal(err)
		}
		obtain(t, holder)
	})
}

// killSignal ends the connection that has the signal of a group.
func killSignal(t testing.TB, db dbtest.Database, group string) {
	t.Helper()
	admin := db.Open(t)
	id := count(t, admin, "SELECT IS_USED_LOCK(?)", mysqlstore.LockName("cronlease:", db.Config(t).DBName, "cronlease_", group))
	exec(t, admin, fmt.Sprint("KILL ", id))
}

// The holder's process is killed, so that it does not close its connection.
func TestSignalWakesWhenTheHoldersProcessDies(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		process := osexec.Command(os.Args[0])
		process.Env = append(os.Environ(), signalHolder+"="+db.DSN)
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = process.Process.Kill()
			_ = process.Wait()
		}()
		for lines := bufio.NewScanner(out); ; {
			if !lines.Scan() {
				t.Fatal("the holder ended")
			}
			if strings.Contains(lines.Text(), "has the signal") {
				break
			}
		}
		waiter := open(t, db.DSN).HandoverSignal("billing")
		woken := make(chan error)
		go func() { woken <- waiter.Wait(soon(t)) }()
		listening := listeners(t, db)
		eventually(t, "the other one waits", func() bool { return listening() == 1 })
		begin := time.Now()
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		t.Logf("woken %v after the kill", time.Since(begin))
	})
}

// holdSignal is what TestMain does in the process that the test before kills.
func holdSignal(dsn string) error {
	s, err := mysqlstore.Open(dsn)
	if err != nil {
		return err
	}
	if err := s.HandoverSignal("billing").Wait(context.Background()); err != nil {
		return err
	}
	fmt.Println("has the signal")
	<-time.After(patience)
	return errors.New("was not killed")
}

func TestSignalOfACancelledWaiterIsFree(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		listening := listeners(t, db)
		holder, waiter, next := open(t, db.DSN).HandoverSignal("billing"), open(t, db.DSN).HandoverSignal("billing"), open(t, db.DSN).HandoverSignal("billing")
		obtain(t, holder)
		for range 5 {
			ctx, cancel := context.WithCancel(soon(t))
			gone := make(chan error)
			go func() { gone <- waiter.Wait(ctx) }()
			eventually(t, "the waiter waits", func() bool { return listening() >= 1 })
			cancel()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		}
		if err := holder.Pass(soon(t)); err != nil {
			t.Fatal(err)
		}
		obtain(t, next)
		closeSignal(t, next)
		eventually(t, "the lock is free", isFree(t, db, "billing"))
		obtain(t, waiter) // works on
	})
}

func TestSignalClose(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := open(t, db.DSN)
		holder, waiter, next := s.HandoverSignal("billing"), s.HandoverSignal("billing"), s.HandoverSignal("billing")
		obtain(t, holder)
		closed := make(chan error)
		go func() { closed <- waiter.Wait(soon(t)) }()
		eventually(t, "the waiter waits", boardLooks(t, db))
		closeSignal(t, waiter)
		if err := <-closed; err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("Wait of a closed signal: %v", err)
		}
		closeSignal(t, waiter)
		if err := waiter.Wait(soon(t)); err == nil {
			t.Error("Wait after Close succeeded")
		}
		if err := waiter.Pass(soon(t)); err != nil {
			t.Errorf("Pass after Close: %v", err)
		}
		closeSignal(t, holder) // passes it
		obtain(t, next)
		other := s.HandoverSignal("indexing")
		obtain(t, other) // of another group
	})
}

// The pool of a service may cut off every read that takes longer than a second.
func TestSignalWithAReadTimeout(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		pool := openSQL(t, with(t, db, func(c *mysql.Config) { c.ReadTimeout = 2 * time.Second; c.Logger = &mysql.NopLogger{} }))
		short := openOn(t, pool)
		own := open(t, with(t, db, func(c *mysql.Config) { c.ReadTimeout = time.Second }))
		holder := open(t, db.DSN).HandoverSignal("billing")
		obtain(t, holder)
		woken := make(chan error)
		waiters := []store.HandoverSignal{short.HandoverSignal("billing"), own.HandoverSignal("billing")}
		for _, b := range waiters {
			go func() { woken <- errors.Join(b.Wait(soon(t)), b.Pass(soon(t))) }()
		}
		select {
		case err := <-woken:
			t.Fatalf("woken while the holder has the signal: %v", err)
		case <-time.After(5 * time.Second):
		}
		if err := holder.Pass(soon(t)); err != nil {
			t.Fatal(err)
		}
		for range waiters {
			if err := <-woken; err != nil {
				t.Error(err)
			}
		}
	})
}

// Signals never take the connections that heartbeats need.
func TestSignalsLeaveConnectionsOfAPool(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		pool.SetMaxOpenConns(6)
		s := openOn(t, pool)
		if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t))); err != nil {
			t.Fatal(err)
		}
		first := s.HandoverSignal("a")
		obtain(t, first)
		second := s.HandoverSignal("a")
		if err := second.Wait(soon(t)); err == nil || !strings.Contains(err.Error(), "at least 7") {
			t.Errorf("a second signal in a pool of 6: %v", err)
		}
		closeSignal(t, first)
		obtain(t, second)
		take(t, s, "billing", "me")
		if err := pool.PingContext(soon(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestLockName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, of := range [][3]string{{"d", "p", "g"}, {"d", "p", "G"}, {"dp", "", "g"}, {"d", "pg", ""}, {strings.Repeat("d", 64), strings.Repeat("p", 48), strings.Repeat("g", 128)}} {
		name := mysqlstore.LockName("cronlease:", of[0], of[1], of[2])
		if len(name) > 64 || name != strings.ToLower(name) {
			t.Errorf("%v: %q", of, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %s have one lock", of, other)
		}
		seen[name] = fmt.Sprint(of)
	}
}
