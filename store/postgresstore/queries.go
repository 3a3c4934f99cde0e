package postgresstore

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// clock is the database's in microseconds: that of the instant, and not of the transaction's beginning, as now() is.
const clock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// server tells servers and their starts apart, and one that was promoted from what it was before: the system that a standby
// was copied from, the timeline, and when the server was started. The name of the log's file changes with a promotion at
// once; what pg_control_checkpoint says of the timeline does so about a second later.
const server = `(SELECT system_identifier FROM pg_control_system())::text || '/' ||
  CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END || '/' ||
  (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text`

// texts fills in statements: {s} is what stands before the name of a table, {schema} the schema's name, {now} the clock,
// {server} what tells the server.
func texts(o options, more ...string) *strings.Replacer {
	return strings.NewReplacer(append([]string{"{s}", prefixOf(o), "{schema}", schemaOf(o), "{now}", "(" + o.clock + ")", "{server}", "(" + o.server + ")"}, more...)...)
}

// prefixOf is what stands before the name of a table.
func prefixOf(o options) string {
	if o.schema == "" {
		return ""
	}
	return pgx.Identifier{o.schema}.Sanitize() + "."
}

// schemaOf is the schema's name, for SQL.
func schemaOf(o options) string {
	if o.schema == "" {
		return "coalesce(current_schema(), '')"
	}
	return "'" + strings.ReplaceAll(o.schema, "'", "''") + "'"
}

// lockKey is the key of an advisory lock, by the name in a parameter. Others that have the same by chance wait for each other, and no more.
const lockKey = "hashtextextended('cronlease ' || {schema} || ' ' || {$}::text, 0)"

// channel is the one on which a topic is notified of.
const channel = "'cronlease ' || md5({schema})"

// queries are the statements about leases. Three rules hold for all statements that lock rows:
//
//   - They lock by the key alone, in a materialized CTE, and compare the other columns outside of it: a condition beside the
//     lock is first applied to the row as the statement's snapshot has it, and a row that does not match there is passed over
//     without a wait. What the CTE returns is of the newest version.
//   - All that follows reads that CTE: one that nothing reads is never carried out.
//   - The clock is read in a CTE that reads the lock's: an expression beside the lock is computed before the wait.
type queries struct {
	read, prepare, copyFence, queue, lockFence, acquire, renew, renewOne, beat, wake, release, askResign, isAsked string
	channel, present, absent, show, hide, requests                                                                string
	checkFence, checkRun                                                                                          string
}

