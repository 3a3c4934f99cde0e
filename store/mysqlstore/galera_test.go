package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/storetest"
)

// galera is a database of a cluster, by way of two of its nodes.
type galera struct {
	dbs   [2]dbtest.Database
	pools [2]*sql.DB
	// The stores of a replica that falls behind on the first node, and of one on
	// the second.
	old, next *mysqlstore.Store
}

// While one node is behind, the others are held up: these go one after the other, on
// one cluster.
func TestGaleraOneBehind(t *testing.T) {
	t.Parallel()
	nodes := dbtest.Galera(t, 20*time.Second).Nodes()
	for _, one := range []struct {
		name string
		test func(*testing.T, *galera)
	}{
		{"refuses what was overtaken", refusesWhatWasOvertaken},
		{"readings wait", readingsWait},
		{"takeover from one who stands still", takeoverFromOneWhoStandsStill},
		{"a node that left", func(t *testing.T, g *galera) { leavesWhoLeft(t, g, nodes[2]) }},
	} {
		t.Run(one.name, func(t *testing.T) { one.test(t, newGalera(t, nodes)) })
	}
}

func newGalera(t *testing.T, nodes []*dbserver.Server) *galera {
	t.Helper()
	first := dbtest.FreshOn(t, dbserver.MariaDB, nodes[0].DSN(""))
	g := &galera{dbs: [2]dbtest.Database{first, {Kind: first.Kind, DSN: nodes[1].DSN(first.Config(t).DBName)}}}
	for i, db := range g.dbs {
		g.pools[i] = db.Open(t)
	}
	g.old = migrated(t, g.dbs[0].DSN)
	exec(t, g.pools[0], "CREATE TABLE slow (n INT PRIMARY KEY) ENGINE=InnoDB")
	exec(t, g.pools[0], "INSERT INTO slow VALUES (0)")
	// The second node applies all of that a little later.
	exec(t, g.pools[1], "SET STATEMENT wsrep_sync_wait = 7 FOR UPDATE slow SET n = n + 1")
	g.next = open(t, g.dbs[1].DSN)
	return g
}

// behind makes the first node apply what others write only later: from a lock of
// a table on, which the second writes to, until the function that it returns is
// called.
func (g *galera) behind(t *testing.T) (catchUp func()) {
	t.Helper()
	locked := conn(t, g.pools[0])
	exec(t, locked, "LOCK TABLES slow READ")
	exec(t, g.pools[1], "UPDATE slow SET n = n + 1")
	return func() { exec(t, locked, "UNLOCK TABLES") }
}

