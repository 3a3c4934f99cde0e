package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// longestClaim is what a step may keep a claim waiting: its own lock wait, and some time
// for a busy machine. A claim that waits for longer than 2 s fails.
const longestClaim = 1900 * time.Millisecond

// tablesOf makes the tables as they are after a step.
func tablesOf(t *testing.T, pool *sql.DB, level int) {
	t.Helper()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files[:level] {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range mysqlstore.Statements(string(text), "cronlease_") {
			exec(t, pool, statement)
		}
	}
	exec(t, pool, "CREATE TABLE cronlease_schema (version INT UNSIGNED NOT NULL PRIMARY KEY, applied_at DATETIME(6) NOT NULL, level INT UNSIGNED NOT NULL DEFAULT 0)")
	exec(t, pool, "INSERT INTO cronlease_schema VALUES (?, UTC_TIMESTAMP(6), ?)", min(level, 3), level)
}

// olderWorkers claim and end runs, write their job and their lock, and renew their lease, as programs of version 3 do. Stop ends
// them, and returns how long a claim took at most, and how many there were.
func olderWorkers(t *testing.T, pool *sql.DB) (stop func() (longest time.Duration, claims int)) {
	t.Helper()
	exec(t, pool, "INSERT INTO cronlease_lease VALUES ('g', 'old', 1, 1, UTC_TIMESTAMP(6), 15000000, 0, 0)")
	exec(t, pool, "INSERT INTO cronlease_fence (name, owner, token) VALUES ('g', 'old', 1)")
	exec(t, pool, "INSERT INTO cronlease_job (grp, name, schedule, since, schedule_since, paused, changes) VALUES ('g', 'j', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 0, 0)")
	exec(t, pool, "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('l', 1, 'a', UTC_TIMESTAMP(6))")
	c := conn(t, pool)
	exec(t, c, "SET lock_wait_timeout = 2, innodb_lock_wait_timeout = 2")
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	var longest time.Duration
	claims := 0
	done.Go(func() {
		for ctx.Err() == nil {
			claims++
			for _, statement := range []string{
				fmt.Sprintf(`INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked)
					SELECT 'g', 'j', %d, 0, '', 1, owner, token, 1, UTC_TIMESTAMP(6), 0, '', 0 FROM cronlease_fence WHERE name = 'g' LOCK IN SHARE MODE`, claims),
				fmt.Sprintf("UPDATE cronlease_run SET state = 2, finished_at = UTC_TIMESTAMP(6) WHERE grp = 'g' AND job = 'j' AND tick = %d AND trigger_id = 0", claims),
				"UPDATE cronlease_job SET finished_at = UTC_TIMESTAMP(6) WHERE grp = 'g' AND name = 'j'",
				"UPDATE cronlease_lock SET version = version + 1 WHERE name = 'l'",
				"UPDATE cronlease_lease SET heartbeat = heartbeat + 1, renewed_at = UTC_TIMESTAMP(6) WHERE name = 'g'",
			} {
				began := time.Now()
				// To its end, so that each one counts.
				if _, err := c.ExecContext(context.WithoutCancel(ctx), statement); err != nil {
					t.Errorf("after %v: %s: %v", time.Since(began), statement, err)
					return
				}
				longest = max(longest, time.Since(began))
			}
		}
	})
	stop = func() (time.Duration, int) {
		cancel()
		done.Wait()
		return longest, claims
	}
	t.Cleanup(func() { stop() })
	return stop
}

