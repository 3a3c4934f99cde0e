package mysqlstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// queries are the statements of a store, with the names of its tables in place.
// Each ? stands for a value that [fill] writes. All of them are in the common
// subset of MySQL 8.0 and MariaDB 10.6.
type queries struct {
	lease, fence, run, job, schema string // quoted names of the tables

	read          string
	insertNew     string
	insertDeleted string
	insertFence   string
	acquire       string
	renew         string
	renewFree     string
	releaseFree   string
	askFree       string
	release       string
	isReleased    string
	askResign     string
	isAsked       string
	checkFence    string
	writeFence    string

	engines       string
	shape         string
	version       string
	oldVersion    string
	createSchema  string
	addLevel      string
	insertVersion string
	setLevel      string
	probes        []string
	floorRow      string
	shareRow      string
	writeRow      string
}

const (
	// setNames comes first: some character sets leave no other statement as it
	// was meant.
	setNames = `SET NAMES utf8mb4`

	// setSession makes a connection fit for the store, whatever the server's
	// defaults and the DSN say. The comments are for one kind of server each:
	// no time limits, and long lists of names that are never given up for a scan.
	setSession = `SET autocommit = 1, time_zone = '+00:00',
	sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',
	innodb_lock_wait_timeout = ?, lock_wait_timeout = ?, wait_timeout = 2147483,
	@cronlease_session = ?, sql_safe_updates = 0, sql_big_selects = 1, sql_select_limit = 18446744073709551615
	/*!80000 , max_execution_time = 0, range_optimizer_max_mem_size = 0 */
	/*M! , max_statement_time = 0, in_predicate_conversion_threshold = 0, optimizer_max_sel_arg_weight = 0 */`

	setIsolation = `SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE`

	// setGalera is for nodes of Galera: statements of all sorts (1, 2 and 4) wait
	// until what was committed on any node before is there, so that connections
	// may be of different nodes; and a transaction of a process that stands still
	// ends after 2 s.
	setGalera = `SET wsrep_sync_wait = 7 /*M! , idle_transaction_timeout = 2 */`

	// Both for servers that know snapshotIsolation: the one for a session, the
	// other for the statement that follows it, on a connection of the caller.
	latestRows   = `SET innodb_snapshot_isolation = OFF`
	pastSnapshot = `SET STATEMENT innodb_snapshot_isolation = OFF FOR `

	// For statements that are a transaction of several; see [Store.guarded]. The
	// limits are in seconds.
	begin       = `START TRANSACTION`
	commit      = `COMMIT`
	rollback    = `ROLLBACK`
	limitIdle   = `SET wait_timeout = 2`
	unlimitIdle = `SET wait_timeout = 2147483`

	showVariables = `SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'hostname', 'port', 'server_id',
	'server_uuid', 'server_uid', 'autocommit', 'sql_mode', 'time_zone', 'transaction_isolation', 'tx_isolation',
	'max_connections', 'max_user_connections', 'innodb_lock_wait_timeout', 'read_only', 'super_read_only',
	'innodb_read_only', 'log_bin', 'binlog_format',
	'wsrep_on', 'group_replication_single_primary_mode', 'group_replication_group_name',
	'group_replication_consistency', 'innodb_snapshot_isolation')`

	// started: Uptime is the time of this statement less the time of the
	// server's start, so that their difference is exactly that second, also
	// after the clock was stepped. The last column is far from zero when
	// SET timestamp has frozen the session's clock.
	startedMySQL = `SELECT DATABASE(), UNIX_TIMESTAMP(), variable_value,
	ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), SYSDATE())), @cronlease_session
	FROM performance_schema.global_status WHERE variable_name = 'Uptime'`
	startedMariaDB = `SELECT DATABASE(), UNIX_TIMESTAMP(), variable_value,
	ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), SYSDATE())), @cronlease_session
	FROM information_schema.global_status WHERE variable_name = 'UPTIME'`

	// readOnlySettings names the settings that keep the server from writing, and
	// is empty when none does. super_read_only is never on without read_only,
	// which has more values than ON in MariaDB 12.
	readOnlySettings = `SELECT CONCAT_WS(' and ',
	IF(CAST(@@global.read_only AS CHAR) IN ('0', 'OFF'), NULL, 'read_only'),
	IF(CAST(@@global.innodb_read_only AS CHAR) IN ('0', 'OFF'), NULL, 'innodb_read_only'))`

	getLock     = `SELECT GET_LOCK(?, ?)`
	hasLock     = `SELECT IS_USED_LOCK(?) = CONNECTION_ID()`
	releaseLock = `SELECT RELEASE_LOCK(?)`
)

