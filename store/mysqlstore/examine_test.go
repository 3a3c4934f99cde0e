package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// checkup is what an examination has found.
type checkup struct {
	t     testing.TB
	found []store.Finding
}

func examined(t testing.TB, s *mysqlstore.Store, ttl time.Duration) checkup {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	return checkup{t, s.Examine(ctx, ttl)}
}

// wants fails the test unless there is such a finding.
func (r checkup) wants(check string, grade store.Grade, text, cure string) {
	r.t.Helper()
	for _, f := range r.found {
		if f.Check == check && f.Grade == grade && strings.Contains(f.Text, text) && strings.Contains(f.Cure, cure) {
			return
		}
	}
	r.t.Errorf("no %v of %s with %q and cure %q in\n%v", grade, check, text, cure, r)
}

// hasNone fails the test if there is a finding of that grade or worse.
func (r checkup) hasNone(check string, grade store.Grade) {
	r.t.Helper()
	for _, f := range r.found {
		if f.Check == check && f.Grade >= grade {
			r.t.Errorf("%+v", f)
		}
	}
}

func (r checkup) String() string {
	var lines []string
	for _, f := range r.found {
		lines = append(lines, fmt.Sprintf("%v %s: %s => %s", f.Grade, f.Check, f.Text, f.Cure))
	}
	return strings.Join(lines, "\n")
}

var checks = []string{"connection", "server", "proxy", "tables", "locked", "grants", "locks", "settings", "durability", "replication", "connections", "commits", "indexes", "growth"}

// Nothing is wrong with a server that is set up as the documents say, and what the examination
// wrote is gone.
func TestExamineWell(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		take(t, migrated(t, db.DSN), "billing", "me")
		user := uniqueName("user")
		s := open(t, userDSN(t, db, user, leastGrants...))
		r := examined(t, s, time.Minute)
		var got []string
		for _, f := range r.found {
			got = append(got, f.Check)
			// These depend on how the tests' servers were started, and on the machine's load.
			if loose := f.Check == "durability" || f.Check == "replication" || f.Check == "connections" || f.Check == "commits"; f.Grade != store.Good && !loose || f.Text == "" || strings.Contains(f.Text, "\n") {
				t.Errorf("%+v", f)
			}
		}
		if got = slices.Compact(got); !slices.Equal(got, checks) {
			t.Errorf("checks %q", got)
		}
		if n := count(t, db.Open(t), "SELECT COUNT(*) FROM cronlease_replica"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		t.Log(r)
	})
}

// Where there is no connection, one finding says why, and the others that they do not know.
func TestExamineWithoutAConnection(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		address := dbtest.NewProxy(t, db.Config(t).Addr)
		address.Refuse()
		for text, cure := range map[string][2]string{
			"refused":            {with(t, db, func(c *mysql.Config) { c.Addr = address.Addr() }), "network between"},
			"Access denied":      {with(t, db, func(c *mysql.Config) { c.User, c.Passwd = "nobody", "wrong" }), "correct the password"},
			"Unknown database":   {with(t, db, func(c *mysql.Config) { c.DBName = "cronlease_test_none" }), "create the database"},
			"different sessions": {with(t, db, func(c *mysql.Config) { c.Addr = dbtest.NewSharingProxy(t, c.Addr) }), "in ProxySQL, multiplexing off"},
		} {
			r := examined(t, open(t, cure[0]), 0)
			r.wants("connection", store.Problem, text, cure[1])
			r.wants("growth", store.Unknown, "there is no connection", "")
			if len(r.found) != len(checks)+1 { // with hosts
				t.Errorf("%s: %v", text, r)
			}
		}
	})
}

