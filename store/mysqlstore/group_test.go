package mysqlstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// A group is switched to several primaries under a store: claims and fenced transactions write the fence row from then on.
func TestGroupIsSwitched(t *testing.T) {
	t.Parallel()
	if !slices.Contains(dbtest.Kinds(t), dbserver.MySQL) {
		return
	}
	db := groupOfOne(t)
	admin := db.Open(t)
	exec(t, admin, "SET GLOBAL group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER'")
	s := migrated(t, db.DSN)
	h := holder(t, s, "billing", "me")
	openJobs(t, s, h, "a")
	pool := db.Open(t)
	fenced := func() error {
		ctx, cancel := context.WithTimeout(soon(t), time.Second)
		defer cancel()
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		_, err = s.CheckHold(ctx, tx, lease.Hold{Name: h.Group, Owner: h.Owner, Token: h.Token})
		return err
	}
	claim(t, s, h, running("a", 1)...)
	if err := fenced(); err != nil {
		t.Error(err)
	}
	exec(t, admin, "SELECT group_replication_switch_to_multi_primary_mode()") // waits until no transaction is open
	locks, err := admin.BeginTx(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, locks, "SELECT * FROM cronlease_fence WHERE name = 'billing' LOCK IN SHARE MODE") // holds up what writes the row
	eventually(t, "a fenced transaction writes the fence row", func() bool { return fenced() != nil })
	ctx, cancel := context.WithTimeout(soon(t), time.Second)
	defer cancel()
	if claimed, err := s.Claim(ctx, h, id(), running("a", 2)); err == nil {
		t.Errorf("after the switch, a claim does not write the fence row: %+v", claimed)
	}
	if err := locks.Rollback(); err != nil {
		t.Fatal(err)
	}
	claim(t, s, h, running("a", 3)...)
}

// A primary of a group that may take statements before it has applied what the
// former one committed is refused: a replaced holder could claim by an old fence
// row.
func TestCheckRefusesEventualGroups(t *testing.T) {
	t.Parallel()
	if !slices.Contains(dbtest.Kinds(t), dbserver.MySQL) {
		return // groups are MySQL's
	}
	db := groupOfOne(t)
	admin := db.Open(t)
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
	examined(t, open(t, db.DSN), 0).wants("replication", store.Warning, "cut off from the majority", "group_replication_unreachable_majority_timeout = 10")
	token := take(t, open(t, db.DSN), "billing", "me")
	if n := renew(t, open(t, db.DSN), "billing", "me", token, 1, 2); n != 1 {
		t.Errorf("%d leases renewed in a group", n)
	}
}

// groupOfOne is a database on the only member of a group.
func groupOfOne(t *testing.T) dbtest.Database {
	t.Helper()
	port := strconv.Itoa(dbserver.RandomPort())
	server := dbtest.Private(t, dbserver.MySQL, "--server-id=1", "--log-bin=binlog", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
		"--plugin-load-add=group_replication.so", "--loose-group-replication-group-name=8c7b1c2e-5d0f-4a53-9f43-0d6c4f6f9a11",
		"--loose-group-replication-start-on-boot=OFF", "--loose-group-replication-bootstrap-group=ON",
		"--loose-group-replication-local-address="+net.JoinHostPort("127.0.0.1", port))
	db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
	exec(t, db.Open(t), "START GROUP_REPLICATION")
	return db
}
