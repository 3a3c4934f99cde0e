package sqlitestore

import "strings"

// archiveQueries are the statements about what people look at later; see [queries].
type archiveQueries struct {
	note, audit, auditOfJob, pruneAudit              string
	beginTerm, endTerm, endBefore, terms, pruneTerms string
	keep, drop, run, attempts                        string
	names, newest, cutOf, cutAll, countOf, countAll  string
}

func newArchiveQueries(clock string) archiveQueries {
	text := strings.NewReplacer("{now}", "("+clock+")", "{shown}", shownColumns,
		"{instant}", "WITH instant (now) AS MATERIALIZED (SELECT ("+clock+"))",
		"{entry}", "id, at, actor, via, action, job, tick, trigger_id, note, result",
	)
	return archiveQueries{
		note: text.Replace(`
INSERT INTO cronlease_audit (grp, at, actor, via, action, job, tick, trigger_id, note, result)
VALUES (?1, {now}, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`),
		audit: text.Replace(`
SELECT {entry} FROM cronlease_audit INDEXED BY cronlease_audit_by_group
WHERE grp = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3`),
		auditOfJob: text.Replace(`
SELECT {entry} FROM cronlease_audit INDEXED BY cronlease_audit_by_job
WHERE grp = ?1 AND job = ?4 AND id < ?2 ORDER BY id DESC LIMIT ?3`),
		// ?2 is how many are kept, ?3 for how long, ?4 how many of the oldest are looked
		// at.
		pruneAudit: text.Replace(`
DELETE FROM cronlease_audit WHERE id IN (
  SELECT id FROM (SELECT id, at FROM cronlease_audit INDEXED BY cronlease_audit_by_group WHERE grp = ?1 ORDER BY id LIMIT ?4)
  WHERE at < (SELECT {now}) - ?3 OR id <= (
    SELECT id FROM cronlease_audit INDEXED BY cronlease_audit_by_group WHERE grp = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2))`),

		beginTerm: text.Replace(`
INSERT INTO cronlease_term (grp, token, owner, began_at, ended_at, early, why) VALUES (?1, ?2, ?3, {now} - ?4, NULL, ?5, '')
ON CONFLICT (grp, token) DO NOTHING`),
		endTerm: text.Replace(`UPDATE cronlease_term SET ended_at = max(began_at, {now} - ?3), why = ?4 WHERE grp = ?1 AND token = ?2`),
		endBefore: `
UPDATE cronlease_term SET ended_at = max(began_at, ?3), why = ?4 WHERE grp = ?1 AND token < ?2 AND ended_at IS NULL`,
		terms: `
SELECT token, owner, began_at, ended_at, early, why FROM cronlease_term
WHERE grp = ?1 AND began_at <= ?2 AND (ended_at IS NULL OR ended_at >= ?3)
ORDER BY token DESC LIMIT ?4`,
		pruneTerms: text.Replace(`
DELETE FROM cronlease_term WHERE grp = ?1 AND token IN (
  SELECT token FROM (SELECT token, coalesce(ended_at, began_at) AS at FROM cronlease_term WHERE grp = ?1 ORDER BY token LIMIT ?4)
  WHERE at < (SELECT {now}) - ?3 OR token <= (
    SELECT token FROM cronlease_term WHERE grp = ?1 ORDER BY token DESC LIMIT 1 OFFSET ?2))`),

		// What a move ends, before it does. ?1 is a JSON array of [job, tick, trigger,
		// from, attempt, owner, token, state, whether it has finished, error and output
		// in hexadecimal].
		keep: text.Replace(`{instant}
INSERT INTO cronlease_attempt (grp, job, tick, trigger_id, attempt, state, owner, token, started_at, finished_at, error, output)
SELECT r.grp, r.job, r.tick, r.trigger_id, r.attempt, m.value ->> 7, r.owner, r.token, r.started_at,
  iif(m.value ->> 8, instant.now, NULL), CAST(unhex(m.value ->> 9) AS TEXT), unhex(m.value ->> 10)
FROM cronlease_fence AS f CROSS JOIN instant CROSS JOIN json_each(?1) AS m CROSS JOIN cronlease_run AS r
WHERE f.name = ?2 AND f.owner = ?3 AND f.token = ?4
  AND r.grp = ?2 AND r.job = m.value ->> 0 AND r.tick = m.value ->> 1 AND r.trigger_id = m.value ->> 2
  AND +r.state = m.value ->> 3 AND r.attempt = m.value ->> 4 AND r.owner = m.value ->> 5 AND r.token = m.value ->> 6
ON CONFLICT (grp, job, tick, trigger_id, attempt) DO UPDATE SET state = excluded.state, owner = excluded.owner,
  token = excluded.token, started_at = excluded.started_at, finished_at = excluded.finished_at,
  error = excluded.error, output = excluded.output`),
		drop: `DELETE FROM cronlease_attempt WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4 AND attempt <= ?5`,
		run:  text.Replace(`SELECT {shown} FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4`),
		attempts: `
SELECT attempt, state, owner, token, started_at, finished_at, error, output FROM cronlease_attempt
WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4 ORDER BY attempt`,

		names: `SELECT name, paused FROM cronlease_job WHERE grp = ?1 AND name > '' ORDER BY name`,

		newest: text.Replace(`
SELECT {shown} FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick >= ?3 AND tick <= ?4 AND +state > ?5
ORDER BY tick DESC, trigger_id DESC LIMIT ?6`),
		// ?2 is a job, or a state.
		cutOf: `
SELECT tick FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick >= ?3 AND tick <= ?4
ORDER BY tick DESC LIMIT 1 OFFSET ?5`,
		cutAll: `
SELECT tick FROM cronlease_run INDEXED BY cronlease_run_by_state WHERE grp = ?1 AND state = ?2 AND tick >= ?3 AND tick <= ?4
ORDER BY tick DESC LIMIT 1 OFFSET ?5`,
		countOf: `
SELECT (tick - ?5) / ?6 AS bucket, state, count(*) FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick >= ?3 AND tick <= ?4
GROUP BY bucket, +state`,
		countAll: `
SELECT (tick - ?5) / ?6 AS bucket, state, count(*) FROM cronlease_run INDEXED BY cronlease_run_by_state
WHERE grp = ?1 AND state = ?2 AND tick >= ?3 AND tick <= ?4 GROUP BY bucket, state`,
	}
}
