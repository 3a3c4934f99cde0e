package mysqlstore

import "github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"

// lockQueries are the statements of locks.
type lockQueries struct {
	read, insert, write, writeNow, writeFree sqltext.Query
	raiseFloor, sessionsLeft                 sqltext.Query
	idle, held, idleSessions, pruneLocks     sqltext.Query
	pruneFences, pruneLeases, wait, notWaits sqltext.Query
}

var (
	// A notifier is woken by the name of a lock that its session has: what the
	// client takes for the connection's id may be another one's on the server,
	// behind a proxy.
	ownsLock  = sqltext.Parse(`SELECT IS_USED_LOCK(?) <=> CONNECTION_ID()`)
	readClock = sqltext.Parse(`SELECT ` + micros)
	killQuery = sqltext.Parse(`KILL QUERY IS_USED_LOCK(?)`)

	// How a notifier rests; see there. The second answers 3 if it got the lock.
	restInSleep = sqltext.Parse(`SLEEP(?)`)
	restForLock = sqltext.Parse(`IF(GET_LOCK(?, ?), 3, 0)`)
)

func newLockQueries(t tables) *lockQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &lockQueries{
		// Each row has the clock beside it, so that it takes no UNION, which costs
		// as much again.
		read: sql(`
SELECT name, version, queue, ` + micros + ` FROM {lock} FORCE INDEX (PRIMARY) WHERE name IN (?)`),

		// The floor is the row without a name. The shared lock on it is what
		// counts: a pruner that raises the floor before deleting rows waits for the
		// inserts that compare with the old floor. The first part of v gives it the
		// columns' types: MariaDB cuts queues above 64 KB without it.
		insert: sql(`
INSERT INTO {lock} (name, version, queue, written_at)
WITH v AS (SELECT name, version, queue FROM {lock} WHERE FALSE UNION ALL VALUES ?)
SELECT v.name, v.version, v.queue, UTC_TIMESTAMP(6) FROM {lock} f STRAIGHT_JOIN v
WHERE f.name = _binary'' AND f.version < ?
LOCK IN SHARE MODE`),
		raiseFloor: sql(`
INSERT INTO {lock} (name, version, queue, written_at) VALUES (_binary'', ?, _binary'floor', UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = GREATEST(version, VALUES(version))`),

		// Waits if another transaction has locked the row.
		write: sql(`
UPDATE {lock} SET version = ?, queue = ?, written_at = UTC_TIMESTAMP(6) WHERE name = ? AND version = ?`),

		// Fails at once if another transaction has locked one of the rows. Only MariaDB
		// has such a statement. It takes half as much of the server as writeFree.
		writeNow: sql(`
SET STATEMENT innodb_lock_wait_timeout = 0 FOR
UPDATE {lock} FORCE INDEX (PRIMARY) SET version = ?, queue = ?, written_at = UTC_TIMESTAMP(6)
WHERE name IN (?) AND version = ?`),

		// Skips rows that others have locked. The LIMIT, which is no less than
		// there are names, keeps MySQL from merging the query into the statement,
		// which would wait then. Versions and queue are expressions, see [byName]:
		// they are faster than lists of cases or rows, and than a join with a list
		// of rows.
		writeFree: sql(`
UPDATE (SELECT name AS free FROM {lock} FORCE INDEX (PRIMARY) WHERE name IN (?) AND version = ? LIMIT ? FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.name = f.free
SET l.version = ?, l.queue = ?, l.written_at = UTC_TIMESTAMP(6)`),

		// Pruning looks without locking anything, and deletes by key the rows that
		// have not changed since and that no other transaction has locked.
		idle: sql(`
SELECT name, version FROM {lock} FORCE INDEX (by_idle)
WHERE idle_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND ORDER BY idle_at LIMIT ?`),
		// The index has rows with holders or waiters first, by name. The floor's
		// empty name is after none.
		held: sql(`
SELECT name, version FROM {lock} FORCE INDEX (by_idle)
WHERE idle_at IS NULL AND name > ? AND written_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND ORDER BY name LIMIT ?`),
		idleSessions: sql(`
SELECT name, token FROM {lease} FORCE INDEX (PRIMARY)
WHERE name LIKE ? AND renewed_at < UTC_TIMESTAMP(6) - INTERVAL IF(released, ?, ?) MICROSECOND LIMIT ?`),
		pruneLocks: sql(`
DELETE l FROM (SELECT name AS free FROM {lock} FORCE INDEX (PRIMARY)
	WHERE name IN (?) AND (name, version) IN (?) LIMIT ? FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.name = f.free`),
		pruneLeases: sql(`
DELETE l FROM (SELECT name AS free FROM {lease} FORCE INDEX (PRIMARY)
	WHERE name IN (?) AND (name, token) IN (?) AND renewed_at < UTC_TIMESTAMP(6) - INTERVAL IF(released, ?, ?) MICROSECOND
	LIMIT ? FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {lease} l FORCE INDEX (PRIMARY) ON l.name = f.free`),
		sessionsLeft: sql(`SELECT name, token FROM {lease} WHERE name IN (?)`),
		pruneFences: sql(`
DELETE l FROM (SELECT name AS free FROM {fence} FORCE INDEX (PRIMARY)
	WHERE name IN (?) AND (name, token) IN (?) LIMIT ? FOR UPDATE SKIP LOCKED) f
STRAIGHT_JOIN {fence} l FORCE INDEX (PRIMARY) ON l.name = f.free`),

		// It looks at the row once it can be killed: the look sees earlier
		// writes, and a later writer wakes us with KILL QUERY. It rests only
		// if this connection's session is the one that is woken; another
		// session, behind a proxy, answers 2.
		wait: sql(`SELECT IF(EXISTS(?), 0, IF(IS_USED_LOCK(?) <=> CONNECTION_ID(), ?, 2))`),
		// A row that has not moved up contains the mark.
		notWaits: sql(`SELECT 1 FROM DUAL WHERE NOT EXISTS (SELECT * FROM {lock} WHERE name = ? AND LOCATE(?, queue) > 0)`),
	}
}