// sent is how many transactions the first node has sent to the others.
func (g *galera) sent(t *testing.T) int {
	t.Helper()
	var name string
	var n int
	if err := g.pools[0].QueryRowContext(soon(t), "SHOW GLOBAL STATUS LIKE 'wsrep_replicated'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// overtaken is a write on the first node, and one on the second that excludes it.
type overtaken struct {
	lock      string // holds up the statement below, on the first node; the group is its only value
	statement string
	write     func(context.Context) (done bool, err error)
	overtake  func() error
	replaced  error // what the write ends with, if it ends with an error
	traces    string
}

// overtakes returns such writes by the holder of a group that has claimed tick 1.
func (g *galera) overtakes(t *testing.T, group string, h store.Holder, open jobs.Record) map[string]overtaken {
	t.Helper()
	takeover := request(t, g.next, group, "next")
	takeOver := func() error {
		_, err := g.next.Acquire(soon(t), takeover)
		return err
	}
	leader := h
	leader.Assigns = true
	replica := holder(t, g.old, store.SessionGroup(group), "replica")
	replica.Group, replica.Session, replica.Assigns = group, replica.Group, true
	assigned := claim(t, g.old, leader, store.Claim{Key: key("b", 1), State: jobs.Waiting, For: store.Assignee{Owner: replica.Owner, Token: replica.Token}})[0]
	start := func(ctx context.Context) (bool, error) {
		done, err := g.old.Move(ctx, replica, []store.Move{to(assigned, jobs.Running)})
		return err == nil && done[0], err
	}
	session := request(t, g.next, replica.Session, "next")
	row := readLocks(t, g.old, group)
	lock := func(s *mysqlstore.Store, server, queue string) (bool, error) {
		done, err := s.WriteLocks(soon(t), server, []store.LockWrite{patient(replace(group, 1, queue))})
		return err == nil && done[0], err
	}
	return map[string]overtaken{
		"claim": {
			lock: "INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked)" +
				" SELECT grp, job, tick + 60000000, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked" +
				" FROM cronlease_run WHERE grp = ?",
			statement: "INSERT IGNORE INTO `cronlease_run`",
			write: func(ctx context.Context) (bool, error) {
				_, err := g.old.Claim(ctx, h, id(), running("a", 2))
				return true, err
			},
			overtake: takeOver, replaced: store.ErrReplaced,
			traces: "SELECT COUNT(*) - 1 FROM cronlease_run WHERE grp = ? AND job = 'a'",
		},
		"move": {
			lock:      "UPDATE cronlease_run SET missed = missed + 1 WHERE grp = ? AND job = 'a'",
			statement: "UPDATE (SELECT f.owner",
			write: func(ctx context.Context) (bool, error) {
				_, err := g.old.Move(ctx, h, []store.Move{to(open, jobs.Succeeded)})
				return true, err
			},
			overtake: takeOver, replaced: store.ErrReplaced,
			traces: "SELECT COUNT(*) FROM cronlease_run WHERE grp = ? AND state > 2",
		},
		"start-under-a-session": {
			lock:      "UPDATE cronlease_run SET missed = missed + 1 WHERE grp = ? AND job = 'b'",
			statement: "UPDATE (SELECT f.owner",
			write:     start,
			overtake: func() error {
				_, err := g.next.Acquire(soon(t), session)
				return err
			},
			replaced: store.ErrReplaced,
			traces:   "SELECT COUNT(*) FROM cronlease_run WHERE grp = ? AND state = 1 AND job = 'b'",
		},
		"start-of-what-is-taken-away": {
			lock:      "UPDATE cronlease_run SET missed = missed + 1 WHERE grp = ? AND job = 'b'",
			statement: "UPDATE (SELECT f.owner",
			write:     start,
			overtake: func() error {
				_, err := g.next.Move(soon(t), leader, []store.Move{to(assigned, jobs.Waiting)})
				return err
			},
			traces: "SELECT COUNT(*) FROM cronlease_run WHERE grp = ? AND job = 'b' AND (state = 1 OR owner > '')",
		},
		"declare": {
			lock: "INSERT INTO cronlease_job (grp, name, schedule, since, schedule_since, paused, changes)" +
				" VALUES (?, 'a', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 0, 0)",
			statement: "INSERT INTO `cronlease_job`",
			write: func(ctx context.Context) (bool, error) {
				return true, g.old.Declare(ctx, h, []store.Declared{{Name: "a", Schedule: "x"}})
			},
			overtake: takeOver, replaced: store.ErrReplaced,
			traces: "SELECT COUNT(*) FROM cronlease_job WHERE grp = ? AND name = 'a'",
		},
		"acquire": {
			lock:      "UPDATE cronlease_fence SET checks = checks + 1 WHERE name = ?",
			statement: "UPDATE `cronlease_fence`",
			write: func(ctx context.Context) (bool, error) {
				_, err := g.old.Acquire(ctx, request(t, g.old, group, "late"))
				return true, err
			},
			overtake: takeOver, replaced: store.ErrChanged,
			traces: "SELECT COUNT(*) FROM cronlease_lease WHERE name = ? AND owner <> 'next'",
		},
		"renew": {
			lock:      "UPDATE cronlease_lease SET ttl_us = ttl_us + 1 WHERE name = ?",
			statement: "UPDATE `cronlease_lease`",
			write: func(ctx context.Context) (bool, error) {
				n, err := g.old.Renew(ctx, store.Renew{Owner: h.Owner, Heartbeat: 2, Leases: []store.Renewal{{Group: group, Token: h.Token, Heartbeat: 1}}})
				return n > 0, err
			},
			overtake: takeOver,
			traces:   "SELECT COUNT(*) FROM cronlease_lease WHERE name = ? AND (owner <> 'next' OR heartbeat <> 1)",
		},
		"lock": {
			lock:      "UPDATE cronlease_lock SET queue = 'x' WHERE name = ?",
			statement: "UPDATE `cronlease_lock`",
			write:     func(context.Context) (bool, error) { return lock(g.old, row.Server, "old") },
			overtake: func() error {
				_, err := lock(g.next, readLocks(t, g.next, group).Server, "next")
				return err
			},
			traces: "SELECT COUNT(*) FROM cronlease_lock WHERE name = ? AND queue <> 'next'",
		},
	}
}

// A write on one node has made its comparisons. Then another node commits a change
// that makes them untrue, and that the first node has not applied yet. The write must
// fail, and leave no trace.
func refusesWhatWasOvertaken(t *testing.T, g *galera) {
	t.Helper()
	const rounds = 5
	for _, what := range []string{"claim", "move", "start-under-a-session", "start-of-what-is-taken-away", "declare", "acquire", "renew", "lock"} {
		traces := 0
		for round := range rounds {
			group := fmt.Sprintf("%s-%d", what, round)
			h := holder(t, g.old, group, "old")
			record := claim(t, g.old, h, running("a", 1)...)[0]
			writeLocks(t, g.old, replace(group, 0, "first"))
			traces += g.overtake(t, group, g.overtakes(t, group, h, record)[what])
		}
		if traces > 0 {
			t.Errorf("%s: %d of %d left a trace", what, traces, rounds)
		}
	}
}

// overtake returns how many traces the write has left.
func (g *galera) overtake(t *testing.T, group string, o overtaken) int {
	t.Helper()
	tx, err := g.pools[0].BeginTx(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, o.lock, group)
	result := make(chan error, 1)
	go func() {
		done, err := o.write(soon(t))
		if done && err == nil {
			err = errors.New("it says that it is done")
		}
		result <- err
	}()
	eventually(t, o.statement+" waits", waits(t, g.dbs[0], o.statement))

	catchUp := g.behind(t)
	if err := o.overtake(); err != nil {
		t.Fatal(err)
	}
	before := g.sent(t)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the write is sent to the other nodes", func() bool { return g.sent(t) > before })
	catchUp()
	if err := <-result; !errors.Is(err, o.replaced) {
		t.Errorf("%s: %v, want %v", group, err, o.replaced)
	}
	return count(t, g.pools[0], "SET STATEMENT wsrep_sync_wait = 1 FOR "+o.traces, group)
}

// A new holder sees everything that was written before its takeover, on any node.
func readingsWait(t *testing.T, g *galera) {
	t.Helper()
	for what, read := range map[string]struct {
		statement string
		do        func(h store.Holder) error
	}{
		"load": {"SELECT j.name IS NOT NULL", func(store.Holder) error {
			snapshot, err := g.old.Load(soon(t), "load")
			if err == nil && len(snapshot.Open) != 1 {
				err = fmt.Errorf("%d runs, want 1", len(snapshot.Open))
			}
			return err
		}},
		"read": {"SELECT 0, _binary''", func(store.Holder) error {
			readings, err := g.old.Read(soon(t), "read")
			if err == nil && (readings[0].Lease == nil || readings[0].Lease.Owner != "next") {
				err = fmt.Errorf("%+v, want the lease of next", readings[0].Lease)
			}
			return err
		}},
		// Its heartbeats are of another node than its lease.
		"renew": {"UPDATE `cronlease_lease`", func(h store.Holder) error {
			n, err := g.old.Renew(soon(t), store.Renew{Owner: h.Owner, Heartbeat: 2, Leases: []store.Renewal{{Group: "renew", Token: h.Token, Heartbeat: 1}}})
			if err == nil && n != 1 {
				err = fmt.Errorf("%d renewed, want 1", n)
			}
			return err
		}},
	} {
		if err := read.do(store.Holder{Owner: "next"}); err == nil {
			t.Fatalf("%s: there is something already", what) // and its connection is there
		}
		catchUp := g.behind(t)
		h := holder(t, g.next, what, "next")
		claim(t, g.next, h, running("a", 1)...)
		result := make(chan error, 1)
		go func() { result <- read.do(h) }()
		waiting := waits(t, g.dbs[0], read.statement)
		eventually(t, what+" waits", func() bool { return len(result) > 0 || waiting() })
		catchUp()
		if err := <-result; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func takeoverFromOneWhoStandsStill(t *testing.T, g *galera) {
	t.Helper()
	proxy := dbtest.NewProxy(t, g.dbs[0].Config(t).Addr)
	s := open(t, with(t, g.dbs[0], func(c *mysql.Config) { c.Addr = proxy.Addr() }))
	standStill(t, g.dbs[0], g.old, s, proxy)
}

// A node that has no majority answers, and is not read-only. It is neither taken from a list of hosts nor kept. It comes
// last, since the node does not come back.
func leavesWhoLeft(t *testing.T, g *galera, left *dbserver.Server) {
	t.Helper()
	name := g.dbs[0].Config(t).DBName
	list := with(t, dbtest.Database{Kind: g.dbs[0].Kind, DSN: left.DSN(name)}, func(c *mysql.Config) { c.Addr += "," + g.dbs[1].Config(t).Addr })
	s := open(t, list)
	token := take(t, s, "billing", "me")
	if n := renew(t, s, "billing", "me", token, 1, 1); n != 1 {
		t.Fatalf("%d leases renewed on the first node", n)
	}
	on := func(s *mysqlstore.Store) string {
		var port string
		if err := s.DB().QueryRowContext(soon(t), "SELECT @@port").Scan(&port); err != nil {
			t.Error(err)
		}
		return port
	}
	first := on(s)
	alone := dbtest.Database{Kind: g.dbs[0].Kind, DSN: left.DSN("")}.Open(t)
	exec(t, alone, "SET GLOBAL wsrep_cluster_address = 'gcomm://127.0.0.1:9?pc.wait_prim=no'")
	ready := func() (ready string) {
		var variable string
		if err := alone.QueryRowContext(soon(t), "SHOW STATUS LIKE 'wsrep_ready'").Scan(&variable, &ready); err != nil {
			t.Error(err)
		}
		return ready
	}
	eventually(t, "the node is alone", func() bool { return ready() == "OFF" })
	eventually(t, "the lease is renewed on another node", func() bool {
		n, err := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: 2, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: 1}}})
		return err == nil && n == 1
	})
	if on(s) == first {
		t.Error("the pool is still on the node that left")
	}
	if err := s.Check(soon(t)); err != nil {
		t.Error(err)
	}
	if on(open(t, list)) == first {
		t.Error("a new store takes the node that left")
	}
	_, err := open(t, left.DSN(name)).Read(soon(t), "billing")
	if err == nil || !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "wsrep_ready") {
		t.Errorf("the node by itself: %v", err)
	}
}