// reader opens a transaction that has read all tables, as a dump does, and returns its session.
func reader(t *testing.T, pool *sql.DB) (c *sql.Conn, id int) {
	t.Helper()
	c = conn(t, pool)
	exec(t, c, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
	rows, err := c.QueryContext(soon(t), "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	for _, table := range tables {
		exec(t, c, "SELECT COUNT(*) FROM (SELECT 1 FROM "+table+" LIMIT 1) AS one")
	}
	if err := errors.Join(rows.Err(), c.QueryRowContext(soon(t), "SELECT CONNECTION_ID()").Scan(&id)); err != nil {
		t.Fatal(err)
	}
	return c, id
}

// Beside a transaction that stays open, each step tries and pauses, names the session, and lets the claims of older workers
// go on. It is made once the transaction has ended.
func TestMigrationBesideOpenTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		for level := 3; level < mysqlstore.Newest; level++ {
			t.Run(fmt.Sprintf("from level %d", level), func(t *testing.T) {
				t.Parallel()
				db := dbtest.FreshOn(t, db.Kind, strings.Replace(db.DSN, "/"+db.Config(t).DBName, "/", 1))
				pool := db.Open(t)
				tablesOf(t, pool, level)
				stop := olderWorkers(t, pool)
				c, id := reader(t, pool)
				held := make(chan error, 100)
				ended := make(chan error, 1)
				s := open(t, db.DSN)
				go func() {
					_, err := s.MigrateSteps(soon(t), 0, func(string) {}, func(err error) { held <- err })
					ended <- err
				}()
				attempts := 1
				if level == 3 {
					attempts = 2
				}
				for range attempts {
					select {
					case err := <-held:
						if text := err.Error(); !errors.Is(err, lease.ErrNotReady) || !strings.Contains(text, "the table cronlease_") || !strings.Contains(text, fmt.Sprintf("session %d of root@", id)) {
							t.Errorf("held up by session %d: %v", id, err)
						}
					case err := <-ended:
						t.Fatalf("beside an open transaction: %v", err)
					}
				}
				exec(t, c, "COMMIT")
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if longest, claims := stop(); longest > longestClaim || claims < 10 {
					t.Errorf("%d claims, the longest statement took %v", claims, longest)
				} else {
					t.Logf("%d claims, the longest statement took %v", claims, longest)
				}
				if err := s.Check(soon(t)); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// A dump reads a ledger of many runs while all steps are made.
func TestMigrationOfManyRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		tablesOf(t, pool, 3)
		fill := conn(t, pool)
		many := rounds.Of(t, 20_000) // CRONLEASE_ROUNDS=250 for 5 million
		const digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
		for from := 0; from < many; from += 10_000 {
			exec(t, fill, fmt.Sprintf(`INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked)
				SELECT 'many', 'j', %d + a.d + 10 * b.d + 100 * c.d + 1000 * e.d, 0, '', 2, 'old', 1, 1, UTC_TIMESTAMP(6), 0, '', 0 FROM %[2]s a, %[2]s b, %[2]s c, %[2]s e`, from, digits))
		}
		stop := olderWorkers(t, pool)
		dump, _ := reader(t, pool)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rows, err := dump.QueryContext(ctx, "SELECT * FROM cronlease_run") //nolint:rowserrcheck // the dump is cut off
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		s := open(t, db.DSN)
		attempts := 0
		_, err = s.MigrateSteps(t.Context(), 0, func(string) {}, func(error) {
			if attempts++; attempts == 2 {
				cancel() // the dump's client goes away
			}
		})
		if err != nil || attempts < 2 {
			t.Errorf("held up %d times: %v", attempts, err)
		}
		longest, claims := stop()
		t.Logf("%d rows, %d claims, the longest statement took %v", many, claims, longest)
		if longest > longestClaim {
			t.Errorf("%d claims, the longest statement took %v", claims, longest)
		}
	})
}

// A migration gives up after a time, or with its context, and says what was in the way.
func TestMigrationGivesUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		tablesOf(t, pool, mysqlstore.Newest-1)
		_, id := reader(t, pool)
		s := open(t, db.DSN)
		_, err := s.MigrateSteps(soon(t), time.Millisecond, func(string) {}, func(err error) { t.Errorf("tried again: %v", err) })
		if text := fmt.Sprint(err); !errors.Is(err, lease.ErrNotReady) || !strings.Contains(text, "given up after 1s") || !strings.Contains(text, fmt.Sprintf("session %d of root@", id)) {
			t.Errorf("out of patience: %v", err)
		}
		ctx, cancel := context.WithCancel(soon(t))
		_, err = s.MigrateSteps(ctx, 0, func(string) {}, func(error) { cancel() })
		if text := fmt.Sprint(err); !errors.Is(err, context.Canceled) || !strings.Contains(text, fmt.Sprintf("session %d of root@", id)) {
			t.Errorf("cancelled: %v", err)
		}
		// A user without the privileges to look is told which it would need.
		user := open(t, userDSN(t, db, uniqueName("m"), migrateGrants...))
		_, err = user.MigrateSteps(soon(t), time.Millisecond, func(string) {}, func(error) {})
		if !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "grant PROCESS") {
			t.Errorf("without privileges: %v", err)
		}
	})
}

// Where the server keeps its metadata locks, the one session that has the table is named, whatever else is open; and so is a
// backup that has all of them.
func TestMigrationNamesTheHolder(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind, "--performance-schema=ON", "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON")
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			pool := db.Open(t)
			tablesOf(t, pool, mysqlstore.Newest-1)
			exec(t, pool, "CREATE TABLE other (a INT) ENGINE=InnoDB")
			older := conn(t, pool)
			exec(t, older, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
			exec(t, older, "SELECT COUNT(*) FROM other")
			s := open(t, db.DSN)
			names := func(id int, table, last string) {
				t.Helper()
				_, err := s.MigrateSteps(soon(t), time.Millisecond, func(string) {}, func(error) {})
				if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprintf("the table %s cannot be changed yet, because session %d of root@", table, id)) || !strings.Contains(text, last) {
					t.Errorf("of session %d: %v", id, err)
				}
			}
			c, id := reader(t, pool)
			last := ""
			if server.Kind() == dbserver.MySQL {
				last = `, with "SELECT` // MariaDB does not keep statements unless told
			}
			names(id, "cronlease_run", last)
			exec(t, c, "ROLLBACK")
			exec(t, c, "FLUSH TABLES WITH READ LOCK")
			names(id, "cronlease_schema", "")
			exec(t, c, "UNLOCK TABLES")
			if err := s.Migrate(soon(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A step that copied a table would keep its writers waiting: only the copy of locks, which are few, is old enough to be allowed.
func TestStepsLockNoTable(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) != mysqlstore.Newest {
		t.Fatalf("%q: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range mysqlstore.Statements(string(text), "") {
			if strings.HasPrefix(statement, "ALTER") && !strings.Contains(statement, "LOCK=NONE") && filepath.Base(file) != "0004_lock_idle.sql" {
				t.Errorf("%s: without LOCK=NONE: %s", file, statement)
			}
			if strings.HasPrefix(statement, "UPDATE") || strings.HasPrefix(statement, "DELETE") {
				t.Errorf("%s: all rows at once: %s", file, statement)
			}
		}
	}
}