// Kinds of rows that the read query answers with.
const (
	nowRow = iota
	leaseRow
	fenceRow
)

func newQueries(prefix string) *queries {
	q := &queries{
		// One statement, so that all rows and the clock are of one instant.
		read: `
SELECT 0, _binary'', _binary'', 0, 0, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, 0, 0
UNION ALL
SELECT 1, name, owner, token, heartbeat, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', renewed_at), ttl_us, released, resign_asked
FROM {lease} WHERE name IN (?)
UNION ALL
SELECT 2, name, owner, token, 0, 0, 0, 0, 0
FROM {fence} WHERE name IN (?)`,

		// The three inserts of Prepare. Each looks for itself at what is there,
		// so that one which runs late does no harm; ON DUPLICATE KEY is for
		// several at once, and changes nothing. INSERT IGNORE would also hide
		// that a value was cut.
		insertNew: `
INSERT INTO {lease} (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
SELECT ?, _binary'', 0, 0, UTC_TIMESTAMP(6), ?, 1, 0 FROM DUAL
WHERE NOT EXISTS (SELECT * FROM {fence} WHERE name = ?) AND NOT EXISTS (SELECT * FROM {lease} WHERE name = ?)
ON DUPLICATE KEY UPDATE name = {lease}.name`,

		insertDeleted: `
INSERT INTO {lease} (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
SELECT f.name, _binary'',
	GREATEST(f.token + 1, CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED)),
	0, UTC_TIMESTAMP(6), ?, 0, 0 FROM {fence} f
WHERE f.name = ? AND NOT EXISTS (SELECT * FROM {lease} WHERE name = ?)
ON DUPLICATE KEY UPDATE name = {lease}.name`,

		insertFence: `
INSERT INTO {fence} (name, owner, token)
SELECT l.name, l.owner, l.token FROM {lease} l
WHERE l.name = ? AND NOT EXISTS (SELECT * FROM {fence} WHERE name = ?)
ON DUPLICATE KEY UPDATE name = {fence}.name`,

		// The fence row is locked first: a takeover that waits there for
		// fenced work must not hold the lease row, which heartbeats need. The
		// token's expression must be the same in both rows, and must not read
		// what the statement assigns.
		acquire: `
UPDATE {fence} f STRAIGHT_JOIN {lease} l ON l.name = f.name
SET f.owner = ?,
	f.token = LAST_INSERT_ID(GREATEST(CAST(? AS UNSIGNED), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED))),
	l.owner = ?,
	l.token = GREATEST(CAST(? AS UNSIGNED), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED)),
	l.heartbeat = ?, l.renewed_at = UTC_TIMESTAMP(6), l.ttl_us = ?, l.released = 0, l.resign_asked = 0
WHERE f.name = ? AND f.token = ? AND l.token = ? AND l.heartbeat = ?`,

		// FORCE INDEX: a scan would wait for other rows' locks, and lose all
		// leases for one.
		renew: `
UPDATE {lease} FORCE INDEX (PRIMARY) SET heartbeat = ?, renewed_at = UTC_TIMESTAMP(6)
WHERE name IN (?) AND owner = ? AND released = 0 AND (name, token, heartbeat, resign_asked) IN (?)`,

		// The same for rows that are not locked; it waits for none. The LIMIT,
		// which is no less than there are names, keeps MySQL from merging the
		// query into the statement, which would wait then.
		renewFree: `
UPDATE (SELECT name AS free FROM {lease} FORCE INDEX (PRIMARY)
	WHERE name IN (?) AND owner = ? AND released = 0 AND (name, token, heartbeat, resign_asked) IN (?)
	LIMIT ? FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = f.free
SET l.heartbeat = ?, l.renewed_at = UTC_TIMESTAMP(6)`,
		releaseFree: `
UPDATE (SELECT name AS free FROM {lease}
	WHERE name = ? AND owner = ? AND token = ? AND released = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = f.free
SET l.released = 1`,
		askFree: `
UPDATE (SELECT name AS free FROM {lease}
	WHERE name = ? AND token = ? AND released = 0 AND resign_asked = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = f.free
SET l.resign_asked = 1`,

		release:    `UPDATE {lease} SET released = 1 WHERE name = ? AND owner = ? AND token = ? AND released = 0`,
		isReleased: `SELECT COUNT(*) FROM {lease} WHERE name = ? AND owner = ? AND token = ? AND released = 1`,
		askResign:  `UPDATE {lease} SET resign_asked = 1 WHERE name = ? AND token = ? AND released = 0 AND resign_asked = 0`,
		isAsked:    `SELECT COUNT(*) FROM {lease} WHERE name = ? AND token = ? AND released = 0 AND resign_asked = 1`,

		// The two checks of a fenced transaction, on the caller's connection, which
		// may have another database and any settings. The first ? is the name of
		// the store's. The lock is what counts: a takeover waits for it.
		checkFence: `SELECT COUNT(*) FROM ?.{fence} WHERE name = ? AND owner = ? AND token = ? LOCK IN SHARE MODE`,
		writeFence: `UPDATE ?.{fence} SET checks = checks + 1 WHERE name = ? AND owner = ? AND token = ?`,

		engines: `
SELECT table_name, engine FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN ('{prefix}lease', '{prefix}fence', '{prefix}run', '{prefix}job', '{prefix}lock')`,
		// Columns, which have no key's name, come before keys.
		shape: `
SELECT table_name, '', column_name, 0 AS place FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name IN (?)
UNION ALL
SELECT table_name, index_name, column_name, seq_in_index FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name IN (?)
ORDER BY 1, 2, place`,
		version:    `SELECT COALESCE(MAX(version), 0), COALESCE(GREATEST(MAX(version), MAX(level)), 0) FROM {schema}`,
		oldVersion: `SELECT COALESCE(MAX(version), 0), COALESCE(MAX(version), 0) FROM {schema}`,
		// The newest version is the least that a program has to know; see
		// [step]. The level is the newest step.
		createSchema: `
CREATE TABLE IF NOT EXISTS {schema} (
	version    INT UNSIGNED NOT NULL,
	applied_at DATETIME(6)  NOT NULL,
	level      INT UNSIGNED NOT NULL DEFAULT 0,
	PRIMARY KEY (version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`,
		addLevel: `ALTER TABLE {schema} ADD COLUMN level INT UNSIGNED NOT NULL DEFAULT 0`,
		floorRow: `SELECT COUNT(*) FROM {lock} WHERE name = _binary''`,
		// The two sides of [Store.proveLocks].
		shareRow: `SELECT COUNT(*) FROM {lock} WHERE name = _binary'' LOCK IN SHARE MODE`,
		writeRow: `SELECT version FROM {lock} WHERE name = _binary'' FOR UPDATE NOWAIT`,

		setLevel: `UPDATE {schema} SET level = GREATEST(level, ?) ORDER BY version DESC LIMIT 1`,
		insertVersion: `
INSERT INTO {schema} (version, applied_at) VALUES (?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE version = {schema}.version`,
	}
	// What the rest of Check does not ask for: what pruning and locks need.
	q.probes = []string{
		`DELETE FROM {lease} WHERE FALSE`,
		`DELETE FROM {fence} WHERE FALSE`,
		`DELETE FROM {run} WHERE FALSE`,
		`DELETE FROM {job} WHERE FALSE`,
		`DELETE FROM {lock} WHERE FALSE`,
		`SELECT queue FROM {lock} WHERE FALSE`,
		`UPDATE {lock} SET version = 0 WHERE FALSE`,
		`INSERT INTO {lock} (name, version, queue, written_at) SELECT _binary'', 0, _binary'', UTC_TIMESTAMP(6) FROM DUAL WHERE FALSE`,
	}
	names := tableNames(prefix)
	for i, probe := range q.probes {
		q.probes[i] = names.Replace(probe)
	}
	q.lease, q.fence, q.schema = names.Replace("{lease}"), names.Replace("{fence}"), names.Replace("{schema}")
	q.run, q.job = names.Replace("{run}"), names.Replace("{job}")
	for _, text := range []*string{
		&q.read, &q.insertNew, &q.insertDeleted, &q.insertFence, &q.acquire, &q.renew, &q.renewFree, &q.releaseFree, &q.askFree, &q.release, &q.isReleased,
		&q.askResign, &q.isAsked, &q.checkFence, &q.writeFence, &q.engines, &q.shape, &q.version, &q.oldVersion,
		&q.createSchema, &q.addLevel, &q.insertVersion, &q.setLevel,
		&q.floorRow, &q.shareRow, &q.writeRow,
	} {
		*text = strings.TrimSpace(names.Replace(*text))
	}
	return q
}