// The conformance suites pass on one node of a cluster. All but signals and locks also
// works when a store's connections are to different nodes.
func TestGaleraConformance(t *testing.T) {
	t.Parallel()
	cluster := dbtest.Galera(t, 20*time.Second)
	fresh := func(t testing.TB) dbtest.Database {
		t.Helper()
		db := dbtest.FreshOn(t, dbserver.MariaDB, cluster.Nodes()[0].DSN(""))
		// What the tests do by themselves is to see what was written elsewhere.
		db.DSN = with(t, db, func(c *mysql.Config) { c.Params = map[string]string{"wsrep_sync_wait": "7"} })
		return db
	}
	one, all := variants[0], anyNode(cluster)
	used := &emptied{fresh: fresh, parent: t}
	leaseOnAll := func(t *testing.T) {
		storetest.Leases(t, func(t testing.TB) storetest.Harness {
			h := leaseHarness(t, all, used.take)
			h.LockLease = nil // a lock on one node is broken by a write on another
			open := h.Open
			h.Open = func(t testing.TB) store.Leases { return deaf{open(t)} }
			return h
		})
	}
	ledgerOnAll := func(t *testing.T) {
		databases := &emptied{fresh: fresh, parent: t}
		storetest.Ledger(t, func(t testing.TB) storetest.Harness {
			empty := databases.take(t)
			return storetest.Harness{Open: func(t testing.TB) store.Leases {
				s := all.open(t, empty)
				return unsignalled{s, s} // no request wakes a holder on another node
			}, ManyServers: true, AnyServer: true}
		})
	}
	type suite struct {
		name string
		run  func(*testing.T)
	}
	for _, s := range rounds.Pick(t, []suite{
		{"lease", func(t *testing.T) { leaseConforms(t, one, used.take) }},
		{"ledger", func(t *testing.T) { ledgerConforms(t, one, fresh, true) }},
		{"locks", func(t *testing.T) { locksConform(t, one, fresh) }},
		{"lease on all nodes", leaseOnAll},
		{"ledger on all nodes", ledgerOnAll},
	}, 1) {
		t.Run(s.name, func(t *testing.T) { t.Parallel(); s.run(t) })
	}
}

// deaf is a store without signals.
type deaf struct{ store.Leases }

// unsignalled is a store without signals, whose heartbeats look at the ledger.
type unsignalled struct {
	store.Spreads
	store.Heartbeats
}

// anyNode is a store whose connections lead to the nodes in turn.
func anyNode(cluster *dbserver.Galera) variant {
	return variant{"any node", func(t testing.TB, db dbtest.Database) *mysqlstore.Store {
		t.Helper()
		var turn atomic.Uint64
		nodes := cluster.Nodes()
		config := db.Config(t)
		config.Params = nil // the store does what it needs
		config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, nodes[turn.Add(1)%uint64(len(nodes))].Addr())
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		pool := sql.OpenDB(connector)
		t.Cleanup(func() { _ = pool.Close() })
		return openOn(t, pool)
	}}
}
