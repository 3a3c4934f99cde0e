package mysqlstore

import (
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// archiveQueries are the statements about what people look at later.
type archiveQueries struct {
	note, audit, auditOfJob                  sqltext.Query
	lockTerms, insertTerm, endTerm, terms    sqltext.Query
	oldestEntries, oldestTerms, inAll        sqltext.Query
	pruneAudit, pruneTerms                   sqltext.Query
	attempts, names, ofNames, newestOf       sqltext.Query
	cutOf, cutIn, countOf, countFew, countIn sqltext.Query
}

func newArchiveQueries(t tables) *archiveQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &archiveQueries{
		// The tick is a number or NULL.
		note: sql(`
INSERT INTO {audit} ({audit columns}) VALUES (?, DEFAULT, UTC_TIMESTAMP(6), ?, ?, ?, ?, ?, ?, ?, ?)`),
		audit: sql(`
SELECT {audit fields} FROM {audit} e FORCE INDEX (by_group) WHERE grp = ? AND id < ? ORDER BY id DESC LIMIT ?`),
		auditOfJob: sql(`
SELECT {audit fields} FROM {audit} e FORCE INDEX (by_job) WHERE grp = ? AND job = ? AND id < ? ORDER BY id DESC LIMIT ?`),
		pruneAudit: sql(`DELETE FROM {audit} WHERE grp = ? AND id <= ?`),
		pruneTerms: sql(`DELETE FROM {term} WHERE grp = ? AND token <= ?`),

		lockTerms: sql(`
SELECT {term fields} FROM {term} t WHERE grp = ? AND (token = ? OR token < ? AND ended_at IS NULL) FOR UPDATE`),
		insertTerm: sql(`
INSERT INTO {term} ({term columns}) VALUES (?, ?, ?, {epoch} + INTERVAL ? MICROSECOND, NULL, ?, _binary'')`),
		endTerm: sql(`UPDATE {term} SET ended_at = {epoch} + INTERVAL ? MICROSECOND, why = ? WHERE grp = ? AND token = ?`),
		terms: sql(`
SELECT {term fields} FROM {term} t WHERE grp = ? AND (? = 0 OR began_at < {epoch} + INTERVAL ? MICROSECOND)
	AND (? = 0 OR ended_at IS NULL OR ended_at >= {epoch} + INTERVAL ? MICROSECOND)
ORDER BY token DESC LIMIT ?`),
		oldestEntries: sql(`SELECT {audit fields} FROM {audit} e FORCE INDEX (by_group) WHERE grp = ? ORDER BY id LIMIT ?`),
		oldestTerms:   sql(`SELECT {term fields} FROM {term} t WHERE grp = ? ORDER BY token LIMIT ?`),
		inAll: sql(`
SELECT (SELECT COUNT(*) FROM {audit} FORCE INDEX (by_group) WHERE grp = ?), (SELECT COUNT(*) FROM {term} WHERE grp = ?)`),

		// There is a row where the run has no attempts.
		attempts: sql(`
SELECT a.attempt IS NOT NULL, {run fields}, {attempt fields}
FROM {run} r LEFT JOIN {attempt} a ON a.grp = r.grp AND a.job = r.job AND a.tick = r.tick AND a.trigger_id = r.trigger_id
	AND a.claimed_at = r.claimed_at
WHERE r.grp = ? AND r.job = ? AND r.tick = ? AND r.trigger_id = ?
ORDER BY a.attempt`),

		names: sql(`SELECT name, paused FROM {job} WHERE grp = ? AND name > _binary'' ORDER BY name`),
		// It ends the query of all jobs.
		ofNames: sql(` AND j.name IN (?)`),

		// Those of one job, which are joined by UNION ALL.
		newestOf: sql(`
(SELECT {run fields} FROM {run} r FORCE INDEX (PRIMARY)
WHERE r.grp = ? AND r.job = ? AND r.tick >= ? AND r.tick <= ? AND r.state > ? ORDER BY r.tick DESC, r.trigger_id DESC LIMIT ?)`),
		cutOf: sql(`
(SELECT job, tick FROM {run} FORCE INDEX (PRIMARY)
WHERE grp = ? AND job = ? AND tick >= ? AND tick <= ? ORDER BY tick DESC, trigger_id DESC LIMIT 1 OFFSET ?)`),
		cutIn: sql(`
(SELECT _binary'', tick FROM {run} FORCE INDEX (by_state)
WHERE grp = ? AND state = ? AND tick >= ? AND tick <= ? ORDER BY tick DESC, job DESC, trigger_id DESC LIMIT 1 OFFSET ?)`),
		countOf: sql(`
(SELECT job, (tick - ?) DIV ? AS bucket, state, COUNT(*) FROM {run} FORCE INDEX (PRIMARY)
WHERE grp = ? AND job = ? AND tick >= ? AND tick <= ? GROUP BY job, bucket, state)`),
		// Those of several jobs, unless they are too many: then it counts that many.
		countFew: sql(`
SELECT job, (tick - ?) DIV ? AS bucket, state, COUNT(*) FROM (
	SELECT job, tick, state FROM {run} FORCE INDEX (PRIMARY) WHERE grp = ? AND job IN (?) AND tick >= ? AND tick <= ? LIMIT ?) few
GROUP BY job, bucket, state`),
		countIn: sql(`
(SELECT _binary'', (tick - ?) DIV ? AS bucket, state, COUNT(*) FROM {run} FORCE INDEX (by_state)
WHERE grp = ? AND state = ? AND tick >= ? AND tick <= ? GROUP BY bucket, state)`),
	}
}
