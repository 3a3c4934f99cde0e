package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/examining"
)

// What follows are the checks of an examination that judge the server's settings, load and
// topology.

// limits finds settings that keep statements from being made.
func (e *examination) limits(context.Context) (string, error) {
	packet, _ := strconv.Atoi(e.setting("max_allowed_packet"))
	switch {
	case packet < 1<<20:
		e.problem("SET GLOBAL max_allowed_packet = 16777216, and in the server's configuration file",
			"max_allowed_packet is %d bytes: statements about many jobs fail", packet)
	case packet < 16<<20:
		e.warn("SET GLOBAL max_allowed_packet = 16777216, and in the server's configuration file",
			"max_allowed_packet is %d MiB, less than usual: runs with large arguments may fail", packet>>20)
	}
	return fmt.Sprintf("max_allowed_packet %d MiB", packet>>20), nil
}

// durability finds settings with which commits may be lost although the server answered.
func (e *examination) durability(context.Context) (string, error) {
	const cost = "a crash of its machine loses commits of the last second: claims, and so ticks that run twice"
	flush := e.setting("innodb_flush_log_at_trx_commit")
	if flush != "1" && (flush != "3" || !e.c.Server.IsMariaDB()) {
		e.warn("SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration file",
			"innodb_flush_log_at_trx_commit is %s: %s", flush, cost)
	}
	if n := e.setting("sync_binlog"); e.setting("log_bin") == "ON" && n != "1" {
		e.warn("SET GLOBAL sync_binlog = 1, and in the server's configuration file",
			"sync_binlog is %s: after a crash of its machine replicas may lack commits that it has, or have others", n)
	}
	if method := e.setting("innodb_flush_method"); slices.Contains([]string{"nosync", "O_DIRECT_NO_FSYNC", "littlesync"}, method) {
		e.warn("use fsync or O_DIRECT", "innodb_flush_method is %s: nothing waits for the disk, and %s", method, cost)
	}
	if mode := e.setting("innodb_doublewrite"); mode == "OFF" || mode == "DETECT_ONLY" {
		e.warn("innodb_doublewrite = ON in the server's configuration file, unless its file system writes pages whole (ZFS)",
			"innodb_doublewrite is %s: after a crash of its machine pages may be torn", mode)
	}
	return "commits are on the disk before they are answered", nil
}

// replication finds topologies in which commits that were answered may be lost, or which
// are broken.
func (e *examination) replication(ctx context.Context) (string, error) {
	if e.c.Server.IsGalera() {
		return e.galera(), nil
	}
	if e.setting("group_replication_group_name") != "" {
		return e.groupReplication(ctx), nil
	}
	follows, err := e.follows(ctx)
	if err != nil {
		return "", err
	}
	if follows != "" {
		e.warn("make sure that this is the primary; STOP REPLICA and RESET REPLICA ALL if it is",
			"the server takes writes and follows %s at the same time: the other one may be the primary", follows)
	}
	if e.setting("log_bin") != "ON" {
		return "no binary log, so no replicas: the data is on this server alone", nil
	}
	replicas, known := e.followers(ctx)
	if e.setting("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled") == "ON" {
		e.judgeSemiSync()
		return "semi-synchronous, AFTER_SYNC: a promotion loses no commit", nil
	}
	switch {
	case replicas > 0:
		e.warn("switch on semi-synchronous replication with AFTER_SYNC, or accept it (docs/database.md, Topologies)",
			"%d replicas follow without the primary waiting for them: a promotion can lose the last commits, and with them claims", replicas)
	case !known:
		e.say(store.Unknown, "not semi-synchronous; whether replicas follow is not known without the privilege PROCESS", "GRANT PROCESS ON *.* to the account that worker doctor uses, or look yourself (docs/database.md, Topologies)")
	}
	return "no replica follows: the data is on this server alone", nil
}

func (e *examination) galera() string {
	if state := e.status["wsrep_cluster_status"]; state != "Primary" || e.status["wsrep_ready"] != "ON" {
		e.problem("look at the node's log, and at its connections to the others", "the node is no part of the cluster's majority (wsrep_cluster_status %s, wsrep_ready %s)", state, e.status["wsrep_ready"])
	}
	if e.status["wsrep_cluster_size"] == "2" {
		e.warn("start the third node, or add one, or an arbitrator (garbd)", "the cluster has two nodes: when one fails, the other one stops too")
	}
	return fmt.Sprintf("a node of Galera, nodes: %s", e.status["wsrep_cluster_size"])
}

