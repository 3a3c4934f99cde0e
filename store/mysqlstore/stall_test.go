package mysqlstore_test

import (
	"context"
	"database/sql"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
)

// A stall is a way to keep commits from ending: the options that the server needs for it, and
// what begins it on that server, and ends it at the end of the test or before.
type stall func(t *testing.T, kind string) (options []string, begin func(*sql.DB) (goOn func()))

// unacknowledged is a server that waits for a replica that does not exist before it answers a
// commit, at that point of it.
func unacknowledged(point string) stall {
	return func(t *testing.T, kind string) ([]string, func(*sql.DB) func()) {
		set := "SET GLOBAL rpl_semi_sync_master_" // MariaDB has it built in
		if dbserver.Dialect(kind) == dbserver.MySQL {
			set = "SET GLOBAL rpl_semi_sync_source_"
		}
		return []string{"--log-bin=binlog", "--server-id=1"}, func(admin *sql.DB) func() {
			t.Helper()
			if dbserver.Dialect(kind) == dbserver.MySQL {
				exec(t, admin, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
			}
			exec(t, admin, set+"timeout = 100000000")
			exec(t, admin, set+"wait_point = "+point)
			exec(t, admin, set+"enabled = ON")
			goOn := sync.OnceFunc(func() { exec(t, admin, set+"enabled = OFF") })
			t.Cleanup(goOn)
			return goOn
		}
	}
}

// fullDisk is a server whose binary log has no room.
func fullDisk(t *testing.T, _ string) ([]string, func(*sql.DB) func()) {
	if os.Geteuid() != 0 {
		t.Skip("a small disk needs root")
	}
	disk := t.TempDir()
	run := func(program string, arguments ...string) {
		if out, err := osexec.Command(program, arguments...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}
	run("mount", "-t", "tmpfs", "-o", "size=2M,mode=777", "tmpfs", disk)
	t.Cleanup(func() { run("umount", disk) })
	return []string{"--log-bin=" + filepath.Join(disk, "binlog"), "--server-id=1", "--sync-binlog=1"}, func(*sql.DB) func() {
		t.Helper()
		filled := filepath.Join(disk, "filled")
		if os.WriteFile(filled, make([]byte, 4<<20), 0o600) == nil {
			t.Fatal("the disk has room")
		}
		goOn := sync.OnceFunc(func() { must(t, os.Remove(filled)) })
		t.Cleanup(goOn)
		return goOn
	}
}

// A commit that waits for a replica's acknowledgement, or for room on the disk, keeps its row
// locked, or only gets no answer. Errors and the examination name that, and nobody is told to kill
// its session: others would then see what a promotion loses.
func TestCommitsThatHangAreNamed(t *testing.T) {
	t.Parallel()
	const replica = "no replica acknowledges"
	for name, c := range map[string]struct {
		stall      stall
		locks      bool
		behind     bool // the commit of another program, which the account does not see
		what, cure string
	}{
		"AFTER_SYNC":         {unacknowledged("AFTER_SYNC"), true, false, replica, "start a replica that acknowledges"},
		"AFTER_COMMIT":       {unacknowledged("AFTER_COMMIT"), false, false, replica, "start a replica that acknowledges"},
		"full disk":          {fullDisk, true, false, "disk is full", "make room on the server's disk"},
		"AFTER_SYNC, behind": {unacknowledged("AFTER_SYNC"), true, true, replica, "start a replica that acknowledges"},
		"full disk, behind":  {fullDisk, true, true, "disk is full", "make room on the server's disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
				options, begin := c.stall(t, db.Kind)
				server := dbtest.Private(t, db.Kind, options...)
				exec(t, dbtest.Database{Kind: db.Kind, DSN: server.DSN("")}.Open(t), "CREATE DATABASE app")
				db = dbtest.Database{Kind: server.Kind(), DSN: server.DSN("app")}
				migrated(t, db.DSN)
				s := open(t, privateUserDSN(t, db, "app", leastGrants...))
				token := take(t, s, "billing", "me")
				admin := db.Open(t)
				exec(t, admin, "CREATE TABLE other (n INT)")
				goOn := begin(admin)
				if c.behind {
					program := db.Open(t)
					ctx, cancel := context.WithCancel(t.Context())
					var running sync.WaitGroup
					running.Go(func() {
						for ctx.Err() == nil { // the disk has room for some
							_, _ = program.ExecContext(ctx, "INSERT INTO other VALUES (1)")
						}
					})
					defer running.Wait()
					defer cancel()
					eventually(t, "another program's commit hangs", func() bool {
						return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT INTO other%' AND time >= 1") > 0
					})
				}
				defer goOn()
				beat := func(ctx context.Context) error {
					n := read(t, s, "billing").Lease.Heartbeat
					_, err := s.Renew(ctx, store.Renew{Owner: "me", Heartbeat: n + 1, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: n}}})
					return err
				}
				eventually(t, "a commit has hung for some time", func() bool {
					short, cancel := context.WithTimeout(soon(t), time.Second)
					defer cancel()
					return beat(short) != nil &&
						count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app' AND command = 'Query' AND time >= 3") > 0
				})
				if c.locks {
					short, cancel := context.WithTimeout(soon(t), 3*time.Second)
					err := beat(short)
					cancel()
					if err == nil || !strings.Contains(err.Error(), c.what) || !strings.Contains(err.Error(), "Do not KILL") {
						t.Errorf("%v", err)
					}
				}
				if err := s.Blocked(soon(t), "ALTER TABLE `cronlease_lease`"); !strings.Contains(err.Error(), c.what) || strings.Contains(err.Error(), "KILL ID") {
					t.Errorf("a migration: %v", err)
				}
				r := examined(t, s, 3*time.Second)
				r.wants("commits", store.Problem, c.what, c.cure)
				r.wants("locked", store.Unknown, "commits hang", "")
				for _, f := range r.found {
					if strings.Contains(f.Cure, "KILL") && !strings.Contains(f.Cure, "Do not KILL") {
						t.Errorf("%+v", f)
					}
				}
			})
		})
	}
}

// The examination's own commit is the first that hangs.
func TestExaminationsCommitHangs(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		options, begin := unacknowledged("AFTER_COMMIT")(t, db.Kind)
		server := dbtest.Private(t, db.Kind, options...)
		db = dbtest.FreshOn(t, server.Kind(), server.DSN(""))
		s := migrated(t, db.DSN)
		defer begin(db.Open(t))()
		examined(t, s, 0).wants("commits", store.Problem, "commits hang: no replica acknowledges them", "start a replica that acknowledges")
	})
}
