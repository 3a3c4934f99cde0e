package sqlitestore

import (
	"strings"

	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

func newArchiveQueries(clock string) sqlledger.ArchiveQueries {
	text := strings.NewReplacer("{now}", "("+clock+")", "{shown}", shownColumns,
		"{entry}", "id, at, actor, via, action, job, tick, trigger_id, note, result",
	)
	return sqlledger.ArchiveQueries{
		Note: text.Replace(`
INSERT INTO cronlease_audit (grp, at, actor, via, action, job, tick, trigger_id, note, result)
VALUES (?1, {now}, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`),
		Audit: text.Replace(`
SELECT {entry} FROM cronlease_audit INDEXED BY cronlease_audit_by_group
WHERE grp = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3`),
		AuditOfJob: text.Replace(`
SELECT {entry} FROM cronlease_audit INDEXED BY cronlease_audit_by_job
WHERE grp = ?1 AND job = ?4 AND id < ?2 ORDER BY id DESC LIMIT ?3`),
		Had: `
SELECT (SELECT count(*) FROM cronlease_audit INDEXED BY cronlease_audit_by_group WHERE grp = ?1), (SELECT count(*) FROM cronlease_term WHERE grp = ?1)`,
		Oldest:    `SELECT id, at FROM cronlease_audit INDEXED BY cronlease_audit_by_group WHERE grp = ?1 ORDER BY id LIMIT ?2`,
		DropEntry: `DELETE FROM cronlease_audit WHERE id = ?2 AND grp = ?1`,

		PutTerm: `
INSERT INTO cronlease_term (grp, token, owner, began_at, ended_at, early, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (grp, token) DO UPDATE SET ended_at = excluded.ended_at, why = excluded.why`,
		OpenTerms: `
SELECT token, owner, began_at, ended_at, early, why FROM cronlease_term
WHERE grp = ?1 AND (token = ?2 OR ended_at IS NULL)`,
		Terms: `
SELECT token, owner, began_at, ended_at, early, why FROM cronlease_term
WHERE grp = ?1 AND began_at <= ?2 AND (ended_at IS NULL OR ended_at >= ?3)
ORDER BY token DESC LIMIT ?4`,
		FirstTerms: `
SELECT token, owner, began_at, ended_at, early, why FROM cronlease_term WHERE grp = ?1 ORDER BY token LIMIT ?2`,
		DropTerm: `DELETE FROM cronlease_term WHERE grp = ?1 AND token = ?2`,

		Keep: `
INSERT OR REPLACE INTO cronlease_attempt (grp, job, tick, trigger_id, attempt, state, owner, token, started_at, finished_at, error, output)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, CAST(?11 AS TEXT), ?12)`,
		Drop: `DELETE FROM cronlease_attempt WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4 AND attempt <= ?5`,
		Run:  text.Replace(`SELECT {shown} FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4`),
		Attempts: `
SELECT attempt, state, owner, token, started_at, finished_at, error, output FROM cronlease_attempt
WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4 ORDER BY attempt`,

		Names: `SELECT name, paused FROM cronlease_job WHERE grp = ?1 AND name > '' ORDER BY name`,

		Newest: text.Replace(`
SELECT {shown} FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick >= ?3 AND tick <= ?4 AND +state > ?5
ORDER BY tick DESC, trigger_id DESC LIMIT ?6`),
		// ?2 is a job, or a state.
		CutOf: `
SELECT tick FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick >= ?3 AND tick <= ?4
ORDER BY tick DESC LIMIT 1 OFFSET ?5`,
		CutAll: `
SELECT tick FROM cronlease_run INDEXED BY cronlease_run_by_state WHERE grp = ?1 AND state = ?2 AND tick >= ?3 AND tick <= ?4
ORDER BY tick DESC LIMIT 1 OFFSET ?5`,
		CountOf: `
SELECT (tick - ?5) / ?6 AS bucket, state, count(*) FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick >= ?3 AND tick <= ?4
GROUP BY bucket, +state`,
		CountAll: `
SELECT (tick - ?5) / ?6 AS bucket, state, count(*) FROM cronlease_run INDEXED BY cronlease_run_by_state
WHERE grp = ?1 AND state = ?2 AND tick >= ?3 AND tick <= ?4 GROUP BY bucket, state`,
	}
}
