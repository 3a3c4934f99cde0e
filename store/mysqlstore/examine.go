package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

const (
	// examineLimit is what one thing of an examination may take.
	examineLimit = 15 * time.Second
	// defaultTTL is that of leases whose TTL nobody has chosen.
	defaultTTL = 15 * time.Second
)

// examination is one call of [Store.Examine]. Its checks say what is wrong; one that
// finds nothing says what is right.
type examination struct {
	*Store
	ttl      time.Duration
	sizes    sizes
	c        *conn // nil while there is none
	lost     bool  // and could not be made again
	login    time.Duration
	settings map[string]string // variables of the server and the session, by lower-case name
	status   map[string]string // of the server, by lower-case name
	grants   string            // of the account, in upper case

	check string
	found []store.Finding
}

// Examine implements [store.Examiner]. It needs no privileges beyond those of the other
// methods; with PROCESS and REPLICATION CLIENT (MariaDB: REPLICA MONITOR) it knows more
// about replication. It opens up to four connections at a time.
func (s *Store) Examine(ctx context.Context, ttl time.Duration) []store.Finding {
	e := &examination{Store: s, ttl: cmp.Or(ttl, defaultTTL), sizes: usualSizes}
	ctx, cancel := s.conns.Bind(ctx)
	defer cancel()
	defer e.leave()
	steps := []struct {
		check string
		look  func(context.Context) (good string, err error)
	}{
		{"connection", e.connection},
		{"hosts", e.hosts},
		{"server", e.server},
		{"proxy", e.proxy},
		{"tables", e.tablesThere},
		{"locked", e.locked},
		{"grants", e.accountGrants},
		{"locks", e.locks},
		{"settings", e.limits},
		{"durability", e.durability},
		{"replication", e.replication},
		{"connections", e.connections},
		{commitsCheck, e.commits}, // stalled may have said it already
		{"indexes", e.indexes},
		{"growth", e.growth},
	}
	for i, step := range steps {
		e.check = step.check
		if ctx.Err() != nil {
			e.say(store.Unknown, "not looked at: "+context.Cause(ctx).Error(), "")
			continue
		}
		if i > 0 && !e.connected(ctx) {
			e.say(store.Unknown, "not looked at: there is no connection", "")
			continue
		}
		before := len(e.found)
		limited, done := context.WithTimeoutCause(ctx, examineLimit, fmt.Errorf("no answer within %v", examineLimit))
		good, err := step.look(limited)
		if err != nil && limited.Err() != nil {
			err = context.Cause(limited)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			e.say(store.Unknown, "not looked at: "+context.Cause(ctx).Error(), "")
		case err != nil && i > 0 && limited.Err() != nil && e.connected(ctx):
			e.afterHang(ctx, err)
		case err != nil:
			e.fail(err)
		}
		done()
		if len(e.found) == before && good != "" {
			e.say(store.Good, good, "")
		}
	}
	return e.found
}

func (e *examination) say(grade store.Grade, text, cure string) {
	e.found = append(e.found, store.Finding{Check: e.check, Grade: grade, Text: oneLine(text), Cure: oneLine(cure)})
}

func (e *examination) warn(cure, format string, args ...any) {
	e.say(store.Warning, fmt.Sprintf(format, args...), cure)
}

func (e *examination) problem(cure, format string, args ...any) {
	e.say(store.Problem, fmt.Sprintf(format, args...), cure)
}

// fail is the finding that an error is. Those that say that the database is unfit name
// the cure in their last part; others only keep the check from being made.
func (e *examination) fail(err error) {
	for _, said := range saidOnce {
		if e.check != said.by && slices.Contains(said.numbers, mysqlerr.Number(err)) && e.hasProblem(said.by) {
			e.say(store.Unknown, "not looked at: "+said.text, "")
			return
		}
	}
	err = e.conns.Explain(err)
	if !errors.Is(err, lease.ErrSetup) {
		e.say(store.Unknown, "could not be looked at: "+err.Error(), "")
		return
	}
	text := err.Error()
	for _, kind := range []error{lease.ErrDenied, lease.ErrNotReady, lease.ErrSetup} {
		if _, after, ok := strings.Cut(text, kind.Error()+": "); ok {
			text = after
			break
		}
	}
	cure := ""
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text, cure = text[:i], text[i+2:]
	}
	e.say(store.Problem, text, cure)
}

