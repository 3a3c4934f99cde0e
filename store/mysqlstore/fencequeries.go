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
}

// pastSnapshot is for servers with innodb_snapshot_isolation: a setting for the
// statement that follows it.
const pastSnapshot = `SET STATEMENT innodb_snapshot_isolation = OFF FOR `

func newFenceQueries(t tables) *fenceQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &fenceQueries{
		checkLease:  sql(`SELECT COUNT(*) FROM ?.{fence} WHERE name = ? AND owner = ? AND token = ? LOCK IN SHARE MODE`),
		changeLease: sql(`UPDATE ?.{fence} SET checks = checks + 1 WHERE name = ? AND owner = ? AND token = ?`),
		checkLock:   sql(`SELECT COUNT(*) FROM ?.{lock} WHERE name = ? AND LOCATE(?, queue) > 0 LOCK IN SHARE MODE`),
		changeLock:  sql(`UPDATE ?.{lock} SET version = version + 1 WHERE name = ? AND LOCATE(?, queue) > 0`),
	}
}
