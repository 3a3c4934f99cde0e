package mysqlstore_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// What Check wants is what the migrations make, and nothing less.
func TestShapesAreThoseOfTheMigrations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		rows, err := db.Open(t).QueryContext(soon(t), `
SELECT SUBSTRING(table_name, 11), '', column_name, ordinal_position FROM information_schema.columns WHERE table_schema = DATABASE()
UNION ALL
SELECT SUBSTRING(table_name, 11), index_name, column_name, seq_in_index FROM information_schema.statistics WHERE table_schema = DATABASE()
ORDER BY 1, 2, 4`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			var table, key, column string
			var place int
			if err := rows.Scan(&table, &key, &column, &place); err != nil {
				t.Fatal(err)
			}
			if what := table + " " + key + ":"; len(got) == 0 || !strings.HasPrefix(got[len(got)-1], what) {
				got = append(got, what)
			}
			got[len(got)-1] += " " + column
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		for i, line := range got {
			table, rest, _ := strings.Cut(line, " ")
			if key, columns, _ := strings.Cut(rest, ": "); key == "" {
				all := strings.Fields(columns)
				slices.Sort(all)
				got[i] = fmt.Sprintf("%s : %s", table, strings.Join(all, " "))
			}
		}
		slices.Sort(got)
		if want := mysqlstore.Shapes(); !slices.Equal(got, want) {
			t.Errorf("the migrations make\n%s\nand shapes.go says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Check names each table, column and key that is missing, and Migrate makes what
// it can: tables and keys. What a column held only a backup has.
func TestWhatIsMissingIsNamedAndMade(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, pool := migrated(t, db.DSN), db.Open(t)
		for _, c := range []struct {
			breaks, names string
			made          bool
		}{
			{"DROP TABLE cronlease_lock", "cronlease_lock", true},
			{"DROP TABLE cronlease_run, cronlease_job", "cronlease_job", true},
			{"DROP TABLE cronlease_lease, cronlease_fence", "cronlease_", true},
			{"ALTER TABLE cronlease_run DROP KEY by_state", "by_state", true},
			{"ALTER TABLE cronlease_job DROP PRIMARY KEY", "key PRIMARY (grp, name)", true},
			{"ALTER TABLE cronlease_lease DROP COLUMN resign_asked", "resign_asked", false},
		} {
			exec(t, pool, c.breaks)
			if err := s.Check(soon(t)); !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), c.names) || !strings.Contains(err.Error(), "run Migrate") {
				t.Errorf("Check after %s: %v", c.breaks, err)
			}
			var made []string
			_, err := s.MigrateSteps(soon(t), 0, func(step string) { made = append(made, step) }, func(error) {})
			if c.made != strings.Contains(strings.Join(made, "\n"), c.names) {
				t.Errorf("after %s: told of %q", c.breaks, made)
			}
			if c.made {
				if err := errors.Join(err, s.Check(soon(t))); err != nil {
					t.Errorf("Migrate and Check after %s: %v", c.breaks, err)
				}
				if strings.HasSuffix(c.breaks, "cronlease_lock") { // which needs the row that its step inserts
					isEqual(t, writeLocks(t, s, replace("a", 0, "")), "[true]", "a new lock after "+c.breaks)
				}
				continue
			}
			if !keeper.Ends(err) || !strings.Contains(err.Error(), c.names) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("Migrate after %s: %v", c.breaks, err)
			}
		}
	})
}

// A program goes on with tables of a later version that lets it, as one that is
// restarted in the middle of a rolling upgrade has to.
func TestOlderProgramOnNewerTables(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, pool := migrated(t, db.DSN), db.Open(t)
		exec(t, pool, "ALTER TABLE cronlease_lease ADD COLUMN later INT NOT NULL DEFAULT 0")
		exec(t, pool, "UPDATE cronlease_schema SET level = level + 5")
		if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t))); err != nil {
			t.Error(err)
		}
		take(t, s, "billing", "me")
		if level := count(t, pool, "SELECT MAX(level) FROM cronlease_schema"); level != mysqlstore.Newest+5 {
			t.Errorf("an older program has set the level to %d", level)
		}
	})
}

// Tables of version 3, which were released before there were levels, get the newest
// steps with what is in them. Programs of version 3, which accept no version but
// their own, are told that they can still use them: workers of both are replaced
// one by one.
func TestMigrateFromVersion3(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		exec(t, pool, "CREATE TABLE cronlease_schema (version INT UNSIGNED NOT NULL, applied_at DATETIME(6) NOT NULL, PRIMARY KEY (version)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC")
		for i, file := range []string{"0001_lease", "0002_ledger", "0003_locks"} {
			text, err := os.ReadFile("migrations/" + file + ".sql")
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range mysqlstore.Statements(string(text), "cronlease_") {
				exec(t, pool, statement)
			}
			exec(t, pool, "INSERT INTO cronlease_schema VALUES (?, UTC_TIMESTAMP(6))", i+1)
		}
		for _, insert := range []string{
			"cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked) VALUES ('billing', 'me', 7, 1, UTC_TIMESTAMP(6), 1000000, 0, 0)",
			"cronlease_fence (name, owner, token) VALUES ('billing', 'me', 7)",
			"cronlease_job (grp, name, schedule, since, schedule_since, paused, changes, started_at, finished_at) VALUES ('billing', 'a', '@every 1m', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 1, 0, NULL, NULL)",
			"cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, started_at, finished_at, due_at, missed, error, cancel_asked) VALUES ('billing', 'a', 5, 0, 'an id of 16 byte', 3, 'me', 7, 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), NULL, 0, '', 0)",
			"cronlease_lock (name, version, queue, written_at) VALUES ('stock', 3, '', UTC_TIMESTAMP(6))",
		} {
			exec(t, pool, "INSERT INTO "+insert)
		}
		s := open(t, db.DSN)
		if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t))); err != nil {
			t.Fatal(err)
		}
		if r := read(t, s, "billing"); r.Lease == nil || r.Lease.Token != 7 || r.Fence == nil || r.Fence.Token != 7 {
			t.Errorf("%+v", r)
		}
		if all := runs(t, s, "billing", jobs.Filter{}); len(all) != 1 {
			t.Errorf("%d runs", len(all))
		}
		// Paused by a program that did not keep when.
		if l := load(t, s, "billing"); !l.Jobs["a"].Paused || len(l.Pauses["a"]) != 1 || l.Pauses["a"][0] != (jobs.Pause{}) {
			t.Errorf("a pause of before: %+v", l)
		}
		if err := s.Resume(soon(t), "billing", "a"); err != nil {
			t.Fatal(err)
		}
		if l := load(t, s, "billing"); l.Jobs["a"].Paused || len(l.Pauses["a"]) != 1 || !l.Pauses["a"][0].Began.IsZero() || l.Pauses["a"][0].Ended.IsZero() {
			t.Errorf("a pause of before, after Resume: %+v", l)
		}
		if least, level := count(t, pool, "SELECT MAX(version) FROM cronlease_schema"), count(t, pool, "SELECT GREATEST(MAX(version), MAX(level)) FROM cronlease_schema"); least != 3 || level != mysqlstore.Newest {
			t.Errorf("the tables are of version %d, for programs from %d on, want %d and 3", level, least, mysqlstore.Newest)
		}
	})
}
