package sqlitestore

import "strings"

// clock is SQLite's clock in microseconds. SQLite's own functions stop at
// milliseconds, too coarse for tokens that are to be those of their instant, so
// this one is registered with the driver. It reads the same clock of the same
// host, while the statement runs. No instant is a parameter that the database has not
// told: a transaction of the ledger reads the clock once it has the lock to write.
const clock = "cronlease_micros()"

// queries are the statements. Parameters are numbered, {now} is the clock.
type queries struct {
	read, prepare, copyFence, acquire, renew, beat, requests, wake, release, askResign, isAsked, checkFence, checkRun, awaited string
}

func newQueries(clock string) queries {
	now := strings.NewReplacer("{now}", "("+clock+")")
	// ?1 is a JSON array of [group, token, heartbeat, resign asked]. With CROSS
	// JOIN, SQLite would look at all leases, and search the array for each.
	renew := now.Replace(`
UPDATE cronlease_lease
SET heartbeat = ?2, renewed_at = instant.now
FROM (SELECT {now} AS now) AS instant,
  (SELECT value ->> 0 AS name, value ->> 1 AS token, value ->> 2 AS heartbeat, value ->> 3 AS resign_asked FROM json_each(?1)) AS held
WHERE cronlease_lease.name = held.name AND cronlease_lease.owner = ?3 AND cronlease_lease.token = held.token
  AND cronlease_lease.heartbeat = held.heartbeat AND cronlease_lease.released = 0
  AND cronlease_lease.resign_asked = held.resign_asked`)
	return queries{
		// ?1 is a JSON array, so that any number of groups is one statement, and
		// one snapshot of the file.
		read: now.Replace(`
WITH instant (now) AS MATERIALIZED (SELECT {now})
SELECT asked.key, instant.now, schema.file,
  l.owner, l.token, l.heartbeat, l.renewed_at, l.ttl_us, l.released, l.resign_asked, f.owner, f.token
FROM instant CROSS JOIN cronlease_schema AS schema CROSS JOIN json_each(?1) AS asked
LEFT JOIN cronlease_lease AS l ON l.name = asked.value
LEFT JOIN cronlease_fence AS f ON f.name = asked.value`),

		// Makes the fence row as well, by the trigger, when both are missing.
		prepare: now.Replace(`
INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
SELECT ?1, '', CASE WHEN f.name IS NULL THEN 0 ELSE max(f.token + 1, {now}) END, 0, {now}, ?2, f.name IS NULL, 0
FROM (SELECT 1) LEFT JOIN cronlease_fence AS f ON f.name = ?1
WHERE true
ON CONFLICT (name) DO NOTHING`),

		copyFence: `
INSERT INTO cronlease_fence (name, owner, token)
SELECT name, owner, token FROM cronlease_lease WHERE name = ?1
ON CONFLICT (name) DO NOTHING`,

		// Writes the fence row as well, by the trigger.
		acquire: now.Replace(`
UPDATE cronlease_lease
SET owner = ?1, token = max(token + 1, ?2 + 1, ?3 + 1, {now}), heartbeat = ?4, renewed_at = {now}, ttl_us = ?5,
  released = 0, resign_asked = 0
WHERE name = ?6 AND token = ?7 AND heartbeat = ?8
  AND EXISTS (SELECT 1 FROM cronlease_fence WHERE name = ?6 AND token = ?2)
RETURNING token`),

		renew: renew,
		beat: renew + `
RETURNING renewed_at, (SELECT file FROM cronlease_schema),
  coalesce((SELECT g.changes FROM cronlease_group AS g WHERE g.name = cronlease_lease.name), 0)`,
		requests: `
SELECT coalesce((SELECT changes FROM cronlease_group WHERE name = ?1), 0),
  EXISTS (SELECT 1 FROM cronlease_lease WHERE name = ?1 AND token = ?2 AND resign_asked = 1)`,
		// Nobody waits where there is no lease. A session's row goes with it.
		wake: `
INSERT INTO cronlease_group (name, changes, paused) SELECT name, 1, 0 FROM cronlease_lease WHERE name = ?1
ON CONFLICT (name) DO UPDATE SET changes = changes + 1`,

		release:   `UPDATE cronlease_lease SET released = 1 WHERE name = ?1 AND owner = ?2 AND token = ?3`,
		askResign: `UPDATE cronlease_lease SET resign_asked = 1 WHERE name = ?1 AND token = ?2 AND released = 0 AND resign_asked = 0`,
		// After askResign.
		isAsked: `SELECT count(*) FROM cronlease_lease WHERE name = ?1 AND token = ?2 AND released = 0`,

		// The check of a fenced transaction, on the caller's connection. A write,
		// since a snapshot that the transaction reads may be older than a takeover.
		checkFence: `UPDATE main.cronlease_fence SET token = token WHERE name = ?1 AND owner = ?2 AND token = ?3`,

		checkRun: `
UPDATE main.cronlease_run SET attempt = attempt
WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4 AND state = 1 AND owner = ?5 AND token = ?6 AND attempt = ?7`,

		// What a waiter looks at.
		awaited: `
SELECT l.name IS NULL OR l.released = 1, coalesce(l.token, -1), coalesce(l.heartbeat, -1), schema.file
FROM cronlease_schema AS schema LEFT JOIN cronlease_lease AS l ON l.name = ?1`,
	}
}