// saidOnce are errors that have one cause, which one check names with its cure: others that fail with them were
// not made.
var saidOnce = []struct {
	by, text string
	numbers  []uint16
}{
	{"server", "the server takes no writes", []uint16{mysqlerr.OptionPrevents, mysqlerr.ReadOnlyTransaction, mysqlerr.ReadOnlyMode}},
	{"tables", "the tables are not as they have to be", []uint16{mysqlerr.NoSuchTable, mysqlerr.UnknownColumn, mysqlerr.NoSuchKey}},
	{commitsCheck, "commits hang", []uint16{mysqlerr.LockWaitTimeout}},
	{"locked", "a lock is in the way", []uint16{mysqlerr.LockWaitTimeout}},
}

func (e *examination) hasProblem(check string) bool {
	return slices.ContainsFunc(e.found, func(f store.Finding) bool { return f.Check == check && f.Grade == store.Problem })
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// connected reports whether there is a connection, which it makes if the last one broke.
func (e *examination) connected(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	if e.c != nil && e.c.Alive(limited) {
		return true
	}
	e.leave()
	if e.lost || len(e.found) > 0 && e.found[0].Grade == store.Problem && e.settings == nil {
		return false // there was none from the beginning, or there is none any more
	}
	began := time.Now()
	c, err := e.conns.Open(limited, time.Second)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", short(time.Since(began)))
		}
		check := e.check
		e.lost, e.check = true, "connection"
		e.problem("look at the server and its log, and the network between", "it was lost, and could not be made again: %v", err)
		e.check = check
		return false
	}
	e.c = c
	return true
}

func (e *examination) leave() {
	if e.c != nil {
		e.c.Discard()
		e.c = nil
	}
}

// connection finds out whether the server answers, how fast, and over what.
func (e *examination) connection(ctx context.Context) (string, error) {
	if err := e.conns.CheckSize(); err != nil {
		return "", err
	}
	began := time.Now()
	c, err := e.conns.Open(ctx, time.Second)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", short(time.Since(began)))
		}
		if err = e.conns.Explain(err); !errors.Is(err, lease.ErrSetup) {
			cure := "look at the server and its log, the address, and the network between"
			switch mysqlerr.Number(err) {
			case mysqlerr.TooManyConnections, mysqlerr.TooManyOfUser, mysqlerr.ResourceLimit:
				cure = "find the program that has so many (SHOW PROCESSLIST: an administrator still gets in), or raise max_connections or the account's limit; workers keep those that they have"
			}
			e.problem(cure, "%v", err)
			return "", nil
		}
		return "", err
	}
	e.c, e.login = c, time.Since(began)
	if e.settings, err = e.pairs(ctx, "SHOW VARIABLES"); err != nil {
		return "", err
	}
	if e.status, err = e.pairs(ctx, "SHOW GLOBAL STATUS"); err != nil {
		return "", err
	}
	trip := time.Duration(1 << 62)
	for range 5 {
		began := time.Now()
		if _, err := c.Count(ctx, "SELECT 1"); err != nil {
			return "", err
		}
		trip = min(trip, time.Since(began))
	}
	var user, cipher string
	if err := c.QueryRow(ctx, "SELECT USER()").Scan(&user); err != nil {
		return "", err
	}
	session, err := e.pairs(ctx, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
	if err != nil {
		return "", err
	}
	cipher = session["ssl_cipher"]
	e.judgeLink(trip, user, cipher)
	return fmt.Sprintf("%s, login %v, round trip %v, %s", e.conns, short(e.login), short(trip), cmp.Or(cipher, "without TLS on this machine")), nil
}

// judgeLink judges how statements get to the server. The user is as the server sees it,
// with the address of its machine.
func (e *examination) judgeLink(trip time.Duration, user, cipher string) {
	_, host, _ := strings.Cut(user, "@")
	if cipher == "" && host != "localhost" && host != "127.0.0.1" && host != "::1" && host != "" {
		e.warn("add ?tls=true or ?ca=FILE to the database's URL (docs/database.md, The connection)",
			"the connection from %s is not encrypted: the network can read and change statements", host)
	}
	if most := e.ttl / 100; trip > most {
		e.warn("move the workers closer to the server, or give leases a longer TTL",
			"a round trip takes %v, more than a hundredth of the TTL (%v)", short(trip), e.ttl)
	}
	attempt := e.ttl / 5 // the default
	if e.login > attempt {
		e.problem("move the workers closer to the server, or give leases a longer TTL (docs/timing.md)",
			"a login takes %v, and an attempt at a statement has %v with a TTL of %v: a worker that needs a new connection gets it after some attempts, and until then a leader may renew its lease and claim nothing",
			short(e.login), short(attempt), e.ttl)
	} else if e.login > max(time.Second, 10*trip) {
		e.warn("skip_name_resolve = ON on the server, if its DNS is what takes so long",
			"a login takes %v: after a lost connection a heartbeat may come too late", short(e.login))
	}
}

