package postgresstore

import "strings"

// lockQueries are the statements of locks; see [queries].
type lockQueries struct {
	read, insert, update, updateOne, check, notify string
	held, idle, raiseFloor, pruneLocks             string
	pruneLeases, pruneFences, pruneGroups          string
}

func newLockQueries(o options) lockQueries {
	// A JSON array of [name, expected version, version, queue in hexadecimal], in the order in which rows are locked.
	const asked = `
WITH asked AS MATERIALIZED (
  SELECT e ->> 0 AS name, (e ->> 1)::bigint AS expect, (e ->> 2)::bigint AS version, decode(e ->> 3, 'hex') AS queue
  FROM json_array_elements($1::json) AS e WHERE {server} = $2::text)`
	const update = asked + `,
l AS MATERIALIZED (
  SELECT l.name, l.version FROM asked JOIN {s}cronlease_lock AS l ON l.name = asked.name ORDER BY l.name FOR NO KEY UPDATE OF l{skip})
UPDATE {s}cronlease_lock AS u SET version = asked.version, queue = asked.queue, written_at = {now}
FROM asked JOIN l ON l.name = asked.name AND l.version = asked.expect
WHERE u.name = asked.name RETURNING u.name`
	text := texts(o, "{channel}", strings.ReplaceAll(channel, "{schema}", schemaOf(o)))
	return lockQueries{
		read: text.Replace(`
SELECT asked.ord - 1, instant.now, instant.server, floor.version, l.version, l.queue
FROM (SELECT {now} AS now, {server} AS server OFFSET 0) AS instant
CROSS JOIN json_array_elements_text($1::json) WITH ORDINALITY AS asked (name, ord)
LEFT JOIN {s}cronlease_lock AS floor ON floor.name = ''
LEFT JOIN {s}cronlease_lock AS l ON l.name = asked.name`),

		// The floor is locked, so that none of the rows that are pruned next comes back below it.
		insert: text.Replace(asked + `,
floor AS MATERIALIZED (SELECT version FROM {s}cronlease_lock WHERE name = '' FOR SHARE)
INSERT INTO {s}cronlease_lock (name, version, queue, written_at)
SELECT asked.name, asked.version, asked.queue, {now} FROM asked, floor WHERE asked.version > floor.version
ORDER BY asked.name COLLATE "C"
ON CONFLICT (name) DO NOTHING
RETURNING name`),
		update:    text.Replace(strings.ReplaceAll(update, "{skip}", " SKIP LOCKED")),
		updateOne: text.Replace(strings.ReplaceAll(update, "{skip}", "")),

		check: text.Replace(`
SELECT count(*) FROM (SELECT queue FROM {s}cronlease_lock WHERE name = $1::text FOR SHARE) AS l WHERE position($2::bytea IN l.queue) > 0`),

		notify: text.Replace(`SELECT pg_notify({channel}, address) FROM unnest($1::text[]) AS address`),

		// Of what one looks at, the next deletes what is still the same. The floor is the row without a name.
		idle: text.Replace(`
SELECT name, version FROM {s}cronlease_lock WHERE length(queue) = 0 AND written_at < {now} - $1::bigint ORDER BY written_at LIMIT $2::bigint`),
		held: text.Replace(`
SELECT name FROM {s}cronlease_lock WHERE name > $1::text AND length(queue) > 0 AND written_at < {now} - $2::bigint ORDER BY name LIMIT $3::bigint`),
		raiseFloor: text.Replace(`
INSERT INTO {s}cronlease_lock AS l (name, version, queue, written_at) VALUES ('', $1::bigint, 'floor', {now})
ON CONFLICT (name) DO UPDATE SET version = greatest(l.version, excluded.version)`),
		pruneLocks: text.Replace(`
WITH l AS MATERIALIZED (
  SELECT l.name, l.version, (e ->> 1)::bigint AS was
  FROM json_array_elements($1::json) AS e JOIN {s}cronlease_lock AS l ON l.name = e ->> 0 ORDER BY l.name FOR UPDATE OF l SKIP LOCKED)
DELETE FROM {s}cronlease_lock AS d USING l WHERE d.name = l.name AND l.version = l.was`),

		// Names are ASCII: what is between $1 and the last character behind it begins with it.
		pruneLeases: text.Replace(`
WITH l AS MATERIALIZED (
  SELECT name FROM {s}cronlease_lease
  WHERE name >= $1::text AND name < $1::text || chr(127)
    AND renewed_at < {now} - CASE WHEN released THEN $2::bigint ELSE $3::bigint END
  ORDER BY name LIMIT $4::bigint FOR UPDATE SKIP LOCKED)
DELETE FROM {s}cronlease_lease AS d USING l WHERE d.name = l.name`),
		// After the leases.
		pruneFences: text.Replace(`
DELETE FROM {s}cronlease_fence AS f
WHERE name >= $1::text AND name < $1::text || chr(127) AND NOT EXISTS (SELECT FROM {s}cronlease_lease AS l WHERE l.name = f.name)`),
		pruneGroups: text.Replace(`
DELETE FROM {s}cronlease_group AS g
WHERE name >= $1::text AND name < $1::text || chr(127) AND NOT EXISTS (SELECT FROM {s}cronlease_lease AS l WHERE l.name = g.name)`),
	}
}
