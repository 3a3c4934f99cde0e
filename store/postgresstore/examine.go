package postgresstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/examining"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

var _ store.Examiner = (*Store)(nil)

// From these on something is worth a word.
const (
	longOpen    = time.Minute   // a transaction
	manyDead    = 10_000        // rows of a table
	manyRuns    = 5_000_000     // that are kept
	oldXIDs     = 1_000_000_000 // transactions since the oldest row that is not frozen
	oldestXIDs  = 2_000_000_000 // the server takes no writes from about 2^31 on
	fullPercent = 90            // of the connections
)

// Examine implements [store.Examiner]. It needs no rights beyond those of the other methods; with pg_monitor it knows more of
// replication and of the sessions of other users.
func (s *Store) Examine(ctx context.Context, ttl time.Duration) []store.Finding {
	return examining.Run(ctx, ttl, failedFinding,
		examining.Step{Check: "server", Look: s.examineServer}, examining.Step{Check: "settings", Look: s.examineSettings},
		examining.Step{Check: "durability", Look: s.examineDurability}, examining.Step{Check: "replication", Look: s.examineReplication},
		examining.Step{Check: "connections", Look: s.examineConnections}, examining.Step{Check: "locked", Look: s.examineOpen},
		examining.Step{Check: "commits", Look: s.examineCommits}, examining.Step{Check: "growth", Look: s.examineGrowth})
}

// failedFinding is what an error says. Those of Check name the cure in their last part, before what the server says.
func failedFinding(err error, first bool) (f store.Finding, over bool) {
	said := ""
	if connecting, server := (*pgconn.ConnectError)(nil), (*pgconn.PgError)(nil); errors.As(err, &connecting) {
		said = connecting.Error()
	} else if errors.As(err, &server) {
		said = server.Error()
	}
	f = examining.Refused(err, strings.TrimSuffix(err.Error(), ": "+said), "postgresstore: ", "check database: ")
	if f.Grade >= store.Problem && f.Cure == "" && said != "" {
		f.Text, f.Cure = said, f.Text
	}
	if errors.Is(err, lease.ErrDenied) {
		f.Cure = "look at the user, the password and pg_hba.conf"
	}
	if over = first && f.Grade == store.Unknown; over { // each step would wait in vain
		f = store.Finding{
			Grade: store.Problem, Text: "the server does not answer: " + err.Error(),
			Cure: "look whether it runs, at its address, and at the way to it",
		}
	}
	return f, over
}

// ask reads one row.
func (s *Store) ask(ctx context.Context, doing, query string, into ...any) error {
	return s.do(ctx, doing, func(ctx context.Context, c conn) error { return c.QueryRowContext(ctx, query).Scan(into...) })
}

func (s *Store) examineServer(ctx context.Context, _ time.Duration) (store.Finding, error) {
	if err := s.Check(ctx); err != nil {
		return store.Finding{}, err
	}
	var version string
	err := s.ask(ctx, "read the server's version", "SELECT current_setting('server_version')", &version)
	return store.Finding{Text: "PostgreSQL " + version + ", a primary, tables complete"}, err
}

// examineSettings looks at the limits that end a heartbeat.
func (s *Store) examineSettings(ctx context.Context, ttl time.Duration) (store.Finding, error) {
	var name string
	var least time.Duration
	const query = `
SELECT coalesce(min(name), ''), coalesce(min(setting::bigint), 0) * 1000000 FROM pg_settings
WHERE name IN ('statement_timeout', 'transaction_timeout') AND setting::bigint = (SELECT min(setting::bigint) FROM pg_settings
	WHERE name IN ('statement_timeout', 'transaction_timeout') AND setting::bigint > 0)`
	err := s.ask(ctx, "read settings", query, &name, &least)
	return judgeLimits(name, least, ttl), err
}

// judgeLimits judges the least limit that there is; zero: there is none.
func judgeLimits(name string, least, ttl time.Duration) store.Finding {
	heartbeat := ttl / 5
	switch {
	case least == 0:
		return store.Finding{Text: "no limit of statements and transactions"}
	case least < heartbeat:
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("%s is %v, and a heartbeat may take %v", name, least, heartbeat),
			Cure: fmt.Sprintf("set it to %v or more for this user (ALTER ROLE ... SET %s), or to 0", heartbeat, name),
		}
	}
	return store.Finding{Text: fmt.Sprintf("%s is %v", name, least)}
}

