package mysqlstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// A row that the server refuses, because of a CHECK that was added or a missing
// partition, is an error with the server's own reason. The other rows of the call
// are inserted.
func TestClaimNamesTheServersReason(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"check":     "ALTER TABLE cronlease_run ADD CONSTRAINT few CHECK (missed < 100)",
		"partition": "ALTER TABLE cronlease_run PARTITION BY RANGE COLUMNS (tick) (PARTITION old VALUES LESS THAN (1900000000000000))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
				s := migrated(t, db.DSN)
				h := holder(t, s, "billing", "me")
				if name == "partition" && db.Kind == dbserver.MySQL { // which has no partitions of what shares its file with others
					exec(t, db.Open(t), "ALTER TABLE cronlease_run TABLESPACE innodb_file_per_table")
				}
				exec(t, db.Open(t), statement)
				fine := store.Claim{Key: key("fine", 1), State: jobs.Running}
				refused := store.Claim{Key: key("refused", 1), State: jobs.Running, Missed: 1000}
				refused.Tick = refused.Tick.AddDate(100, 0, 0)
				_, err := s.Claim(soon(t), h, id(), []store.Claim{fine, refused})
				var reason *mysql.MySQLError
				if !errors.As(err, &reason) {
					t.Fatalf("error %v, want the server's", err)
				}
				if want := map[string]string{"check": "few", "partition": "partition"}[name]; !strings.Contains(strings.ToLower(reason.Message), want) {
					t.Errorf("error %v, want it to name %q", err, want)
				}
				if r := run(t, s, "billing", fine.Key); r.State != jobs.Running {
					t.Errorf("beside it: %+v", r)
				}
			})
		})
	}
}
