package mysqlstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
)

// A commit that waits for a replica's acknowledgement keeps its row locked, or only gets no answer. Errors and
// the examination name that, and nobody is told to kill its session: others would then see what a promotion loses.
func TestCommitsThatHangAreNamed(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"AFTER_SYNC", "AFTER_COMMIT"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, dbserver.MariaDB, "--log-bin=binlog", "--server-id=1", "--rpl-semi-sync-master-timeout=100000000", "--rpl-semi-sync-master-wait-point="+point)
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			migrated(t, db.DSN)
			s := open(t, userDSN(t, db, uniqueName("app"), leastGrants...))
			token := take(t, s, "billing", "me")
			admin := db.Open(t)
			exec(t, admin, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
			defer exec(t, admin, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
			beat := func(ctx context.Context) error {
				n := read(t, s, "billing").Lease.Heartbeat
				_, err := s.Renew(ctx, store.Renew{Owner: "me", Heartbeat: n + 1, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: n}}})
				return err
			}
			short, cancel := context.WithTimeout(soon(t), time.Second)
			_ = beat(short) // it hangs, and its session stays
			cancel()
			eventually(t, "the commit has hung for some time", func() bool {
				return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%' AND time >= 3") > 0
			})
			if point == "AFTER_SYNC" {
				err := beat(soon(t))
				if err == nil || !strings.Contains(err.Error(), "no replica acknowledges") || !strings.Contains(err.Error(), "Do not KILL") {
					t.Errorf("%v", err)
				}
			}
			r := examined(t, s, 3*time.Second)
			r.wants("commits", store.Problem, "commits hang: no replica acknowledges them", "start a replica that acknowledges")
			r.wants("locked", store.Unknown, "commits hang", "")
			for _, f := range r.found {
				if strings.Contains(f.Cure, "KILL") && !strings.Contains(f.Cure, "Do not KILL") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// The examination's own commit is the first that hangs.
func TestExaminationsCommitHangs(t *testing.T) {
	t.Parallel()
	server := dbtest.Private(t, dbserver.MariaDB, "--log-bin=binlog", "--server-id=1", "--rpl-semi-sync-master-timeout=100000000")
	db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
	s := migrated(t, db.DSN)
	admin := db.Open(t)
	exec(t, admin, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
	defer exec(t, admin, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
	examined(t, s, 0).wants("commits", store.Problem, "commits hang: no replica acknowledges them", "start a replica that acknowledges")
}
