package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func TestMigrateByTenAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		var all sync.WaitGroup
		errs := make(chan error, 10)
		for i := range 10 {
			s := open(t, db.DSN)
			if i%2 == 0 {
				s = openOn(t, pool)
			}
			all.Go(func() { errs <- errors.Join(s.Migrate(soon(t)), s.Check(soon(t))) })
		}
		all.Wait()
		for range 10 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		var rows int
		if err := pool.QueryRowContext(soon(t), "SELECT GREATEST(MAX(version), MAX(level)) FROM cronlease_schema").Scan(&rows); err != nil || rows != mysqlstore.Newest {
			t.Errorf("version %d, want %d: %v", rows, mysqlstore.Newest, err)
		}
	})
}

// An error says once which group it is about, what was tried and what is wrong.
func TestErrorRepeatsNothing(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s := open(t, db.DSN)
		_, err := election.Leader(soon(t), s, "billing")
		if want := `group "billing": read lease: unfit database, for now: `; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s...", err, want)
		}
	})
}

func TestMigrateGoesOnWhereAnotherWasCutOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		take(t, s, "billing", "me")
		before := read(t, s, "billing")
		exec(t, db.Open(t), "DELETE FROM cronlease_schema")
		exec(t, db.Open(t), "DROP TABLE cronlease_fence")
		if err := s.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(soon(t)); err != nil {
			t.Error(err)
		}
		if after := read(t, s, "billing"); *after.Lease != *before.Lease {
			t.Errorf("the lease row became %+v", after.Lease)
		}
	})
}

// Locks of version 3 are kept, both held and idle ones.
func TestMigrateKeepsLocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		pool := db.Open(t)
		for _, statement := range []string{
			"ALTER TABLE cronlease_lock DROP KEY by_idle, DROP COLUMN idle_at",
			"DELETE FROM cronlease_lock",
			"UPDATE cronlease_schema SET level = 3",
			"INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('held', 7, 'holder', '2020-01-01'), ('idle', 9, '', '2020-01-01')",
		} {
			exec(t, pool, statement)
		}
		if err := s.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		isEqual(t, rows(t, s, "held", "idle"), "held 7 holder, idle 9 ", "rows")
		if n, err := s.PruneLocks(soon(t), time.Hour, 100); n != 1 || err != nil {
			t.Errorf("%d rows pruned, %v", n, err)
		}
		isEqual(t, rows(t, s, "held", "idle"), "held 7 holder, idle 0 ", "rows")
		isEqual(t, writeLocks(t, s, replace("idle", 0, "")), "[false]", "a row that was pruned, of an old version")
	})
}

func TestMigrateRefusesNewerTables(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		exec(t, db.Open(t), "INSERT INTO cronlease_schema (version, applied_at) VALUES (99, UTC_TIMESTAMP(6))")
		for what, err := range map[string]error{"Migrate": s.Migrate(soon(t)), "Check": s.Check(soon(t))} {
			if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "update the program") {
				t.Errorf("%s of version 99: %v", what, err)
			}
		}
	})
}

func TestMigrateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		config := db.Config(t)
		holder := conn(t, db.Open(t))
		exec(t, holder, "DO GET_LOCK(?, 10)", mysqlstore.LockName("cronlease:", config.DBName, "cronlease_", "migrate\x00"))
		s := open(t, db.DSN)
		ctx, cancel := context.WithCancel(soon(t))
		result := make(chan error)
		go func() { result <- s.Migrate(ctx) }()
		eventually(t, "the migration waits for its lock", waits(t, db, "SELECT GET_LOCK"))
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		again := make(chan error)
		go func() { again <- s.Migrate(soon(t)) }()
		exec(t, holder, "DO RELEASE_LOCK(?)", mysqlstore.LockName("cronlease:", config.DBName, "cronlease_", "migrate\x00"))
		if err := <-again; err != nil {
			t.Errorf("after the lock was free: %v", err)
		}
	})
}

func TestTwoPrefixesHaveNothingInCommon(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		a := migrated(t, db.DSN, mysqlstore.WithTablePrefix("a_"))
		b := migrated(t, db.DSN, mysqlstore.WithTablePrefix(strings.Repeat("B", 48)))
		take(t, a, "billing", "me")
		if r := read(t, b, "billing"); r.Lease != nil || r.Fence != nil {
			t.Errorf("the other store has %+v", r)
		}
		for _, s := range []*mysqlstore.Store{a, b} {
			if err := s.Check(soon(t)); err != nil {
				t.Error(err)
			}
		}
	})
}

// userDSN creates an account with grants on the database.
func userDSN(t *testing.T, db dbtest.Database, user string, grants ...string) string {
	t.Helper()
	admin := db.Open(t)
	t.Cleanup(func() { exec(t, admin, fmt.Sprintf("DROP USER '%s'@'%%'", user)) })
	return privateUserDSN(t, db, user, grants...)
}

