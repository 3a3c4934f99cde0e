package mysqlstore_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
)

// The tables are restored from a backup while no worker runs, as docs/database.md
// says: the next term has a higher token than all before, knows what the backup
// knows, and the ticks since then can be claimed once more.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		before, pool := open(t, db.DSN), db.Open(t)
		if err := before.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		h := holder(t, before, "billing", "me")
		openJobs(t, before, h, "a")
		claim(t, before, h, running("a", 1, 2)...)
		tables := []string{"cronlease_lease", "cronlease_fence", "cronlease_job", "cronlease_run"}
		for _, table := range tables {
			exec(t, pool, "CREATE TABLE backup_"+table+" AS SELECT * FROM "+table)
		}
		last := holder(t, before, "billing", "next")
		claim(t, before, last, running("a", 3, 4)...)
		closeStore(t, before)
		for _, table := range tables {
			exec(t, pool, "DELETE FROM "+table)
			exec(t, pool, "INSERT INTO "+table+" SELECT * FROM backup_"+table)
		}

		after := open(t, db.DSN)
		if err := after.Check(soon(t)); err != nil {
			t.Fatal(err)
		}
		now := holder(t, after, "billing", "restored")
		if now.Token <= last.Token {
			t.Errorf("token %d after %d", now.Token, last.Token)
		}
		if l := load(t, after, "billing"); len(l.Open) != 2 {
			t.Errorf("%d open runs, want the 2 of the backup", len(l.Open))
		}
		for _, c := range claim(t, after, now, running("a", 3, 4)...) {
			if c.State != jobs.Running || c.Token != now.Token {
				t.Errorf("a tick since the backup: %+v", c)
			}
		}
	})
}