// tableNames replaces {table} by the table's quoted name. The prefix has been
// checked to need no escaping.
func tableNames(prefix string) *strings.Replacer {
	return strings.NewReplacer(
		"{prefix}", prefix,
		"{lease}", "`"+prefix+"lease`",
		"{fence}", "`"+prefix+"fence`",
		"{run}", "`"+prefix+"run`",
		"{job}", "`"+prefix+"job`",
		"{lock}", "`"+prefix+"lock`",
		"{schema}", "`"+prefix+"schema`",
	)
}

// list is several values for one ?, and row one of them that is a row; table
// is the rows of a VALUES clause, and text a part of a query. byName is the one of
// several values that goes with the name of the row in hand, in the names' order.
type (
	list   []any
	row    []any
	table  []row
	text   string
	byName []named
	named  struct {
		name  string
		value any
	}
)

// fill puts values in the place of each ? of a query. It does so here and not
// in the driver for three reasons: a statement is always one message to the
// server, whether or not the pool has interpolateParams; it may have more than
// 65,535 values; and text is always a binary string, whatever the connection's
// character set. Values are numbers, and strings that are written so that they
// cannot be anything else; see [quote].
func fill(query string, values ...any) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			break
		}
		write(&b, values[0])
		query, values = after, values[1:]
	}
	if len(values) != 0 {
		panic(fmt.Sprintf("mysqlstore: %d values too many", len(values)))
	}
	return b.String()
}

