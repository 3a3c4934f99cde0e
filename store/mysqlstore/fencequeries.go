package mysqlstore

import "github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"

// fenceQueries are the checks of a fenced transaction, on the caller's connection,
// which may have another database and any settings. The first ? is the name of the
// store's. The lock is what counts: a takeover waits for it. The changes are for
// clusters with several writers.
type fenceQueries struct {
	checkLease  sqltext.Query
	changeLease sqltext.Query
	checkLock   sqltext.Query
	changeLock  sqltext.Query
	checkRun    sqltext.Query
	changeRun   sqltext.Query
}

// pastSnapshot is for servers with innodb_snapshot_isolation: a setting for the
// statement that follows it.
const pastSnapshot = `SET STATEMENT innodb_snapshot_isolation = OFF FOR `

// heldRun is an attempt that is running. Those of a spread group have details, of which a blank at the end says nothing.
const heldRun = `grp = ? AND job = ? AND tick = ? AND trigger_id = ? AND state = 1 AND owner = ? AND token = ? AND attempt = ?`

func newFenceQueries(t tables) *fenceQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &fenceQueries{
		checkLease:  sql(`SELECT COUNT(*) FROM ?.{fence} WHERE name = ? AND owner = ? AND token = ? LOCK IN SHARE MODE`),
		changeLease: sql(`UPDATE ?.{fence} SET checks = checks + 1 WHERE name = ? AND owner = ? AND token = ?`),
		checkLock:   sql(`SELECT COUNT(*) FROM ?.{lock} WHERE name = ? AND LOCATE(?, queue) > 0 LOCK IN SHARE MODE`),
		changeLock:  sql(`UPDATE ?.{lock} SET version = version + 1 WHERE name = ? AND LOCATE(?, queue) > 0`),
		checkRun:    sql(`SELECT COUNT(*) FROM ?.{run} WHERE ` + heldRun + ` LOCK IN SHARE MODE`),
		changeRun:   sql(`UPDATE ?.{run} SET details = IF(RIGHT(details, 1) = _binary' ', RTRIM(details), CONCAT(COALESCE(details, _binary''), _binary' ')) WHERE ` + heldRun),
	}
}
