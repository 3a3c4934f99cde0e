package mysqlstore

import (
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// archiveQueries are the statements about what people look at later.
type archiveQueries struct {
	note       sqltext.Query
	audit      sqltext.Query
	auditOfJob sqltext.Query
	oldAudit   sqltext.Query
	extraAudit sqltext.Query
	pruneAudit sqltext.Query

	beginTerm  sqltext.Query
	endTerm    sqltext.Query
	endBefore  sqltext.Query
	terms      sqltext.Query
	oldTerms   sqltext.Query
	extraTerms sqltext.Query
	pruneTerms sqltext.Query

	attempts      sqltext.Query
	names         sqltext.Query
	ofNames       sqltext.Query
	newestOf      sqltext.Query
	cutOf         sqltext.Query
	cutIn         sqltext.Query
	countOf       sqltext.Query
	countFew      sqltext.Query
	countIn       sqltext.Query
	probeNote     sqltext.Query
	probeTerm     sqltext.Query
	probeAttempts sqltext.Query
}

func newArchiveQueries(t tables) *archiveQueries {
	sql := func(statement string) sqltext.Query {
		return t.query(statement, "{epoch}", "TIMESTAMP'1970-01-01 00:00:00.000000'")
	}
	return &archiveQueries{
		// The tick is a number or NULL.
		note: sql(`
INSERT INTO {audit} (grp, at, actor, via, action, job, tick, trigger_id, note, result)
VALUES (?, UTC_TIMESTAMP(6), ?, ?, ?, ?, ?, ?, ?, ?)`),
		audit: sql(`
SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at), actor, via, action, job, tick, trigger_id, note, result
FROM {audit} FORCE INDEX (by_group) WHERE grp = ? AND id < ? ORDER BY id DESC LIMIT ?`),
		auditOfJob: sql(`
SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at), actor, via, action, job, tick, trigger_id, note, result
FROM {audit} FORCE INDEX (by_job) WHERE grp = ? AND job = ? AND id < ? ORDER BY id DESC LIMIT ?`),
		// Pruning looks at the oldest ones, and at the first that is too many.
		oldAudit: sql(`
SELECT id, at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND FROM {audit} FORCE INDEX (by_group)
WHERE grp = ? ORDER BY id LIMIT ?`),
		extraAudit: sql(`SELECT id FROM {audit} FORCE INDEX (by_group) WHERE grp = ? ORDER BY id DESC LIMIT 1 OFFSET ?`),
		pruneAudit: sql(`DELETE FROM {audit} WHERE grp = ? AND id <= ?`),

		beginTerm: sql(`
INSERT INTO {term} (grp, token, owner, began_at, ended_at, early, why)
VALUES (?, ?, ?, UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND, NULL, ?, _binary'')
ON DUPLICATE KEY UPDATE grp = {term}.grp`),
		endTerm: sql(`
UPDATE {term} SET ended_at = GREATEST(began_at, UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND), why = ? WHERE grp = ? AND token = ?`),
		endBefore: sql(`
UPDATE {term} SET ended_at = GREATEST(began_at, {epoch} + INTERVAL ? MICROSECOND), why = ?
WHERE grp = ? AND token < ? AND ended_at IS NULL`),
		terms: sql(`
SELECT token, owner, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', began_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at), early, why
FROM {term} WHERE grp = ? AND (? = 0 OR began_at < {epoch} + INTERVAL ? MICROSECOND)
	AND (? = 0 OR ended_at IS NULL OR ended_at >= {epoch} + INTERVAL ? MICROSECOND)
ORDER BY token DESC LIMIT ?`),
		oldTerms: sql(`
SELECT token, COALESCE(ended_at, began_at) < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND FROM {term}
WHERE grp = ? ORDER BY token LIMIT ?`),
		extraTerms: sql(`SELECT token FROM {term} WHERE grp = ? ORDER BY token DESC LIMIT 1 OFFSET ?`),
		pruneTerms: sql(`DELETE FROM {term} WHERE grp = ? AND token <= ?`),

		// There is a row where the run has no attempts.
		attempts: sql(`
SELECT COALESCE(a.attempt, 0), COALESCE(a.state, 0), COALESCE(a.owner, _binary''), COALESCE(a.token, 0),
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', a.started_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', a.finished_at),
	COALESCE(a.error, _binary''), COALESCE(a.output, _binary''), ` + runColumns + `
FROM {run} r LEFT JOIN {attempt} a ON a.grp = r.grp AND a.job = r.job AND a.tick = r.tick AND a.trigger_id = r.trigger_id
	AND a.claimed_at = r.claimed_at
WHERE r.grp = ? AND r.job = ? AND r.tick = ? AND r.trigger_id = ?
ORDER BY a.attempt`),

		names: sql(`SELECT name, paused FROM {job} WHERE grp = ? AND name > _binary'' ORDER BY name`),
		// It ends the query of all jobs.
		ofNames: sql(` AND j.name IN (?)`),

		// Those of one job, which are joined by UNION ALL.
		newestOf: sql(`
(SELECT ` + runColumns + ` FROM {run} r FORCE INDEX (PRIMARY)
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

		// What Check asks for.
		probeNote: sql(`
INSERT INTO {audit} (grp, at, actor, via, action, job, tick, trigger_id, note, result)
SELECT _binary'', UTC_TIMESTAMP(6), _binary'', _binary'', _binary'', _binary'', 0, 0, _binary'', _binary'' FROM DUAL WHERE FALSE`),
		probeTerm: sql(`
INSERT INTO {term} (grp, token, owner, began_at, ended_at, early, why)
SELECT _binary'', 0, _binary'', UTC_TIMESTAMP(6), NULL, 0, _binary'' FROM DUAL WHERE FALSE`),
		probeAttempts: sql(`
INSERT INTO {attempt} (grp, job, tick, trigger_id, attempt, claimed_at, state, owner, token, started_at, finished_at, error, output)
SELECT _binary'', _binary'', 0, 0, 0, UTC_TIMESTAMP(6), 0, _binary'', 0, NULL, NULL, _binary'', _binary'' FROM DUAL WHERE FALSE
ON DUPLICATE KEY UPDATE attempt = {attempt}.attempt`),
	}
}