func (e *examination) groupReplication(ctx context.Context) string {
	members, known := e.members(ctx)
	switch {
	case !known:
		e.say(store.Unknown, "a member of a replication group; the others are not known", "GRANT SELECT ON performance_schema.* to the account that worker doctor uses")
	case members == 2:
		e.warn("add a third member", "the replication group has two members: when one fails, the other one stops too")
	}
	if e.setting("group_replication_unreachable_majority_timeout") == "0" {
		e.warn("SET PERSIST group_replication_unreachable_majority_timeout = 10 on each member",
			"a primary that is cut off from the majority of its replication group stays one: its commits hang, and workers that reach it do not go to the new primary")
	}
	return fmt.Sprintf("a member of a replication group, members: %d", members)
}

// members counts those of the replication group, if that can be known.
func (e *examination) members(ctx context.Context) (n int, known bool) {
	n, err := e.c.Count(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'")
	return n, err == nil
}

// judgeSemiSync judges semi-synchronous replication that is on.
func (e *examination) judgeSemiSync() {
	status := func(of string) string {
		if value, ok := e.status["rpl_semi_sync_source_"+of]; ok {
			return value
		}
		return e.status["rpl_semi_sync_master_"+of]
	}
	if status("status") != "ON" {
		e.warn("start a replica with semi-synchronous replication, or raise rpl_semi_sync_source_timeout (MariaDB: rpl_semi_sync_master_timeout)",
			"semi-synchronous replication is on but does not wait now (replicas that confirm: %s): a promotion can lose the last commits", status("clients"))
	}
	if point := e.setting("rpl_semi_sync_source_wait_point", "rpl_semi_sync_master_wait_point"); point != "AFTER_SYNC" {
		e.warn("SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC (MariaDB: rpl_semi_sync_master_wait_point)",
			"semi-synchronous replication waits %s: others see commits that a promotion can lose", point)
	}
}

// followers counts the replicas of the server, if that can be known.
func (e *examination) followers(ctx context.Context) (n int, known bool) {
	if n, err := strconv.Atoi(e.status["slaves_connected"]); err == nil {
		return n, true
	}
	if e.hasGlobal("PROCESS", "ALL PRIVILEGES") == "" {
		return 0, false
	}
	n, err := e.c.Count(ctx, "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_command LIKE 'Binlog Dump%'")
	if err != nil { // that schema has grants of its own
		n, err = e.c.Count(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
	}
	return n, err == nil
}

// follows names the server that this one follows; empty for none, or where that cannot
// be known.
func (e *examination) follows(ctx context.Context) (string, error) {
	statement, may := "SHOW REPLICA STATUS", e.hasGlobal("ALL PRIVILEGES", "SUPER", "REPLICATION CLIENT")
	if e.c.Server.IsMariaDB() {
		statement, may = "SHOW ALL SLAVES STATUS", e.hasGlobal("ALL PRIVILEGES", "SUPER", "REPLICA MONITOR", "SLAVE MONITOR")
	}
	if may == "" {
		return "", nil
	}
	rows, err := e.c.Query(ctx, statement)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	host := ""
	for rows.Next() {
		values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		row := map[string]string{}
		for i, name := range columns {
			row[name] = string(values[i])
		}
		running := row["Replica_IO_Running"] + row["Slave_IO_Running"] + row["Replica_SQL_Running"] + row["Slave_SQL_Running"]
		if name := row["Source_Host"] + row["Master_Host"]; running != "NoNo" && running != "" {
			host = name
		}
	}
	return host, rows.Err()
}

// connectionsOf is how many connections workers of some groups may have at a time, beside those
// for locks and pages: docs/database.md says why.
// Those of groups that are spread work as leaders do.
func connectionsOf(workers, groups, spread, poolSize int) int {
	const leader = 12
	follower := 5
	if groups > 1 {
		follower = 9
	}
	lead := min(workers, max(2*groups, spread)) // or have led a minute ago
	return follower*workers + lead*(leader-follower+poolSize)
}

// connections finds out whether the server allows as many connections as the workers
// may need.
func (e *examination) connections(ctx context.Context) (string, error) {
	workers, groups, spread, err := e.crowd(ctx)
	if err != nil {
		return "", err
	}
	size := e.DB().Stats().MaxOpenConnections
	need := connectionsOf(workers, groups, spread, size)
	server, _ := strconv.Atoi(e.setting("max_connections"))
	account, _ := strconv.Atoi(e.setting("max_user_connections"))
	used, _ := strconv.Atoi(e.status["threads_connected"])
	most, name := server, "max_connections"
	if account > 0 && account < server {
		most, name = account, "max_user_connections"
	}
	if need > most {
		e.warn(fmt.Sprintf("raise %s to %d and what other programs need, or lower pool_size (docs/database.md, Connections)", name, need),
			"%s is %d; %d workers of %d groups may need %d (pool_size %d)", name, most, workers, groups, need, size)
	}
	if free := server - used; free < max(server/10, 5) {
		e.warn("raise max_connections, or find the program that has so many", "%d of the server's %d connections are taken", used, server)
	}
	return fmt.Sprintf("%d of %d taken, at most %s; %d workers may need %d", used, server, e.status["max_used_connections"], workers, need), nil
}

// crowd counts the processes that take part in groups, and these groups: one of each at the least. spread is how many of the processes
// take part in groups that are spread.
func (e *examination) crowd(ctx context.Context) (workers, groups, spread int, err error) {
	held, err := e.groupsInUse(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	processes := map[string]bool{} // true: of a group that is spread
	for group, isHeld := range held {
		roster, err := e.roster(ctx, e.c, group)
		if err != nil {
			return 0, 0, 0, err
		}
		if err := e.see(ctx, e.c, group, &roster); err != nil {
			return 0, 0, 0, err
		}
		var opened string
		if err := e.c.QueryRow(ctx, e.schema.sql.opened.Render(group)).Scan(&opened); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, 0, 0, err
		}
		isSpread := ledgerrows.ParseOpened(opened, time.Time{}).Spread
		add := func(owner string) {
			process := processOf(owner)
			processes[process] = processes[process] || isSpread
		}
		if isHeld && roster.Leader != "" { // also by a release that does not tell of itself
			add(roster.Leader)
		} else {
			roster = roster.Expired()
		}
		for _, r := range roster.Live() {
			add(r.Owner)
		}
	}
	for _, is := range processes {
		if is {
			spread++
		}
	}
	return max(len(processes), 1), max(len(held), 1), spread, nil
}

// processOf is the part of an owner's name that a process has in all groups.
func processOf(owner string) string {
	if end := strings.LastIndexByte(owner, '/'); end >= 0 {
		return owner[:end]
	}
	return owner
}

// groupsInUse are those with replicas that told of themselves lately, and whether each is led.
func (e *examination) groupsInUse(ctx context.Context) (held map[string]bool, err error) {
	rows, err := e.c.Query(ctx, e.schema.sql.inUse.Render(jobs.ReplicaLife.Microseconds()))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	held = map[string]bool{}
	for rows.Next() {
		var group string
		var isHeld sqlscan.Bool
		if err := rows.Scan(&group, &isHeld); err != nil {
			return nil, err
		}
		held[group] = held[group] || bool(isHeld)
	}
	return held, rows.Err()
}

// commitsCheck is about commits that take long, or hang.
const commitsCheck = "commits"

// stalled finds a commit or a write that waits for a replica or for room on the disk: what else
// has to wait then, waits for that. It is said of commits, once, whichever check asks.
func (e *examination) stalled(ctx context.Context) bool {
	if e.hasProblem(commitsCheck) {
		return true
	}
	stall := e.c.Stall(ctx)
	if stall == nil {
		return false
	}
	check := e.check
	e.check = commitsCheck
	e.problem(stall.Cure(), "%v", stall)
	e.check = check
	return true
}

// afterHang is the finding that a statement without an answer is.
func (e *examination) afterHang(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	switch hangs := e.stalled(ctx); {
	case hangs && e.check == commitsCheck:
	case hangs:
		e.say(store.Unknown, "not looked at: commits hang", "")
	case e.check == commitsCheck:
		e.problem("look at the server's log and disk, and at SHOW FULL PROCESSLIST for what commits wait for", "a commit gets no answer: %v", err)
	default:
		e.fail(err)
	}
}

// commits measures how long a commit takes.
func (e *examination) commits(ctx context.Context) (string, error) {
	if e.hasProblem(commitsCheck) {
		return "", nil // another one would hang too
	}
	const group, owner = "", "worker doctor" // a group that cannot be
	write := e.replicas.sql
	if err := e.c.Exec(ctx, write.enlist.Render(group, owner, 0, 1, uint64(0), "", "")); err != nil {
		return "", err
	}
	took, err := examining.Measure(func() error { return e.c.Exec(ctx, write.refresh.Render(group, owner)) })
	if err != nil {
		return "", err
	}
	if err := e.c.Exec(ctx, write.strike.Render(group, owner, 0)); err != nil {
		return "", err
	}
	return e.judgeCommits(took), nil
}

// judgeCommits compares them with what a heartbeat may take.
func (e *examination) judgeCommits(took examining.Times) string {
	text := fmt.Sprintf("median %v, slowest %v of %d", short(took.Median), short(took.Slowest), took.N)
	const cure = "look at the server's disk and load, binlog_group_commit_sync_delay (MariaDB: binlog_commit_wait_usec), semi-synchronous replicas; MySQL: innodb_log_writer_threads = ON; or give leases a longer TTL"
	switch grade, heartbeat := took.Grade(e.ttl); grade {
	case store.Problem:
		e.problem(cure, "commits take longer than a heartbeat may (%v): %s", heartbeat, text)
	case store.Warning:
		e.warn(cure, "commits are slow beside what a heartbeat may take (%v): %s", heartbeat, text)
	}
	return text
}
