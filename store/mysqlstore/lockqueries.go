package mysqlstore

import "strings"

// lockQueries are the statements of locks; see [queries].
type lockQueries struct {
	table string // its quoted name

	read, insert, write, writeMany           string
	check, change                            string
	idle, idleSessions, pruneLocks           string
	pruneFences, pruneLeases, wait, notWaits string
}

const (
	// connectionID is where a doorbell is rung.
	connectionID = `SELECT CONNECTION_ID()`
	killQuery    = `KILL QUERY ?`
)

func newLockQueries(prefix string) *lockQueries {
	q := &lockQueries{
		read: `
SELECT 0, _binary'', ` + micros + `, _binary''
UNION ALL
SELECT 1, name, version, queue FROM {lock} WHERE name IN (?)`,

		insert: `INSERT INTO {lock} (name, version, queue, written_at) VALUES ?`,

		write: `
UPDATE {lock} SET version = ?, queue = ?, written_at = UTC_TIMESTAMP(6) WHERE name = ? AND version = ?`,

		// Versions and queue are expressions, see [byName]: they are faster than
		// lists of cases or rows, and than a join with a list of rows. The rows
		// are locked in the order of the key, so that two statements do not
		// deadlock.
		writeMany: `
UPDATE {lock} FORCE INDEX (PRIMARY) SET version = ?, queue = ?, written_at = UTC_TIMESTAMP(6)
WHERE name IN (?) AND version = ?`,

		// The checks of a fenced transaction; see [queries].
		check:  `SELECT COUNT(*) FROM ?.{lock} WHERE name = ? AND LOCATE(?, queue) > 0 LOCK IN SHARE MODE`,
		change: `UPDATE ?.{lock} SET version = version + 1 WHERE name = ? AND LOCATE(?, queue) > 0`,

		// Pruning looks without locking anything, and deletes by key what is
		// still as it was seen.
		idle: `
SELECT name, version FROM {lock}
WHERE queue = _binary'' AND written_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND LIMIT ?`,
		idleSessions: `
SELECT name, token FROM {lease}
WHERE name LIKE ? AND renewed_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND LIMIT ?`,
		pruneLocks: `DELETE FROM {lock} WHERE name IN (?) AND (name, version) IN (?)`,
		pruneLeases: `
DELETE FROM {lease}
WHERE name IN (?) AND (name, token) IN (?) AND renewed_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND`,
		pruneFences: `
DELETE FROM {fence}
WHERE name IN (?) AND (name, token) IN (?) AND NOT EXISTS (SELECT * FROM {lease} WHERE {lease}.name = {fence}.name)`,

		// It looks once it can be killed: what was written before is seen by
		// the look, and who writes later kills it. SLEEP is for nobody but
		// this connection.
		wait: `SELECT IF(EXISTS(?), 0, SLEEP(?))`,
		// A row that has not moved up contains the mark.
		notWaits: `SELECT 1 FROM DUAL WHERE NOT EXISTS (SELECT * FROM {lock} WHERE name = ? AND LOCATE(?, queue) > 0)`,
	}
	names := tableNames(prefix)
	q.table = names.Replace("{lock}")
	for _, text := range []*string{
		&q.read, &q.insert, &q.write, &q.writeMany, &q.check, &q.change, &q.idle, &q.idleSessions,
		&q.pruneLocks, &q.pruneFences, &q.pruneLeases, &q.wait, &q.notWaits,
	} {
		*text = strings.TrimSpace(names.Replace(*text))
	}
	return q
}