// What is wrong with the tables, and what the account may do.
func TestExamineTablesAndGrants(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, admin := migrated(t, db.DSN), db.Open(t)
		take(t, s, "billing", "me")
		examined(t, s, 0).wants("grants", store.Warning, "it can write on a server that was made read-only", "grants of docs/database.md")

		few := open(t, userDSN(t, db, uniqueName("user"), slices.DeleteFunc(slices.Clone(leastGrants), func(g string) bool { return strings.Contains(g, "_run") })...))
		examined(t, few, 0).wants("grants", store.Problem, "denied", "grant SELECT, INSERT, UPDATE and DELETE")

		user := uniqueName("user")
		userDSN(t, db, user)
		other := open(t, with(t, db, func(c *mysql.Config) { c.User, c.Passwd, c.DBName = user, "secret-4711", "cronlease_test_none" }))
		examined(t, other, 0).wants("connection", store.Problem, "denied", "correct the name of the database, or grant SELECT, INSERT, UPDATE and DELETE")

		most := uniqueName("user")
		limited := open(t, userDSN(t, db, most, "ALL ON @.*"))
		exec(t, admin, fmt.Sprintf("ALTER USER '%s'@'%%' WITH MAX_USER_CONNECTIONS 42", most))
		examined(t, limited, 0).wants("connections", store.Warning, "max_user_connections is 42", "raise max_user_connections to 44")

		examined(t, s, 20*time.Microsecond).wants("indexes", store.Warning, "more than a tenth of the TTL", "ANALYZE TABLE")

		exec(t, admin, "ALTER TABLE cronlease_lease MODIFY name VARCHAR(128) CHARACTER SET utf8mb4 NOT NULL")
		examined(t, s, 0).wants("tables", store.Problem, "columns are text and not bytes: cronlease_lease.name:", "VARBINARY(128)")
		exec(t, admin, "ALTER TABLE cronlease_lease MODIFY name VARBINARY(128) NOT NULL")

		hide, cure := "INVISIBLE", "ALTER TABLE cronlease_run ALTER INDEX by_state VISIBLE"
		if dbserver.Dialect(db.Kind) == dbserver.MariaDB {
			hide, cure = "IGNORED", "ALTER TABLE cronlease_run ALTER INDEX by_state NOT IGNORED"
		}
		exec(t, admin, "ALTER TABLE cronlease_run ALTER INDEX by_state "+hide)
		examined(t, s, 0).wants("indexes", store.Problem, "the key by_state of cronlease_run is hidden", cure)

		exec(t, admin, "ALTER TABLE cronlease_run DROP KEY by_state")
		r := examined(t, s, 0)
		r.wants("tables", store.Problem, "table cronlease_run has no key by_state", "run Migrate (worker migrate)")
		r.wants("grants", store.Unknown, "the tables are not as they have to be", "")
		exec(t, admin, "ALTER TABLE cronlease_run ENGINE = MyISAM")
		examined(t, s, 0).wants("tables", store.Problem, "the engine MyISAM", "ALTER TABLE cronlease_run ENGINE=InnoDB")
		r = examined(t, open(t, dbtest.Fresh(t, db.Kind).DSN), 0)
		r.wants("tables", store.Problem, "the tables are missing", "run Migrate (worker migrate)")
		for _, check := range []string{"grants", "locks", "connections", "commits", "indexes", "growth"} {
			r.hasNone(check, store.Warning)
		}
		exec(t, admin, "DELETE FROM cronlease_schema WHERE version > 1")
		examined(t, s, 0).wants("tables", store.Problem, "the tables are of version 1", "run Migrate (worker migrate)")
	})
}

// A connection that is lost on the way is a problem, which is found once.
func TestExamineLosesItsConnection(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		address := dbtest.NewProxy(t, db.Config(t).Addr)
		address.Refuse()
		s := open(t, with(t, db, func(c *mysql.Config) { c.Addr = address.Addr() }))
		r := checkup{t, mysqlstore.ExamineWithoutConnection(t.Context(), s)}
		r.wants("connection", store.Problem, "it was lost", "look at the server")
		r.wants("locks", store.Unknown, "not looked at", "")
		if len(r.found) != 3 {
			t.Error(r)
		}
	})
}

