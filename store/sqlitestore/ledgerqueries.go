package sqlitestore

import (
	"fmt"
	"strings"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

const (
	// runColumns are those that all runs have.
	runColumns = `job, tick, trigger_id, claim_id, state, owner, token, attempt,
  claimed_at, started_at, finished_at, due_at, missed, error, cancel_asked`

	// shownColumns are what eachRun reads.
	shownColumns = runColumns + `, args IS NOT NULL, coalesce(backfill, ''), details`
)

// newLedgerQueries returns the statements about runs and jobs. INDEXED BY, CROSS JOIN, and a + before the state, which then
// is in no index, leave no plan to the optimizer: it may believe that the tables are small.
func newLedgerQueries(clock string) sqlledger.LedgerQueries {
	text := strings.NewReplacer(
		"{now}", "("+clock+")",
		"{columns}", runColumns,
		"{shown}", shownColumns,
	)
	newestOf := func(state string) string {
		return text.Replace(`
SELECT {shown} FROM cronlease_run INDEXED BY cronlease_run_by_state
WHERE grp = ?1 AND tick >= ?2 AND tick <= ?4 AND (?5 = 0 OR (tick, job, trigger_id) < (?6, ?7, ?8)) AND state = ` + state)
	}
	const byAge = `
ORDER BY tick DESC, job DESC, trigger_id DESC LIMIT ?3`
	var states []string
	for state := jobs.Running; state <= jobs.Interrupted; state++ {
		states = append(states, newestOf(fmt.Sprint(uint8(state))))
	}
	return sqlledger.LedgerQueries{
		Group: text.Replace(`
SELECT {now}, schema.file, coalesce(g.changes, 0), coalesce(g.paused, 0), coalesce(g.pauses, ''), f.owner, f.token, o.schedule, o.schedule_since
FROM cronlease_schema AS schema LEFT JOIN cronlease_group AS g ON g.name = ?1 LEFT JOIN cronlease_fence AS f ON f.name = ?1
LEFT JOIN cronlease_job AS o ON o.grp = ?1 AND o.name = ''`),
		// That of a session, in place of the group's.
		Fence: `SELECT owner, token FROM cronlease_fence WHERE name = ?1`,

		Jobs: `
SELECT j.name, 1, j.schedule, j.since, j.schedule_since, j.paused, j.pauses, j.started_at, j.finished_at, j.gone_at, j.failing, c.tick
FROM cronlease_job AS j LEFT JOIN cronlease_cursor AS c ON c.grp = j.grp AND c.job = j.name
WHERE j.grp = ?1 AND j.name > ''`,
		// ?2 is a JSON array of names. Jobs that the ledger does not know may have a cursor.
		JobsOf: `
SELECT w.value, j.name IS NOT NULL, coalesce(j.schedule, ''), coalesce(j.since, 0), coalesce(j.schedule_since, 0), coalesce(j.paused, 0),
  coalesce(j.pauses, ''), j.started_at, j.finished_at, j.gone_at, coalesce(j.failing, 0), c.tick
FROM json_each(?2) AS w LEFT JOIN cronlease_job AS j ON j.grp = ?1 AND j.name = w.value AND j.name > ''
LEFT JOIN cronlease_cursor AS c ON c.grp = ?1 AND c.job = w.value`,

		OpenRuns: text.Replace(`
SELECT {shown} FROM cronlease_run INDEXED BY cronlease_run_by_state
WHERE grp = ?1 AND state IN (1, 2)
ORDER BY tick, job, trigger_id`),
		OpenRunsOf: text.Replace(`
SELECT {shown} FROM cronlease_run INDEXED BY cronlease_run_by_state
WHERE grp = ?1 AND state IN (1, 2) AND owner = ?2
ORDER BY tick, job, trigger_id`),
		CountOpen: `SELECT count(*) FROM cronlease_run INDEXED BY cronlease_run_by_state WHERE grp = ?1 AND job = ?2 AND state IN (1, 2)`,

		ReadRuns: text.Replace(`
SELECT {shown} FROM json_each(?2) AS k CROSS JOIN cronlease_run
WHERE grp = ?1 AND job = k.value ->> 0 AND tick = k.value ->> 1 AND trigger_id = k.value ->> 2`),
		RunsAt:    text.Replace(`SELECT {shown} FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick = ?3`),
		RunsLater: text.Replace(`SELECT {shown} FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick > ?3 ORDER BY tick, trigger_id`),
		Args:      `SELECT args FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4`,

		// What never changes in a run is not written again. Triggers raise the cursor, and
		// write to the job of a run that ends.
		PutRun: text.Replace(`
INSERT INTO cronlease_run (grp, {columns}, verdict, args, backfill, details)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, CAST(?15 AS TEXT), ?16, ?17, ?18, ?19, ?20)
ON CONFLICT (grp, job, tick, trigger_id) DO UPDATE SET state = excluded.state, owner = excluded.owner,
  token = excluded.token, attempt = excluded.attempt, started_at = excluded.started_at, finished_at = excluded.finished_at,
  due_at = excluded.due_at, error = excluded.error, cancel_asked = excluded.cancel_asked, verdict = excluded.verdict,
  details = excluded.details`),
		Rekey: `
UPDATE cronlease_run SET tick = ?5, trigger_id = ?6, claim_id = ?7, finished_at = ?8, missed = ?9
WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4`,
		// After rekey, the cursor goes to the newest tick that there is, or, where there is none, away.
		Rewind: `
UPDATE cronlease_cursor SET tick = coalesce((
  SELECT tick FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND trigger_id = 0 ORDER BY tick DESC LIMIT 1), ?3)
WHERE grp = ?1 AND job = ?2`,
		DropCursor: `DELETE FROM cronlease_cursor WHERE grp = ?1 AND job = ?2 AND tick = ?3`,

		// The job without a name is the group's own: its schedule is the token of the
		// term that declared last, and schedule_since is when it did so first.
		PutJob: `
INSERT INTO cronlease_job (grp, name, schedule, since, schedule_since, paused, gone_at) VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)
ON CONFLICT (grp, name) DO UPDATE SET schedule = excluded.schedule, schedule_since = excluded.schedule_since, gone_at = excluded.gone_at`,
		// By itself, since a trigger counts each write of this column as a change.
		SetPaused: `UPDATE cronlease_job SET paused = ?3, pauses = ?4 WHERE grp = ?1 AND name = ?2`,
		PutGroup: `
INSERT INTO cronlease_group (name, changes, paused, pauses) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET changes = excluded.changes, paused = excluded.paused, pauses = excluded.pauses`,
		// The trigger deletes the runs.
		Forget: `DELETE FROM cronlease_job WHERE grp = ?1 AND name = ?2`,

		// The newest of each state, merged.
		NewestRuns:    strings.Join(states, "\nUNION ALL") + byAge,
		NewestOfState: newestOf("?9") + byAge,
		NewestOfJob: text.Replace(`
SELECT {shown} FROM cronlease_run
WHERE grp = ?1 AND job = ?10 AND tick >= ?2 AND tick <= ?4 AND (?5 = 0 OR (tick, job, trigger_id) < (?6, ?7, ?8))
  AND (?9 = 0 OR +state = ?9)
ORDER BY tick DESC, trigger_id DESC LIMIT ?3`),

		Prune: text.Replace(`
DELETE FROM cronlease_run
WHERE grp = ?1 AND job = ?2 AND (tick, trigger_id) IN (
  SELECT tick, trigger_id FROM (
    SELECT tick, trigger_id, state, finished_at FROM cronlease_run
    WHERE grp = ?1 AND job = ?2 ORDER BY tick, trigger_id LIMIT ?6)
  WHERE +state > 2
    AND (trigger_id > 0 OR tick <> (SELECT tick FROM cronlease_cursor WHERE grp = ?1 AND job = ?2))
    AND (?4 > 0 AND finished_at < (SELECT {now}) - ?4
      OR ?3 > 0 AND (tick, trigger_id) <= (
        SELECT tick, trigger_id FROM cronlease_run
        WHERE grp = ?1 AND job = ?2 ORDER BY tick DESC, trigger_id DESC LIMIT 1 OFFSET ?3))
  ORDER BY tick, trigger_id LIMIT ?5)`),
	}
}
