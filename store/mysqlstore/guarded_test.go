package mysqlstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// Where each write is a transaction of several statements, the reply to any of them
// may be lost: the call reports an unknown outcome, and its repetition goes on.
func TestLostRepliesWithinAWrite(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := openManyWriters(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		h, pool := holder(t, s, "billing", "me"), db.Open(t)
		for i, statement := range []string{"START TRANSACTION", "SET checks", "INSERT IGNORE", "COMMIT"} {
			for j, lose := range []func(string) <-chan struct{}{proxy.DropRequest, proxy.DropReply} {
				mine, claims := id(), running("a", 2*i+j)
				lost := lose(statement)
				if _, err := s.Claim(soon(t), h, mine, claims); err == nil || errors.Is(err, store.ErrReplaced) {
					t.Errorf("claim without an answer to %s: %v", statement, err)
				}
				<-lost
				claimed, err := s.Claim(soon(t), h, mine, claims)
				if err != nil || !claimed[0].Mine {
					t.Errorf("claim again, after none to %s: %+v, %v", statement, claimed, err)
				}
				if n := count(t, pool, "SELECT COUNT(*) FROM cronlease_run WHERE tick = ?", claims[0].Tick.UnixMicro()); n != 1 {
					t.Errorf("%d rows for others after none to %s, want 1", n, statement)
				}
			}
		}
	})
}

// On MariaDB a transaction of a process that stands still ends after 2 s, whatever limits the
// server has for such transactions.
func TestIdleLimits(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		if dbserver.Dialect(db.Kind) != dbserver.MariaDB {
			return
		}
		migrated(t, db.DSN)
		s := openOn(t, openSQL(t, with(t, db, func(c *mysql.Config) {
			c.Params = map[string]string{
				"idle_transaction_timeout": "100", "idle_write_transaction_timeout": "100", "idle_readonly_transaction_timeout": "100",
			}
		})))
		for name, want := range map[string]int{
			"idle_transaction_timeout": 2, "idle_write_transaction_timeout": 0, "idle_readonly_transaction_timeout": 0,
		} {
			if got, err := s.LedgerSetting(soon(t), name); got != want || err != nil {
				t.Errorf("%s is %d, want %d: %v", name, got, want, err)
			}
		}
	})
}

// A connection that dies after the answer to a COMMIT makes no error of what was committed.
func TestConnectionLostAfterCommit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		if dbserver.Dialect(db.Kind) == dbserver.MariaDB {
			return // nothing follows the COMMIT there
		}
		migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := openOn(t, openSQL(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() })))
		h := holder(t, s, "billing", "me")
		openJobs(t, s, h, "a")
		for i, lose := range []func(string) <-chan struct{}{proxy.DropRequest, proxy.DropReply} {
			m := to(claim(t, s, h, running("a", i)...)[0], jobs.Succeeded)
			m.Output = []byte("output")
			for _, test := range []struct {
				name string
				do   func() error
			}{
				{"pause", func() error { return s.Pause(soon(t), "billing", "a") }},
				{"resume", func() error { return s.Resume(soon(t), "billing", "a") }},
				{"move", func() error {
					done, err := s.Move(soon(t), h, []store.Move{m})
					if err == nil && !done[0] {
						err = errors.New("not moved")
					}
					return err
				}},
			} {
				lost := lose("wait_timeout = 2147483")
				if err := test.do(); err != nil {
					t.Errorf("%s, with the connection lost after its COMMIT: %v", test.name, err)
				}
				<-lost
			}
		}
		if n := count(t, db.Open(t), "SELECT COUNT(*) FROM cronlease_audit"); n != 4 {
			t.Errorf("%d entries of the audit, want 4", n)
		}
	})
}

// A write that waits too long for a row is undone at once, with its change of the
// fence row, and its connection serves the next.
func TestWriteThatWaitsTooLong(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		s := openManyWriters(t, db.DSN)
		h := holder(t, s, "billing", "me")
		claim(t, s, h, running("a", 1)...)
		pool := db.Open(t)
		sessions := func() int {
			return count(t, pool, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()")
		}
		open := run(t, s, "billing", key("a", 1))
		before := sessions()
		tx, err := pool.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "UPDATE cronlease_run SET missed = missed + 1")
		if _, err := s.Move(soon(t), h, []store.Move{to(open, jobs.Succeeded)}); err == nil || errors.Is(err, store.ErrReplaced) {
			t.Errorf("move of a row that another has: %v", err)
		}
		exec(t, pool, "SELECT * FROM cronlease_fence FOR UPDATE NOWAIT")
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if seconds, err := s.LedgerSetting(soon(t), "wait_timeout"); err != nil || seconds < 1000 {
			t.Errorf("the connection ends after %d s of doing nothing, %v", seconds, err)
		}
		move(t, s, h, to(open, jobs.Succeeded))
		if after := sessions(); after != before+1 { // that of tx
			t.Errorf("%d sessions, %d before", after, before)
		}
	})
}

// A process that stands still in the middle of a write holds up takeovers no
// longer than they wait.
func TestTakeoverFromOneWhoStandsStill(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		direct := migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := openManyWriters(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		standStill(t, db, direct, s, proxy)
	})
}

// standStill has a store, behind a proxy, stand still after a statement of a claim,
// and another one take over.
func standStill(t *testing.T, db dbtest.Database, direct, s *mysqlstore.Store, proxy *dbtest.Proxy) {
	t.Helper()
	h := holder(t, s, "billing", "me")
	claim(t, s, h, running("a", 1)...)
	tx, err := db.Open(t).BeginTx(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "UPDATE cronlease_run SET tick = tick + 60000000")
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	go func() {
		_, err := s.Claim(ctx, h, id(), running("a", 2))
		result <- err
	}()
	eventually(t, "the claim waits", waits(t, db, "INSERT IGNORE"))
	proxy.BlackHole()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	// A busy server may take longer for the claim than a takeover waits for its row.
	eventually(t, "takeover", func() bool {
		_, err := direct.Acquire(soon(t), request(t, direct, "billing", "next"))
		if err != nil {
			t.Logf("takeover: %v", err)
		}
		return err == nil
	})
	cancel()
	proxy.Pass()
	if err := <-result; err == nil {
		t.Error("the claim says that it took effect")
	}
	if n := count(t, db.Open(t), "SELECT COUNT(*) FROM cronlease_run WHERE tick = ?", tick(2).UnixMicro()); n != 0 {
		t.Error("the claim of the holder that stood still is in the ledger")
	}
}