// hosts asks each server of the list.
func (e *examination) hosts(ctx context.Context) (string, error) {
	list := e.conns.Hosts(ctx)
	if list == nil {
		return "", nil
	}
	return e.judgeHosts(list), nil
}

func (e *examination) judgeHosts(list []mysqlconn.Host) string {
	writers, names := []string{}, map[string]string{}
	var parts []string
	for _, h := range list {
		if other := names[h.Server]; h.Server != "" && other != "" {
			e.warn("name each server once", "%s and %s are the same server", other, h.Addr)
			continue
		}
		names[h.Server] = h.Addr
		switch {
		case h.Err == nil:
			writers = append(writers, h.Addr)
			parts = append(parts, h.Addr+" takes writes")
		case h.ReadOnly():
			parts = append(parts, h.Addr+" is read-only")
		case h.NotReady():
			e.warn("look in its log for why it has left the cluster: it comes back by itself once it reaches the others", "%s cannot be used: %v", h.Addr, h.Err)
		default:
			e.warn("start it, or let this machine reach it: without it a failover has nowhere to go", "%s cannot be used: %v", h.Addr, h.Err)
		}
	}
	if len(writers) > 1 && !e.c.Server.ManyWriters() {
		e.problem("SET GLOBAL read_only = ON on all but the primary, and in their configuration files", "%s take writes at the same time: workers that start may lead on different servers", strings.Join(writers, " and "))
	}
	return strings.Join(parts, ", ")
}

// server finds out whether the server is one that can keep the guarantees.
func (e *examination) server(ctx context.Context) (string, error) {
	if err := e.conns.CheckServer(ctx, e.c); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %s", e.c.Server.Version(), e.c.Server.Identity), nil
}

// proxy finds out whether all statements and connections reach the same server. That a
// connection keeps its session was found out when it was opened.
func (e *examination) proxy(ctx context.Context) (string, error) {
	var plain, locking string
	if err := e.c.QueryRow(ctx, e.schema.sql.where.Render()).Scan(&plain); err != nil {
		return "", err
	}
	err := e.c.QueryRow(ctx, e.schema.sql.whereLocked.Render()).Scan(&locking)
	if err == nil && plain != locking {
		e.problem("connect to the primary itself, or switch off the routing of reads (docs/managed-databases.md, Proxies)",
			"plain reads go to %s, locking ones to %s: a proxy splits reads from writes", plain, locking)
	}
	const more = 3
	for range more {
		c, err := e.conns.Open(ctx, time.Second)
		if err != nil {
			return "", err
		}
		other := c.Server.Identity
		c.Discard()
		if other == e.c.Server.Identity {
			continue
		}
		if e.c.Server.ManyWriters() {
			e.warn("point all workers of a service at one node (docs/database.md, Clusters with several writers)",
				"connections reach different nodes: %s and %s", e.c.Server.Identity, other)
		} else {
			e.problem("use the address of the one server that takes writes", "connections reach different servers: %s and %s", e.c.Server.Identity, other)
		}
		return "", nil
	}
	return fmt.Sprintf("%d connections: one server, each has a session of its own", more+1), nil
}

// tablesThere finds out whether the tables are complete and of the version that this program
// needs.
func (e *examination) tablesThere(ctx context.Context) (string, error) {
	if err := e.checkVersion(ctx, e.c); err != nil {
		return "", err
	}
	gaps, err := e.gaps(ctx, e.c)
	switch {
	case err != nil:
		return "", err
	case len(gaps) > 0:
		return "", gapsError(gaps)
	}
	if err := e.textNames(ctx); err != nil {
		return "", err
	}
	_, level, err := e.versions(ctx, e.c)
	return fmt.Sprintf("%s*, level %d, complete", e.schema.tables.prefix, level), err
}