// durability is what a crash loses.
type durability struct {
	fsync, pages     bool
	commit, standbys string // synchronous_commit, synchronous_standby_names
	sending          int    // standbys that are connected
}

func (s *Store) durability(ctx context.Context) (d durability, err error) {
	const query = `
SELECT current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean, current_setting('synchronous_commit'),
	current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)`
	err = s.ask(ctx, "read what a crash loses", query, &d.fsync, &d.pages, &d.commit, &d.standbys, &d.sending)
	return d, err
}

func (s *Store) examineDurability(ctx context.Context, _ time.Duration) (store.Finding, error) {
	d, err := s.durability(ctx)
	return judgeDurability(d), err
}

func judgeDurability(d durability) store.Finding {
	switch {
	case !d.fsync:
		return store.Finding{
			Grade: store.Problem, Text: "fsync is off: a crash of the server's machine loses what was confirmed, and may damage the database",
			Cure: "set it on",
		}
	case !d.pages:
		return store.Finding{Grade: store.Warning, Text: "full_page_writes is off: a crash of the server's machine may damage the database", Cure: "set it on"}
	}
	return store.Finding{Text: "each commit is written to the disk"}
}

func (s *Store) examineReplication(ctx context.Context, _ time.Duration) (store.Finding, error) {
	d, err := s.durability(ctx)
	if err != nil {
		return store.Finding{}, err
	}
	var idle int
	var kept int64
	const query = `
SELECT count(*), coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0)::bigint FROM pg_replication_slots WHERE NOT active`
	err = s.ask(ctx, "read replication slots", query, &idle, &kept)
	return judgeReplication(d, idle, kept), err
}

// judgeReplication judges what a promotion loses, and slots that are not in use, for which so many bytes are kept.
func judgeReplication(d durability, idle int, kept int64) store.Finding {
	const many = 1 << 30
	switch {
	case idle > 0 && kept > many:
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("%d replication slots are not in use, and the server keeps %d MiB of its log for them, until its disk is full", idle, kept>>20),
			Cure: "start the standby again, or drop the slot (SELECT pg_drop_replication_slot(...))",
		}
	case d.sending > 0 && d.standbys == "":
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("%d standbys, all asynchronous: the promotion of one loses the last moments, and ticks may run twice", d.sending),
			Cure: "set synchronous_standby_names, such as ANY 1 (*)",
		}
	case d.standbys != "" && d.commit == "local":
		return store.Finding{
			Grade: store.Warning, Text: "synchronous_commit is local: commits of this user do not wait for the standbys of synchronous_standby_names, and a promotion loses the last moments",
			Cure: "set synchronous_commit = on for this user",
		}
	case d.standbys != "" && d.sending == 0:
		return store.Finding{
			Grade: store.Problem, Text: "synchronous_standby_names is set, and no standby is connected: commits hang",
			Cure: "start a standby, or clear the setting until there is one",
		}
	case d.sending == 0:
		return store.Finding{Text: "no standbys"}
	}
	return store.Finding{Text: fmt.Sprintf("%d standbys, commits wait for %s", d.sending, d.standbys)}
}

func (s *Store) examineConnections(ctx context.Context, _ time.Duration) (store.Finding, error) {
	var used, most, ofUser int
	const query = `
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
	current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
	(SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)`
	err := s.ask(ctx, "count connections", query, &used, &most, &ofUser)
	return judgeConnections(used, most, ofUser), err
}

// judgeConnections judges how many connections there are, of those that the server takes, and the user's own limit; -1: none.
func judgeConnections(used, most, ofUser int) store.Finding {
	f := store.Finding{Text: fmt.Sprintf("%d of %d used", used, most)}
	switch {
	case used*100 >= most*fullPercent:
		f.Grade, f.Cure = store.Warning, "raise max_connections, or put a pooler before the server: no worker starts once there is none left"
	case ofUser >= 0 && ofUser < 10:
		f.Grade, f.Text = store.Warning, fmt.Sprintf("this user may have %d connections, and a worker has several", ofUser)
		f.Cure = "ALTER ROLE ... CONNECTION LIMIT -1"
	}
	return f
}

