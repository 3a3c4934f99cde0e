package sqlitestore

import "strings"

// lockQueries are the statements of locks; see [queries].
type lockQueries struct {
	read, file, insert, update, moved, check string
	idle, held, raiseFloor, pruneLocks       string
	pruneFences, pruneLeases, pruneGroups    string
}

func newLockQueries(clock string) lockQueries {
	now := strings.NewReplacer("{now}", "("+clock+")")
	// A JSON array of [name, expected version, version, queue in hexadecimal].
	const asked = `(SELECT value ->> 0 AS name, value ->> 1 AS expect, value ->> 2 AS version, unhex(value ->> 3) AS queue FROM json_each(?1)) AS asked`
	return lockQueries{
		read: now.Replace(`
WITH instant (now) AS MATERIALIZED (SELECT {now})
SELECT asked.key, instant.now, schema.file, (SELECT version FROM cronlease_lock WHERE name = ''), l.version, l.queue
FROM instant CROSS JOIN cronlease_schema AS schema CROSS JOIN json_each(?1) AS asked
LEFT JOIN cronlease_lock AS l ON l.name = asked.value`),

		file: `SELECT file FROM cronlease_schema`,

		insert: now.Replace(`
INSERT INTO cronlease_lock (name, version, queue, written_at)
SELECT asked.name, asked.version, asked.queue, {now} FROM ` + asked + `
WHERE asked.version > coalesce((SELECT version FROM cronlease_lock WHERE name = ''), 0)
ON CONFLICT (name) DO NOTHING
RETURNING name`),

		update: now.Replace(`
UPDATE cronlease_lock SET version = asked.version, queue = asked.queue, written_at = {now}
FROM ` + asked + `
WHERE cronlease_lock.name = asked.name AND cronlease_lock.version = asked.expect
RETURNING name`),

		// ?1 is a JSON array of [name, mark in hexadecimal]: how many rows lack
		// their mark.
		moved: `
SELECT count(*) FROM json_each(?1) AS asked
LEFT JOIN cronlease_lock AS l ON l.name = asked.value ->> 0
WHERE coalesce(instr(l.queue, unhex(asked.value ->> 1)), 0) = 0`,

		check: `UPDATE cronlease_lock SET version = version WHERE name = ?1 AND instr(queue, ?2) > 0`,

		// Of what one looks at, the next deletes what is still the same. The floor
		// is the row without a name.
		idle: now.Replace(`
SELECT name, version FROM cronlease_lock WHERE length(queue) = 0 AND written_at < {now} - ?1 ORDER BY written_at LIMIT ?2`),
		// It reads the whole table, which is small: it has the locks that are held,
		// and those used in the last seconds. The floor's empty name is after none.
		held: now.Replace(`
SELECT name FROM cronlease_lock WHERE name > ?1 AND length(queue) > 0 AND written_at < {now} - ?2 ORDER BY name LIMIT ?3`),
		raiseFloor: now.Replace(`
INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('', ?1, CAST('floor' AS BLOB), {now})
ON CONFLICT (name) DO UPDATE SET version = max(version, excluded.version)`),
		pruneLocks: `
DELETE FROM cronlease_lock
WHERE (name, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))`,

		// Names are ASCII: what is between ?1 and the last character behind it begins with it.
		pruneLeases: now.Replace(`
DELETE FROM cronlease_lease WHERE name IN (
  SELECT name FROM cronlease_lease
  WHERE name >= ?1 AND name < ?1 || char(127)
    AND renewed_at < {now} - iif(released, ?2, ?3)
  LIMIT ?4)`),
		// After the leases.
		pruneFences: `
DELETE FROM cronlease_fence
WHERE name >= ?1 AND name < ?1 || char(127)
  AND NOT EXISTS (SELECT 1 FROM cronlease_lease WHERE cronlease_lease.name = cronlease_fence.name)`,
		pruneGroups: `
DELETE FROM cronlease_group
WHERE name >= ?1 AND name < ?1 || char(127)
  AND NOT EXISTS (SELECT 1 FROM cronlease_lease WHERE cronlease_lease.name = cronlease_group.name)`,
	}
}
