package sqlitestore

import "strings"

// archiveQueries are the statements about what people look at later; see [queries].
type archiveQueries struct {
	note, audit, auditOfJob                         string
	had, oldest, dropEntry                          string
	putTerm, openTerms, terms, firstTerms, dropTerm string
	keep, drop, run, attempts                       string
	names, newest, cutOf, cutAll, countOf, countAll string
}

func newArchiveQueries(clock string) archiveQueries {
	text := strings.NewReplacer("{now}", "("+clock+")", "{shown}", shownColumns,
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
		had: `
SELECT (SELECT count(*) FROM cronlease_audit INDEXED BY cronlease_audit_by_group WHERE grp = ?1), (SELECT count(*) FROM cronlease_term WHERE grp = ?1)`,
		oldest:    `SELECT id, at FROM cronlease_audit INDEXED BY cronlease_audit_by_group WHERE grp = ?1 ORDER BY id LIMIT ?2`,
		dropEntry: `DELETE FROM cronlease_audit WHERE id = ?2 AND grp = ?1`,

		putTerm: `
INSERT INTO cronlease_term (grp, token, owner, began_at, ended_at, early, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (grp, token) DO UPDATE SET ended_at = excluded.ended_at, why = excluded.why`,
		openTerms: `
SELECT token, owner, began_at, ended_at, early, why FROM cronlease_term
WHERE grp = ?1 AND (token = ?2 OR ended_at IS NULL)`,
		terms: `
SELECT token, owner, began_at, ended_at, early, why FROM cronlease_term
WHERE grp = ?1 AND began_at <= ?2 AND (ended_at IS NULL OR ended_at >= ?3)
ORDER BY token DESC LIMIT ?4`,
		firstTerms: `
SELECT token, owner, began_at, ended_at, early, why FROM cronlease_term WHERE grp = ?1 ORDER BY token LIMIT ?2`,
		dropTerm: `DELETE FROM cronlease_term WHERE grp = ?1 AND token = ?2`,

		keep: `
INSERT OR REPLACE INTO cronlease_attempt (grp, job, tick, trigger_id, attempt, state, owner, token, started_at, finished_at, error, output)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)`,
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