// examineOpen looks for what keeps the server from removing dead rows, or has locks.
func (s *Store) examineOpen(ctx context.Context, _ time.Duration) (store.Finding, error) {
	var pid, prepared int
	var age int64
	var user, state string
	query := fmt.Sprintf(`
SELECT coalesce(a.pid, 0), coalesce(a.usename, ''), coalesce(a.state, ''), coalesce(extract(epoch FROM now() - a.xact_start), 0)::bigint,
	(SELECT count(*) FROM pg_prepared_xacts WHERE prepared < now() - interval '%[1]d s')
FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT * FROM pg_stat_activity
	WHERE datname = current_database() AND xact_start < now() - interval '%[1]d s' AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1) a ON true`,
		int(longOpen/time.Second))
	err := s.ask(ctx, "look for long transactions", query, &pid, &user, &state, &age, &prepared)
	return judgeOpen(pid, user, state, time.Duration(age)*time.Second, prepared), err
}

// judgeOpen judges the oldest transaction, which the process pid has open (0: there is none), and the number of prepared ones.
func judgeOpen(pid int, user, state string, age time.Duration, prepared int) store.Finding {
	switch {
	case prepared > 0:
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("%d prepared transactions are open for more than a minute, with their locks", prepared),
			Cure: "COMMIT PREPARED or ROLLBACK PREPARED what pg_prepared_xacts shows",
		}
	case pid > 0:
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("process %d of user %q has a transaction open for %v (%s): dead rows stay for as long, and lease tables get slow", pid, user, age, state),
			Cure: fmt.Sprintf("end it: SELECT pg_terminate_backend(%d)", pid),
		}
	}
	return store.Finding{Text: "no transaction is open for more than a minute"}
}

func (s *Store) examineCommits(ctx context.Context, ttl time.Duration) (store.Finding, error) {
	of := newReplicaQueries(s.options)
	took, err := sqlledger.MeasureCommits(ctx, database{s}, &of)
	if err != nil {
		return store.Finding{}, err
	}
	return took.Finding(ttl, "commits", "look at the server's disk, and at what else writes to it"), nil
}

// growth is how large the tables are, and what is done about it.
type growth struct {
	runs, dead int64  // rows, by the server's estimate
	table      string // with the most dead rows
	autovacuum bool
	age        int64 // of the oldest row that is not frozen, in transactions
}

func (s *Store) examineGrowth(ctx context.Context, _ time.Duration) (store.Finding, error) {
	var g growth
	query := texts(s.options).Replace(`
SELECT (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = '{s}cronlease_run'::regclass), coalesce(t.n_dead_tup, 0), coalesce(t.relname::text, ''),
	current_setting('autovacuum')::boolean, (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database())
FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT * FROM pg_stat_user_tables
	WHERE schemaname = (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = '{s}cronlease_run'::regclass) AND relname LIKE 'cronlease\_%'
	ORDER BY n_dead_tup - 10 * n_live_tup DESC LIMIT 1) t ON t.n_dead_tup > 10 * t.n_live_tup`)
	err := s.ask(ctx, "look at the tables", query, &g.runs, &g.dead, &g.table, &g.autovacuum, &g.age)
	return judgeGrowth(g), err
}

func judgeGrowth(g growth) store.Finding {
	f := store.Finding{Grade: store.Warning, Text: fmt.Sprintf("%d runs", g.runs)}
	switch {
	case g.age > oldXIDs:
		f.Text = fmt.Sprintf("the oldest row that is not frozen is of %d transactions ago: the server takes no writes from about two billion on", g.age)
		f.Cure = "find out what keeps VACUUM from its work (transactions that are open, slots, prepared transactions), and run VACUUM"
		if g.age > oldestXIDs {
			f.Grade = store.Problem
		}
	case !g.autovacuum:
		f.Text, f.Cure = "autovacuum is off: each heartbeat and run leaves dead rows behind, and the tables get slow", "set it on"
	case g.dead > manyDead:
		f.Text = fmt.Sprintf("%s has %d dead rows, ten times as many as others: autovacuum does not keep up", g.table, g.dead)
		f.Cure = "look for transactions that are open for long, and for autovacuum's workers, which may be busy elsewhere"
	case g.runs > manyRuns:
		f.Cure = "keep less history (history.keep, history.for)"
	default:
		f.Grade = store.Good
	}
	return f
}