// privateUserDSN is userDSN on a server that ends with the test, and may write no more then.
func privateUserDSN(t *testing.T, db dbtest.Database, user string, grants ...string) string {
	t.Helper()
	admin, name := db.Open(t), db.Config(t).DBName
	account := fmt.Sprintf("'%s'@'%%'", user)
	exec(t, admin, "CREATE USER "+account+" IDENTIFIED BY 'secret-4711'")
	for _, grant := range grants {
		exec(t, admin, "GRANT "+strings.ReplaceAll(grant, "@.", "`"+name+"`.")+" TO "+account)
	}
	return with(t, db, func(c *mysql.Config) { c.User, c.Passwd = user, "secret-4711" })
}

// leastGrants and migrateGrants are what docs/database.md says, as it stands there,
// of the user that runs and the one that migrates. @. stands for the database.
var leastGrants, migrateGrants = documentedGrants(0), documentedGrants(1)

func documentedGrants(block int) []string {
	text, err := os.ReadFile("../../docs/database.md")
	if err != nil {
		panic(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Grants\n")
	parts := strings.Split(section, "```sql\n")
	statements, _, _ := strings.Cut(parts[block+1], "```")
	var grants []string
	for line := range strings.Lines(statements) {
		grant := regexp.MustCompile(`^GRANT (.+ ON )app\.(\S+) TO '\w+'@'%';\n$`).FindStringSubmatch(line)
		if grant == nil {
			panic("docs/database.md: no grant on app: " + line)
		}
		grants = append(grants, grant[1]+"@."+grant[2])
	}
	return grants
}

func TestLeastPrivileges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		admin := migrated(t, db.DSN)
		s := open(t, userDSN(t, db, uniqueName("least"), leastGrants...))
		if err := s.Migrate(soon(t)); err != nil {
			t.Errorf("Migrate with nothing to do: %v", err)
		}
		if err := s.Check(soon(t)); err != nil {
			t.Errorf("Check: %v", err)
		}
		token := take(t, s, "billing", "me")
		if n := renew(t, s, "billing", "me", token, 1, 2); n != 1 {
			t.Errorf("%d leases renewed", n)
		}
		if err := s.AskResign(soon(t), "billing", token); err != nil {
			t.Error(err)
		}
		if err := s.Release(soon(t), "billing", "me", token); err != nil {
			t.Error(err)
		}
		exec(t, db.Open(t), "DELETE FROM cronlease_lease")
		if err := s.Prepare(soon(t), "billing", 1e9); err != nil {
			t.Error(err)
		}
		if a, b := read(t, s, "billing").Server, read(t, admin, "billing").Server; a != b {
			t.Errorf("the server is %q to one account and %q to another", a, b)
		}
		signal := s.HandoverSignal("billing")
		if err := errors.Join(signal.Wait(soon(t)), signal.Wait(soon(t)), signal.Pass(soon(t)), signal.Close()); err != nil {
			t.Error(err)
		}
	})
}

// Check asks for each right of each table: without one of them, it fails.
func TestCheckNamesMissingGrants(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		name := uniqueName("few")
		userDSN(t, db, name, leastGrants...)
		pool := db.Open(t)
		for _, grant := range leastGrants {
			rights, table, _ := strings.Cut(grant, " ON @.")
			for right := range strings.SplitSeq(rights, ", ") {
				on := fmt.Sprintf("%s ON `%s`.%s", right, db.Config(t).DBName, table)
				exec(t, pool, fmt.Sprintf("REVOKE %s FROM '%s'@'%%'", on, name))
				s := open(t, with(t, db, func(c *mysql.Config) { c.User, c.Passwd = name, "secret-4711" }))
				err := s.Check(soon(t))
				if !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "grant SELECT, INSERT, UPDATE and DELETE") {
					t.Errorf("without %s: %v", on, err)
				}
				exec(t, pool, fmt.Sprintf("GRANT %s TO '%s'@'%%'", on, name))
			}
		}
	})
}

// The user that migrates needs what is documented, and no more.
func TestMigrateWithItsGrants(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := open(t, userDSN(t, db, uniqueName("m"), migrateGrants...))
		if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t))); err != nil {
			t.Error(err)
		}
		exec(t, db.Open(t), "DROP TABLE cronlease_job")
		exec(t, db.Open(t), "ALTER TABLE cronlease_run DROP KEY by_state")
		if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t))); err != nil {
			t.Error(err)
		}
	})
}

