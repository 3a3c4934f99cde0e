package mysqlstore_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
)

// A primary of a group that may take statements before it has applied what the
// former one committed is refused: a replaced holder could claim by an old fence
// row.
func TestCheckRefusesEventualGroups(t *testing.T) {
	t.Parallel()
	if !slices.Contains(dbtest.Kinds(t), dbserver.MySQL) {
		return // groups are MySQL's
	}
	port := strconv.Itoa(dbserver.RandomPort())
	server := dbtest.Private(t, dbserver.MySQL, "--server-id=1", "--log-bin=binlog", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
		"--plugin-load-add=group_replication.so", "--loose-group-replication-group-name=8c7b1c2e-5d0f-4a53-9f43-0d6c4f6f9a11",
		"--loose-group-replication-start-on-boot=OFF", "--loose-group-replication-bootstrap-group=ON",
		"--loose-group-replication-local-address="+net.JoinHostPort("127.0.0.1", port))
	db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
	admin := db.Open(t)
	exec(t, admin, "START GROUP_REPLICATION")
	migrated(t, db.DSN)
	for _, c := range []struct {
		consistency string
		fit         bool
	}{{"EVENTUAL", false}, {"BEFORE_ON_PRIMARY_FAILOVER", true}, {"BEFORE", true}, {"AFTER", true}, {"BEFORE_AND_AFTER", true}} {
		exec(t, admin, fmt.Sprintf("SET GLOBAL group_replication_consistency = '%s'", c.consistency))
		err := open(t, db.DSN).Check(soon(t))
		if c.fit && err != nil {
			t.Errorf("%s: %v", c.consistency, err)
		}
		if !c.fit && (!keeper.Ends(err) || !strings.Contains(err.Error(), "group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER")) {
			t.Errorf("%s: %v", c.consistency, err)
		}
	}
	token := take(t, open(t, db.DSN), "billing", "me")
	if n := renew(t, open(t, db.DSN), "billing", "me", token, 1, 2); n != 1 {
		t.Errorf("%d leases renewed in a group", n)
	}
}