func newQueries(o options) queries {
	withKeys := strings.NewReplacer("{key1}", strings.ReplaceAll(lockKey, "{$}", "$1"), "{key2}", strings.ReplaceAll(lockKey, "{$}", "$2"), "{channel}", channel)
	values := texts(o)
	text := func(statement string) string { return values.Replace(withKeys.Replace(statement)) }
	const one = `
WITH l AS MATERIALIZED (SELECT * FROM {s}cronlease_lease WHERE name = $1::text FOR NO KEY UPDATE),
ok AS MATERIALIZED (
  SELECT l.name, {now} AS now FROM l
  WHERE l.token = $2::bigint AND l.heartbeat = $3::bigint AND l.resign_asked = $4::boolean AND l.owner = $5::text AND NOT l.released)
UPDATE {s}cronlease_lease AS u SET heartbeat = $6::bigint, renewed_at = ok.now FROM ok WHERE u.name = ok.name`
	return queries{
		// $1 is a JSON array.
		read: text(`
SELECT asked.ord - 1, instant.now, instant.server,
  l.owner, l.token, l.heartbeat, l.renewed_at, l.ttl_us, l.released, l.resign_asked, f.owner, f.token
FROM (SELECT {now} AS now, {server} AS server OFFSET 0) AS instant
CROSS JOIN json_array_elements_text($1::json) WITH ORDINALITY AS asked (name, ord)
LEFT JOIN {s}cronlease_lease AS l ON l.name = asked.name
LEFT JOIN {s}cronlease_fence AS f ON f.name = asked.name`),

		prepare: text(`
INSERT INTO {s}cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
SELECT $1::text, '', CASE WHEN f.name IS NULL THEN 0 ELSE greatest(f.token + 1, {now}) END, 0, {now}, $2::bigint, f.name IS NULL, false
FROM (SELECT) AS one LEFT JOIN {s}cronlease_fence AS f ON f.name = $1::text
ON CONFLICT (name) DO NOTHING`),
		copyFence: text(`
INSERT INTO {s}cronlease_fence (name, owner, token)
SELECT name, owner, token FROM {s}cronlease_lease WHERE name = $1::text
ON CONFLICT (name) DO NOTHING`),

		// A takeover waits its turn before it locks the row: those who share a row do not queue behind one who waits for it
		// alone, and could keep a takeover out for as long as they overlap.
		queue: text(`SELECT pg_advisory_xact_lock({key1})`),
		lockFence: text(`
SELECT f.token FROM (SELECT pg_advisory_xact_lock_shared({key2}) OFFSET 0) AS queue, {s}cronlease_fence AS f
WHERE f.name = $1::text FOR SHARE OF f`),

		// Both rows are locked and compared before either is written: a CTE that writes does so whatever the others find.
		acquire: text(`
WITH f AS MATERIALIZED (SELECT name, token FROM {s}cronlease_fence WHERE name = $1::text FOR NO KEY UPDATE),
l AS MATERIALIZED (
  SELECT l.name, l.token, l.heartbeat FROM f JOIN {s}cronlease_lease AS l ON l.name = f.name
  WHERE f.token = $2::bigint FOR NO KEY UPDATE OF l),
ok AS MATERIALIZED (
  SELECT l.name, i.now, greatest($3::bigint + 1, $2::bigint + 1, $6::bigint + 1, i.now) AS token
  FROM l, LATERAL (SELECT {now} AS now, {server} AS server OFFSET 0) AS i
  WHERE l.token = $3::bigint AND l.heartbeat = $4::bigint AND i.server = $9::text),
uf AS (UPDATE {s}cronlease_fence AS f SET owner = $5::text, token = ok.token FROM ok WHERE f.name = ok.name RETURNING f.name)
UPDATE {s}cronlease_lease AS l SET owner = $5::text, token = ok.token, heartbeat = $7::bigint, renewed_at = ok.now, ttl_us = $8::bigint,
  released = false, resign_asked = false
FROM ok, uf WHERE l.name = ok.name AND uf.name = ok.name RETURNING l.token`),

		// $1 is a JSON array of [group, token, heartbeat, resign asked]. It waits for no row.
		renew: text(`
WITH v AS MATERIALIZED (
  SELECT e ->> 0 AS name, (e ->> 1)::bigint AS token, (e ->> 2)::bigint AS heartbeat, (e ->> 3)::boolean AS asked
  FROM json_array_elements($1::json) AS e),
l AS MATERIALIZED (
  SELECT l.* FROM v JOIN {s}cronlease_lease AS l ON l.name = v.name ORDER BY l.name FOR NO KEY UPDATE OF l SKIP LOCKED),
ok AS MATERIALIZED (
  SELECT l.name, {now} AS now FROM l JOIN v ON v.name = l.name AND v.token = l.token AND v.heartbeat = l.heartbeat AND v.asked = l.resign_asked
  WHERE l.owner = $3::text AND NOT l.released)
UPDATE {s}cronlease_lease AS u SET heartbeat = $2::bigint, renewed_at = ok.now FROM ok WHERE u.name = ok.name`),
		renewOne: text(one),
		beat: text(one + `
RETURNING u.renewed_at, {server}, coalesce((SELECT g.changes FROM {s}cronlease_group AS g WHERE g.name = u.name), 0)`),
		// Nobody waits where there is no lease. A session's row goes with it.
		wake: text(`
INSERT INTO {s}cronlease_group (name, changes, paused) SELECT name, 1, false FROM {s}cronlease_lease WHERE name = $1::text
ON CONFLICT (name) DO UPDATE SET changes = cronlease_group.changes + 1
RETURNING pg_notify({channel}, 'asked ' || name)`),

		release: text(`
WITH l AS MATERIALIZED (SELECT name, owner, token FROM {s}cronlease_lease WHERE name = $1::text FOR NO KEY UPDATE)
UPDATE {s}cronlease_lease AS u SET released = true FROM l WHERE u.name = l.name AND l.owner = $2::text AND l.token = $3::bigint
RETURNING pg_notify({channel}, 'free ' || u.name)`),
		askResign: text(`
WITH l AS MATERIALIZED (SELECT * FROM {s}cronlease_lease WHERE name = $1::text FOR NO KEY UPDATE)
UPDATE {s}cronlease_lease AS u SET resign_asked = true FROM l
WHERE u.name = l.name AND l.token = $2::bigint AND NOT l.released AND NOT l.resign_asked
RETURNING pg_notify({channel}, 'asked ' || u.name)`),
		// After askResign.
		isAsked: text(`SELECT count(*) > 0 FROM {s}cronlease_lease WHERE name = $1::text AND token = $2::bigint AND NOT released`),

		channel: text(`SELECT {channel}, pg_backend_pid()`),
		// The lock is had for this statement alone, if nobody has it.
		present: text(`SELECT NOT pg_try_advisory_xact_lock_shared({key1}), {server}`),
		absent:  text(`SELECT pg_advisory_xact_lock_shared({key1})`),
		show:    text(`SELECT {server}, pg_try_advisory_lock({key1})`),
		hide:    text(`SELECT pg_advisory_unlock({key1})`),
		requests: text(`
SELECT coalesce((SELECT changes FROM {s}cronlease_group WHERE name = $1::text), 0), l.name IS NOT NULL, coalesce(l.resign_asked, false)
FROM (SELECT) AS one LEFT JOIN {s}cronlease_lease AS l ON l.name = $1::text AND l.token = $2::bigint AND NOT l.released`),

		// In the caller's transaction, behind replicas that wait to take over.
		checkFence: text(`
SELECT count(*) FROM (
  SELECT f.owner, f.token FROM (SELECT pg_advisory_xact_lock_shared({key2}) OFFSET 0) AS queue, {s}cronlease_fence AS f
  WHERE f.name = $1::text FOR SHARE OF f) AS f
WHERE f.owner = $3::text AND f.token = $4::bigint`),
		checkRun: text(`
SELECT count(*) FROM (
  SELECT state, owner, token, attempt FROM {s}cronlease_run
  WHERE grp = $1::text AND job = $2::text AND tick = $3::bigint AND trigger_id = $4::bigint FOR SHARE) AS r
WHERE r.state = 1 AND r.owner = $5::text AND r.token = $6::bigint AND r.attempt = $7::integer`),
	}
}