func TestCheckRefusesTables(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, pool := open(t, db.DSN), db.Open(t)
		refused := func(when, says string) {
			t.Helper()
			if err := s.Check(soon(t)); !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want ErrSetup that says %q", when, err, says)
			}
		}
		refused("no tables", "run Migrate")
		if err := s.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(soon(t)); err != nil {
			t.Error(err)
		}
		exec(t, pool, "ALTER TABLE cronlease_fence ENGINE=MyISAM")
		refused("MyISAM", "ENGINE=InnoDB")
		exec(t, pool, "ALTER TABLE cronlease_fence ENGINE=InnoDB")
		exec(t, pool, "ALTER TABLE cronlease_lease RENAME COLUMN ttl_us TO ttl")
		refused("another column", "run Migrate")
		exec(t, pool, "ALTER TABLE cronlease_lease RENAME COLUMN ttl TO ttl_us")
		exec(t, pool, "DELETE FROM cronlease_schema")
		refused("version 0", "run Migrate")
		if err := s.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, "DROP TABLE cronlease_lease")
		refused("a table dropped", "run Migrate")
	})
}

// Each server's setting changes while the store is open, as by a failover.
func TestCheckRefusesServer(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind, "--log-bin")
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			pool := db.Open(t)
			stores := []*mysqlstore.Store{migrated(t, db.DSN), openOn(t, openSQL(t, with(t, db, func(c *mysql.Config) { c.RejectReadOnly = true })))}
			cases := []struct{ set, unset, says string }{
				{"read_only = ON", "read_only = OFF", "read_only"},
				{"binlog_format = 'STATEMENT'", "binlog_format = 'ROW'", "binlog_format"},
			}
			if server.Kind() == dbserver.MySQL {
				cases = append(cases, struct{ set, unset, says string }{"super_read_only = ON", "read_only = OFF", "super_read_only"})
			}
			for _, c := range cases {
				exec(t, pool, "SET GLOBAL "+c.set)
				for i, s := range append(stores, open(t, db.DSN)) {
					if err := s.Check(soon(t)); c.says == "binlog_format" && i < 2 {
						continue // sessions keep theirs
					} else if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s, store %d: %v", c.set, i, err)
					}
				}
				exec(t, pool, "SET GLOBAL "+c.unset)
				for i, s := range stores {
					if err := s.Check(soon(t)); err != nil {
						t.Errorf("%s, store %d: %v", c.unset, i, err)
					}
				}
			}

			// Without Check, a server that takes no writes is left at the next
			// statement, and says why.
			user := open(t, userDSN(t, db, uniqueName("user"), leastGrants...))
			token := take(t, user, "billing", "me")
			exec(t, pool, "SET GLOBAL read_only = ON")
			session := read(t, user, "billing").Session
			_, err := user.Acquire(soon(t), request(t, user, "billing", "me"))
			if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "use the primary") {
				t.Errorf("acquire on a read-only server: %v", err)
			}
			if read(t, user, "billing").Session == session {
				t.Error("the connection to a read-only server was kept")
			}
			exec(t, pool, "SET GLOBAL read_only = OFF")
			if n := renew(t, user, "billing", "me", token, 1, 2); n != 1 {
				t.Errorf("%d leases renewed after the server takes writes again", n)
			}
		})
	}
}

func TestCheckRefusesFrozenClock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		s := openOn(t, openSQL(t, with(t, db, func(c *mysql.Config) { c.Params = map[string]string{"timestamp": "1729990790"} })))
		if err := s.Check(soon(t)); !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "SET timestamp") {
			t.Error(err)
		}
	})
}

func TestCheckWorksWithHostileSettings(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := openSQL(t, oddDSN(t, db))
		for _, s := range []*mysqlstore.Store{open(t, strings.Replace(oddDSN(t, db), "&character_set_connection=ucs2", "", 1)), openOn(t, pool)} {
			if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t))); err != nil {
				t.Error(err)
			}
			// The pool of the store's own is fit for other parts too.
			var mode string
			if err := s.DB().QueryRowContext(soon(t), "SELECT CONCAT(IF(@@autocommit, 1, 0), @@time_zone, @@sql_mode)").Scan(&mode); err != nil {
				t.Fatal(err)
			}
			if fit := strings.HasPrefix(mode, "1+00:00") && strings.Contains(mode, "STRICT"); fit != (s.DB() != pool) {
				t.Errorf("settings of DB(): %s", mode)
			}
		}
	})
}

func TestMigrationsAreStatements(t *testing.T) {
	t.Parallel()
	got := mysqlstore.Statements("-- one; two\nCREATE a;\n\n  -- three\nCREATE\n {lease};\n", "p_")
	if len(got) != 2 || got[0] != "CREATE a" || got[1] != "CREATE\n `p_lease`;" && got[1] != "CREATE\n `p_lease`" {
		t.Errorf("%q", got)
	}
}