// What one cause keeps from being looked at is no problem by itself.
func TestExamineSaysOnce(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		server := dbtest.Private(t, db.Kind)
		db = dbtest.FreshOn(t, server.Kind(), server.DSN(""))
		admin := db.Open(t)
		take(t, migrated(t, db.DSN), "billing", "me")
		s := open(t, userDSN(t, db, uniqueName("user"), "SELECT, INSERT, UPDATE, DELETE ON @.*"))
		only := func(check, text string) {
			t.Helper()
			r := examined(t, s, time.Minute)
			r.wants(check, store.Problem, text, "")
			for _, f := range r.found {
				if f.Check != check && f.Grade == store.Problem {
					t.Errorf("%+v beside %q", f, text)
				}
			}
		}
		exec(t, admin, "SET GLOBAL max_connections = 10")
		hog := openOn(t, openSQL(t, userDSN(t, db, uniqueName("hog"), "SELECT ON @.*")))
		for range 20 {
			c, err := hog.DB().Conn(t.Context())
			if err != nil {
				break
			}
			defer c.Close()
		}
		r := examined(t, s, time.Minute)
		r.wants("connection", store.Problem, "onnections", "find the program that has so many")
		exec(t, admin, "SET GLOBAL max_connections = 500")
		exec(t, admin, "SET GLOBAL read_only = ON")
		only("server", "read_only")
		exec(t, admin, "SET GLOBAL read_only = OFF")

		other, err := admin.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		lock := func(statements ...string) {
			t.Helper()
			for _, statement := range statements {
				if _, err := other.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
		}
		lock("LOCK TABLES cronlease_run READ")
		only("locked", "cronlease_run")
		lock("UNLOCK TABLES", "FLUSH TABLES WITH READ LOCK")
		only("locked", "cronlease_attempt, cronlease_audit, cronlease_fence, cronlease_job, cronlease_lease")
		lock("UNLOCK TABLES", "BEGIN", "SELECT * FROM cronlease_lease FOR UPDATE")
		examined(t, s, time.Minute).hasNone("locked", store.Warning) // a heartbeat may be under way
		lock("ROLLBACK", "UPDATE cronlease_lease SET renewed_at = renewed_at - INTERVAL 1 HOUR", "BEGIN", "SELECT * FROM cronlease_lease FOR UPDATE")
		only("locked", `the lease "billing"`)
		lock("ROLLBACK", "BEGIN", "SELECT * FROM cronlease_fence FOR UPDATE")
		only("locked", `the lease "billing"`)
		lock("ROLLBACK")
		examined(t, s, time.Minute).hasNone("locked", store.Warning)
	})
}

// A worker counts once, however many groups it has, and only if it is there.
func TestExamineCountsWorkers(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s, admin := migrated(t, db.DSN), db.Open(t)
		for _, group := range []string{"a", "b", "c"} {
			take(t, s, group, "worker/leads/1/"+group)
			for _, host := range []string{"follows", "dead"} {
				must(t, s.Enlist(soon(t), group, jobs.Replica{Owner: "worker/" + host + "/1/" + group, List: jobs.FirstList}))
			}
			follower := s.HandoverSignal(group).(store.PresenceSignal)
			obtain(t, follower)
			must(t, follower.Announce(soon(t), store.ReplicaToken("worker/follows/1/"+group), read(t, s, group).Server))
		}
		exec(t, admin, "UPDATE cronlease_replica SET since = since - INTERVAL 1 MINUTE")
		examined(t, s, time.Minute).wants("connections", store.Good, "; 2 workers may need 88", "")
		exec(t, admin, "UPDATE cronlease_lease SET renewed_at = renewed_at - INTERVAL 1 HOUR")
		examined(t, s, time.Minute).wants("connections", store.Good, "; 1 workers may need 44", "")
	})
}

// All workers of a group that is spread have the connections of leaders.
func TestExamineCountsSpread(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := store.Holder{Group: "a", Owner: "worker/leads/1/a", Assigns: true}
		h.Token = take(t, s, h.Group, h.Owner)
		for _, host := range []string{"b", "c", "d"} {
			must(t, s.Enlist(soon(t), h.Group, jobs.Replica{Owner: "worker/" + host + "/1/a", List: 1}))
		}
		counts := func(spread int) {
			t.Helper()
			examined(t, s, time.Minute).wants("connections", store.Good, fmt.Sprintf("; 4 workers may need %d", mysqlstore.ConnectionsOf(4, 1, spread, 32)), "")
		}
		counts(0)
		must(t, s.Declare(soon(t), h, nil))
		counts(4)
	})
}

// The document has the formula of the examination.
func TestConnectionsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/database.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("at most %d connections", mostSessions),
		"F × N + L × (12 - F + pool_size)",
		fmt.Sprintf("5 workers of one group and the default pool_size: %d", mysqlstore.ConnectionsOf(5, 1, 0, 32)),
		fmt.Sprintf("5 workers of one group that is spread: %d", mysqlstore.ConnectionsOf(5, 1, 5, 32)),
		fmt.Sprintf("2 workers of 20 groups: %d", mysqlstore.ConnectionsOf(2, 20, 0, 32)),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/database.md lacks %q", want)
		}
	}
}

// Tables that grow.
func TestExamineGrowth(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		fillLedger(t, db, s, holder(t, s, "billing", "me"), 5, 2000)
		exec(t, db.Open(t), "ANALYZE TABLE cronlease_lock")
		examined(t, s, 0).hasNone("growth", store.Warning)
		r := checkup{t, s.ExamineGrowth(soon(t), 100, 0, 1000)}
		r.wants("growth", store.Warning, "cronlease_run has about ", "history.keep")
		r.wants("growth", store.Warning, "cronlease_lock has about ", "locks")
		r.wants("growth", store.Warning, "the tables take ", "history.keep")
	})
}

