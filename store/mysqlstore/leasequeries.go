package mysqlstore

import "github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"

// leaseQueries are the statements of leases.
type leaseQueries struct {
	read          sqltext.Query
	insertNew     sqltext.Query
	insertDeleted sqltext.Query
	insertFence   sqltext.Query
	acquire       sqltext.Query
	takeReleased  sqltext.Query
	renew         sqltext.Query
	renewFree     sqltext.Query
	releaseFree   sqltext.Query
	askFree       sqltext.Query
	release       sqltext.Query
	isReleased    sqltext.Query
	handOver      sqltext.Query
	askResign     sqltext.Query
	isAsked       sqltext.Query
}

// Kinds of rows that the read query answers with.
const (
	nowRow = iota
	leaseRow
	fenceRow
)

func newLeaseQueries(t tables) *leaseQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &leaseQueries{
		// One statement, so that all rows and the clock are of one instant.
		read: sql(`
SELECT 0, _binary'', _binary'', 0, 0, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, 0, 0
UNION ALL
SELECT 1, name, owner, token, heartbeat, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', renewed_at), ttl_us, released, resign_asked
FROM {lease} WHERE name IN (?)
UNION ALL
SELECT 2, name, owner, token, 0, 0, 0, 0, 0
FROM {fence} WHERE name IN (?)`),

		// The three inserts of Prepare. Each looks for itself at what is there,
		// so that one which runs late does no harm; ON DUPLICATE KEY is for
		// several at once, and changes nothing. INSERT IGNORE would also hide
		// that a value was cut.
		insertNew: sql(`
INSERT INTO {lease} (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
SELECT ?, _binary'', 0, 0, UTC_TIMESTAMP(6), ?, 1, 0 FROM DUAL
WHERE NOT EXISTS (SELECT * FROM {fence} WHERE name = ?) AND NOT EXISTS (SELECT * FROM {lease} WHERE name = ?)
ON DUPLICATE KEY UPDATE name = {lease}.name`),

		insertDeleted: sql(`
INSERT INTO {lease} (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked)
SELECT f.name, _binary'',
	GREATEST(f.token + 1, CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED)),
	0, UTC_TIMESTAMP(6), ?, 0, 0 FROM {fence} f
WHERE f.name = ? AND NOT EXISTS (SELECT * FROM {lease} WHERE name = ?)
ON DUPLICATE KEY UPDATE name = {lease}.name`),

		insertFence: sql(`
INSERT INTO {fence} (name, owner, token)
SELECT l.name, l.owner, l.token FROM {lease} l
WHERE l.name = ? AND NOT EXISTS (SELECT * FROM {fence} WHERE name = ?)
ON DUPLICATE KEY UPDATE name = {fence}.name`),

		// The fence row is locked first: a takeover that waits there for
		// fenced work must not hold the lease row, which heartbeats need. The
		// token's expression must be the same in both rows, and must not read
		// what the statement assigns.
		acquire: sql(`
UPDATE {fence} f STRAIGHT_JOIN {lease} l ON l.name = f.name
SET f.owner = ?,
	f.token = LAST_INSERT_ID(GREATEST(CAST(? AS UNSIGNED), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED))),
	l.owner = ?,
	l.token = GREATEST(CAST(? AS UNSIGNED), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED)),
	l.heartbeat = ?, l.renewed_at = UTC_TIMESTAMP(6), l.ttl_us = ?, l.released = 0, l.resign_asked = 0
WHERE f.name = ? AND f.token = ? AND l.token = ? AND l.heartbeat = ?`),

		// The same for a row that was released since the reading. It waits for the
		// lease row, where the release may not be committed yet, but never for the
		// fence row: a signal that came for nothing must not hold up the claims of
		// a leader behind a takeover that waits for one of its transactions. The
		// tokens are compared last, because the release is waited for also when
		// they have changed: then the reading that follows shows it.
		takeReleased: sql(`
UPDATE (SELECT name AS free FROM {fence} WHERE name = ? LIMIT 1 FOR UPDATE SKIP LOCKED) r
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = r.free
STRAIGHT_JOIN {fence} f FORCE INDEX (PRIMARY) ON f.name = r.free
SET f.owner = ?,
	f.token = LAST_INSERT_ID(GREATEST(CAST(? AS UNSIGNED), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED))),
	l.owner = ?,
	l.token = GREATEST(CAST(? AS UNSIGNED), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED)),
	l.heartbeat = ?, l.renewed_at = UTC_TIMESTAMP(6), l.ttl_us = ?, l.released = 0, l.resign_asked = 0
WHERE f.token = ? AND l.token = ? AND l.heartbeat >= ? AND l.released = 1`),

		// FORCE INDEX: a scan would wait for other rows' locks, and lose all
		// leases for one.
		renew: sql(`
UPDATE {lease} FORCE INDEX (PRIMARY) SET heartbeat = ?, renewed_at = UTC_TIMESTAMP(6)
WHERE name IN (?) AND owner = ? AND released = 0 AND (name, token, heartbeat, resign_asked) IN (?)`),

		// The same for rows that are not locked; it waits for none. The LIMIT,
		// which is no less than there are names, keeps MySQL from merging the
		// query into the statement, which would wait then.
		renewFree: sql(`
UPDATE (SELECT name AS free FROM {lease} FORCE INDEX (PRIMARY)
	WHERE name IN (?) AND owner = ? AND released = 0 AND (name, token, heartbeat, resign_asked) IN (?)
	LIMIT ? FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = f.free
SET l.heartbeat = ?, l.renewed_at = UTC_TIMESTAMP(6)`),
		releaseFree: sql(`
UPDATE (SELECT name AS free FROM {lease}
	WHERE name = ? AND owner = ? AND token = ? AND released = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = f.free
SET l.released = 1`),
		askFree: sql(`
UPDATE (SELECT name AS free FROM {lease}
	WHERE name = ? AND token = ? AND released = 0 AND resign_asked = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = f.free
SET l.resign_asked = 1`),

		release: sql(`UPDATE {lease} SET released = 1 WHERE name = ? AND owner = ? AND token = ? AND released = 0`),
		// The locks, of the term and of the signal, are given away while the row is
		// locked, and only if it matches.
		handOver: sql(`
UPDATE {lease} SET released = GREATEST(1, COALESCE(RELEASE_LOCK(?), 1), COALESCE(RELEASE_LOCK(?), 1))
WHERE name = ? AND owner = ? AND token = ? AND released = 0`),
		isReleased: sql(`SELECT COUNT(*) FROM {lease} WHERE name = ? AND owner = ? AND token = ? AND released = 1`),
		askResign:  sql(`UPDATE {lease} SET resign_asked = 1 WHERE name = ? AND token = ? AND released = 0 AND resign_asked = 0`),
		isAsked:    sql(`SELECT COUNT(*) FROM {lease} WHERE name = ? AND token = ? AND released = 0 AND resign_asked = 1`),
	}
}