func write(b *strings.Builder, value any) {
	switch v := value.(type) {
	case string:
		quote(b, v)
	case uint64:
		b.WriteString(strconv.FormatUint(v, 10))
	case int:
		b.WriteString(strconv.Itoa(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case bool:
		if v {
			b.WriteByte('1')
		} else {
			b.WriteByte('0')
		}
	case list:
		for i, one := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, one)
		}
	case row:
		b.WriteByte('(')
		write(b, list(v))
		b.WriteByte(')')
	case table:
		for i, one := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("/*!80019 ROW*/") // MySQL wants the word, MariaDB has none
			write(b, one)
		}
	case text:
		b.WriteString(string(v))
	case byName:
		v.write(b)
	default:
		panic(fmt.Sprintf("mysqlstore: value of type %T", value))
	}
}

// write writes an expression that searches: a list of cases is gone through for
// each row, which takes longer than all else when they are some hundred.
func (v byName) write(b *strings.Builder) {
	if !slices.ContainsFunc(v, func(n named) bool { return n.value != v[0].value }) {
		write(b, v[0].value)
		return
	}
	middle := len(v) / 2
	b.WriteString("IF(name<")
	quote(b, v[middle].name)
	b.WriteByte(',')
	v[:middle].write(b)
	b.WriteByte(',')
	v[middle:].write(b)
	b.WriteByte(')')
}

// quote writes s as a binary string: names and the JSON of plain names as they
// are, and anything with another character in hexadecimal. So there is nothing to
// escape, whatever the session's sql_mode and character set, and nothing that a
// driver or a proxy might take for a placeholder or a comment.
func quote(b *strings.Builder, s string) {
	for i := range len(s) {
		if isPlain[s[i]] {
			continue
		}
		fmt.Fprintf(b, "x'%x'", s)
		return
	}
	b.WriteString("_binary'")
	b.WriteString(s)
	b.WriteByte('\'')
}

// isPlain says which bytes are written as they are.
var isPlain = func() (plain [256]bool) {
	for _, c := range []byte(`abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@+-=,"{}[]`) {
		plain[c] = true
	}
	return plain
}()