// What is between a worker and its server.
func TestExamineProxies(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		proxy.Delay(5 * time.Millisecond)
		examined(t, s, time.Second).wants("connection", store.Warning, "a round trip takes ", "closer")
		proxy.Delay(50 * time.Millisecond)
		r := examined(t, s, time.Second)
		r.wants("connection", store.Problem, "a login takes ", "a longer TTL")
		// An examination that has no time left says so, and blames nothing for it.
		soon, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, errors.New("its time is over"))
		defer cancel()
		all := s.Examine(soon, time.Second)
		if last := all[len(all)-1]; last.Grade != store.Unknown || last.Text != "not looked at: its time is over" {
			t.Errorf("the last finding is %+v", last)
		}
		for _, f := range all {
			if f.Grade == store.Problem && !strings.Contains(f.Text, "a login takes ") {
				t.Errorf("%+v", f)
			}
		}
		proxy.Pass()
		proxy.Replace("@@port) FROM", "'none') FROM")
		examined(t, s, 0).wants("proxy", store.Problem, "a proxy splits reads from writes", "routing of reads")
		proxy.Replace("LOCK IN SHARE MODE", "                  ")
		examined(t, open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() })), 0).
			wants("locks", store.Problem, "lets a writer pass a shared lock", "MySQL or MariaDB itself")
	})
}

// Two servers where there should be one.
func TestExamineHosts(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, p *pair) {
		s := open(t, p.dsn())
		r := examined(t, s, 0)
		r.wants("hosts", store.Good, p.proxies[1].Addr()+" is read-only", "")
		p.readOnly(1, false)
		examined(t, s, 0).wants("hosts", store.Problem, "take writes at the same time", "SET GLOBAL read_only = ON")

		var turn atomic.Uint64
		config := (dbtest.Database{DSN: p.servers[0].DSN(pairDatabase)}).Config(t)
		config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.servers[turn.Add(1)%2].Addr())
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		pool := sql.OpenDB(connector)
		t.Cleanup(func() { _ = pool.Close() })
		examined(t, openOn(t, pool), 0).wants("proxy", store.Problem, "connections reach different servers", "the one server that takes writes")

		p.readOnly(1, true)
		p.proxies[1].Refuse()
		p.proxies[1].Reset()
		examined(t, s, 0).wants("hosts", store.Warning, p.proxies[1].Addr()+" cannot be used", "start it")
		p.readOnly(0, true)
		one := open(t, p.servers[0].DSN(pairDatabase))
		examined(t, one, 0).wants("server", store.Problem, "the server has read_only = ON", "use the primary")
	})
}

// A server whose settings lose commits, or refuse statements.
func TestExamineSettings(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			options := []string{"--server-id=7", "--log-bin=binlog", "--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--innodb-doublewrite=OFF", "--max-allowed-packet=524288", "--max-connections=42"}
			server := dbtest.Private(t, kind, options...)
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			s, admin := migrated(t, db.DSN), db.Open(t)
			r := examined(t, s, time.Minute)
			r.wants("settings", store.Problem, "max_allowed_packet is 524288 bytes", "SET GLOBAL max_allowed_packet")
			r.wants("durability", store.Warning, "innodb_flush_log_at_trx_commit is 2", "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
			r.wants("durability", store.Warning, "sync_binlog is 0", "SET GLOBAL sync_binlog = 1")
			r.wants("durability", store.Warning, "innodb_doublewrite is OFF", "ZFS")
			r.wants("durability", store.Warning, "innodb_flush_method is nosync", "fsync")
			r.wants("connections", store.Warning, "max_connections is 42", "raise max_connections to 44")
			r.wants("replication", store.Good, "no replica follows", "")

			// A commit that waits for others, as on a slow disk.
			for statement := range strings.SplitSeq(map[string]string{
				dbserver.MySQL:   "SET GLOBAL binlog_group_commit_sync_delay = 250000",
				dbserver.MariaDB: "SET GLOBAL binlog_commit_wait_count = 1000;SET GLOBAL binlog_commit_wait_usec = 250000",
			}[dbserver.Dialect(server.Kind())], ";") {
				exec(t, admin, statement)
			}
			examined(t, s, time.Second).wants("commits", store.Problem, "commits take longer than a heartbeat may (200ms)", "binlog_group_commit_sync_delay")
			examined(t, s, 10*time.Second).wants("commits", store.Warning, "commits are slow", "the server's disk")

			held := conn(t, admin)
			for range 36 {
				conn(t, admin)
			}
			_ = held
			examined(t, s, time.Minute).wants("connections", store.Warning, "of the server's 42 connections are taken", "raise max_connections")
		})
	}
}