// locked finds tables that another session keeps from being written, and rows of leases that are not renewed because
// another transaction has locked them.
func (e *examination) locked(ctx context.Context) (string, error) {
	const cure = "find the session and end it (KILL ID), unless its State is a commit, or waits for a semi-sync ACK or for free space: SHOW FULL PROCESSLIST for LOCK TABLES, ALTER TABLE and backups, SELECT trx_mysql_thread_id, trx_started FROM information_schema.innodb_trx ORDER BY trx_started for transactions"
	if e.stalled(ctx) {
		e.say(store.Unknown, "not looked at: commits hang", "")
		return "", nil
	}
	var tables []string
	for _, name := range slices.Sorted(maps.Keys(e.schema.sql.lockable)) {
		switch err := e.c.Exec(ctx, e.schema.sql.lockable[name].Render()); {
		case mysqlerr.Number(err) == mysqlerr.LockWaitTimeout:
			tables = append(tables, e.schema.tables.prefix+name)
		case err != nil:
			return "", err
		}
	}
	if len(tables) > 0 {
		e.problem(cure, "another session keeps these tables from being written: %s", strings.Join(tables, ", "))
		return "", nil
	}
	late, err := e.lateLeases(ctx)
	if err != nil {
		return "", err
	}
	for _, group := range late {
		for _, query := range e.schema.sql.lateRows {
			switch _, err := e.c.Count(ctx, query.Render(group)); {
			case mysqlerr.Number(err) == mysqlerr.LockWaitTimeout:
				e.problem(cure, "another transaction has locked the row of the lease %q, or of its fence: it is not renewed, and no worker can take it", group)
				return "", nil
			case err != nil:
				return "", err
			}
		}
	}
	return "no session keeps the tables, or leases that are late, from being written", nil
}

// lateLeases are some of those that have not been renewed for most of a TTL.
func (e *examination) lateLeases(ctx context.Context) ([]string, error) {
	rows, err := e.c.Query(ctx, e.schema.sql.lateLeases.Render((e.ttl * 2 / 3).Microseconds()))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// textNames finds names that a tool has converted from bytes to text.
func (e *examination) textNames(ctx context.Context) error {
	var columns sql.NullString
	var all sqltext.List
	for name := range shapes {
		all = append(all, e.schema.tables.prefix+name)
	}
	if err := e.c.QueryRow(ctx, e.schema.sql.textNames.Render(all)).Scan(&columns); err != nil {
		return err
	}
	if columns.String != "" {
		e.problem("ALTER TABLE ... MODIFY each to VARBINARY(128) NOT NULL, with the workers stopped",
			"columns are text and not bytes: %s: the server takes names for the same that differ in case or accents", columns.String)
	}
	return nil
}

// accountGrants finds out whether the account may do what is needed, and not what is
// harmful.
func (e *examination) accountGrants(ctx context.Context) (string, error) {
	if err := e.readGrants(ctx); err != nil {
		return "", err
	}
	if err := e.checkGrants(ctx, e.c); err != nil {
		return "", err
	}
	if p := e.hasGlobal("ALL PRIVILEGES", "SUPER", "CONNECTION_ADMIN", "READ_ONLY ADMIN"); p != "" {
		e.warn("use an account with the grants of docs/database.md and no others",
			"the account has %s: it can write on a server that was made read-only, as after a failover", p)
	}
	return "the account has what workers need", nil
}

func (e *examination) readGrants(ctx context.Context) error {
	rows, err := e.c.Query(ctx, "SHOW GRANTS FOR CURRENT_USER()")
	if err != nil {
		return err
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		var grant string
		if err := rows.Scan(&grant); err != nil {
			return err
		}
		all.WriteString(strings.ToUpper(grant) + "\n")
	}
	e.grants = all.String()
	return rows.Err()
}

// hasGlobal returns the first of the privileges that the account has on everything, and
// not only by a role; empty: none.
func (e *examination) hasGlobal(privileges ...string) string {
	for grant := range strings.Lines(e.grants) {
		list, on, ok := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON *.* ")
		if !ok || on == "" {
			continue
		}
		for one := range strings.SplitSeq(list, ",") {
			for _, p := range privileges {
				if strings.TrimSpace(one) == p {
					return p
				}
			}
		}
	}
	return ""
}

// locks finds out whether a shared lock makes a writer wait.
func (e *examination) locks(ctx context.Context) (string, error) {
	if err := e.proveLocks(ctx, e.c); err != nil {
		return "", err
	}
	if e.c.Server.ManyWriters() {
		return "not relied on: others take writes too, and claims write the fence row", nil
	}
	return "a shared lock makes a writer wait", nil
}

// pairs reads the answer to a SHOW statement of names and values.
func (e *examination) pairs(ctx context.Context, statement string) (map[string]string, error) {
	rows, err := e.c.Query(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		all[strings.ToLower(name)] = value
	}
	return all, rows.Err()
}

// setting returns the first of the variables that the server has: MySQL and MariaDB give
// some of them different names.
func (e *examination) setting(names ...string) string {
	for _, name := range names {
		if value, ok := e.settings[name]; ok {
			return value
		}
	}
	return ""
}

// short rounds a duration for people.
func short(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	default:
		return d.Round(10 * time.Microsecond)
	}
}