// Replicas that the primary does not wait for, and a primary that is itself one.
func TestExamineReplication(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			primary, replica := dbtest.Replicated(t, kind)
			db := dbtest.FreshOn(t, primary.Kind(), primary.DSN(""))
			s, name := migrated(t, db.DSN), db.Config(t).DBName
			admin := db.Open(t)
			copied := dbtest.Database{Kind: replica.Kind(), DSN: replica.DSN("")}.Open(t)
			eventually(t, "the replica has the tables", func() bool {
				var n int
				err := copied.QueryRowContext(soon(t), "SELECT MAX(level) FROM `"+name+"`.cronlease_schema").Scan(&n)
				return err == nil && n == mysqlstore.Newest
			})
			examined(t, s, 0).wants("replication", store.Warning, "1 replicas follow without the primary waiting for them", "AFTER_SYNC")
			if dbserver.Dialect(primary.Kind()) == dbserver.MySQL {
				// MariaDB tells everybody how many there are.
				s := open(t, userDSN(t, db, uniqueName("user"), "ALL ON @.*"))
				examined(t, s, 0).wants("replication", store.Unknown, "not known without the privilege PROCESS", "GRANT PROCESS")
			} else {
				// It has semi-synchronous replication built in. This replica does not confirm.
				exec(t, admin, "SET GLOBAL rpl_semi_sync_master_timeout = 1")
				exec(t, admin, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
				exec(t, admin, "CREATE TABLE `"+name+"`.t (n INT)")
				r := examined(t, s, 0)
				r.wants("replication", store.Warning, "is on but does not wait now", "rpl_semi_sync_master_timeout")
				r.wants("replication", store.Warning, "waits AFTER_COMMIT", "AFTER_SYNC")
			}
			exec(t, copied, "SET GLOBAL read_only = OFF")
			examined(t, open(t, replica.DSN(name)), 0).wants("replication", store.Warning, "takes writes and follows 127.0.0.1", "make sure that this is the primary")
		})
	}
}

// What the servers of the tests cannot be made to show: they are on this machine.
func TestExamineLink(t *testing.T) {
	t.Parallel()
	r := checkup{t, mysqlstore.ExamineLink(15*time.Second, 2*time.Second, time.Millisecond, "app@10.1.2.3", "")}
	r.wants("connection", store.Warning, "the connection from 10.1.2.3 is not encrypted", "tls=true")
	r.wants("connection", store.Warning, "a login takes 2s", "skip_name_resolve")
	for _, user := range []string{"app@localhost", "app@127.0.0.1", "app@::1"} {
		if found := mysqlstore.ExamineLink(15*time.Second, time.Millisecond, time.Millisecond, user, ""); len(found) > 0 {
			t.Errorf("%v", found)
		}
	}
	if found := mysqlstore.ExamineLink(15*time.Second, time.Millisecond, time.Millisecond, "app@10.1.2.3", "TLS_AES_128_GCM_SHA256"); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// A node of a cluster, a proxy that spreads connections over the nodes, and a node that has
// lost the others.
func TestExamineGalera(t *testing.T) {
	t.Parallel()
	cluster := dbtest.Galera(t, 2*time.Second)
	nodes := cluster.Nodes()
	exec(t, dbtest.Database{Kind: dbserver.MariaDB, DSN: nodes[0].DSN("")}.Open(t), "CREATE DATABASE app")
	db := dbtest.Database{Kind: dbserver.MariaDB, DSN: nodes[0].DSN("app")}
	r := examined(t, migrated(t, db.DSN), 0)
	r.wants("replication", store.Good, "nodes: 3", "")
	r.wants("locks", store.Good, "not relied on", "")
	examined(t, anyNode(cluster).open(t, db), 0).wants("proxy", store.Warning, "connections reach different nodes", "one node")
	for _, node := range nodes[1:] {
		if err := node.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	admin := db.Open(t)
	eventually(t, "the node has lost the others", func() bool {
		var name, state string
		err := admin.QueryRowContext(soon(t), "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_status'").Scan(&name, &state)
		return err == nil && state != "Primary"
	})
	examined(t, open(t, db.DSN), 0).wants("replication", store.Problem, "the node is no part of the cluster's majority", "the node's log")
}
