package sqlitestore

import (
	"fmt"
	"strings"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// ledgerQueries are the statements of the ledger; see [queries]. Lists of rows
// come in as a JSON array. Writes for a holder compare the fence row themselves:
// SQLite has one writer at a time, so that no takeover comes in between.
//
// INDEXED BY, CROSS JOIN, and a + before the state, which then is in no index,
// leave no plan to the optimizer: it may believe that the tables are small.
type ledgerQueries struct {
	declare, current, group, opened              string
	jobs, jobsOf, openRuns                       string
	claim, move, follow, readRuns                string
	extend, extendCursor                         string
	passOver, rewind, forget                     string
	pauseJob, pauseGroup, resumeJob, resumeGroup string
	resumeJobSkipping, resumeGroupSkipping       string
	isJob, trigger, args, cancel, isOpen         string
	newest, newestOfJob, newestOfState, prune    string
}

const (
	// runColumns are those that all runs have.
	runColumns = `job, tick, trigger_id, claim_id, state, owner, token, attempt,
  claimed_at, started_at, finished_at, due_at, missed, error, cancel_asked`

	// shownColumns are what eachRun reads.
	shownColumns = runColumns + `, args IS NOT NULL, coalesce(backfill, '')`

	// manualBelow is above all numbers that this store gives to triggers: those of
	// the scheduler are larger.
	manualBelow = 1 << 51
)

func newLedgerQueries(clock string) ledgerQueries {
	text := strings.NewReplacer(
		"{now}", "("+clock+")",
		// One instant for all rows of a statement.
		"{instant}", "WITH instant (now) AS MATERIALIZED (SELECT ("+clock+"))",
		"{columns}", runColumns,
		"{shown}", shownColumns,
		"{begun}", `substr(pauses, 1, length(pauses) - length(pauses) % 36) || printf('%017d-', (`+clock+`))`,
		"{ended}", `substr(CASE WHEN length(pauses) % 36 = 0 THEN pauses || '00000000000000000-' ELSE pauses END
  || printf('%017d,', (`+clock+`)), -36 * `+fmt.Sprint(store.MaxPauses)+`)`,
		// The same with a beginning that is not known.
		"{skipped}", `substr(substr(pauses, 1, length(pauses) - length(pauses) % 36) || '00000000000000000-'
  || printf('%017d,', (`+clock+`)), -36 * `+fmt.Sprint(store.MaxPauses)+`)`,
	)
	newestOf := func(state string) string {
		return text.Replace(`
SELECT {shown} FROM cronlease_run INDEXED BY cronlease_run_by_state
WHERE grp = ?1 AND tick >= ?2 AND tick <= ?4 AND (?5 = 0 OR (tick, job, trigger_id) < (?6, ?7, ?8)) AND state = ` + state)
	}
	const allJobs = `
SELECT j.name, j.schedule, j.since, j.schedule_since, j.paused, j.pauses, j.started_at, j.finished_at, j.gone_at, j.failing, c.tick
FROM cronlease_job AS j LEFT JOIN cronlease_cursor AS c ON c.grp = j.grp AND c.job = j.name
WHERE j.grp = ?1 AND j.name > ''`
	const byAge = `
ORDER BY tick DESC, job DESC, trigger_id DESC LIMIT ?3`
	var states []string
	for state := jobs.Running; state <= jobs.Interrupted; state++ {
		states = append(states, newestOf(fmt.Sprint(uint8(state))))
	}
	return ledgerQueries{
		// ?1 is a JSON array of [name, schedule, when it comes into force if it has
		// changed]. The row without a name is the group's own: its schedule is
		// the token of the term that declared last, and schedule_since is when
		// it did so first.
		declare: text.Replace(`{instant}
INSERT INTO cronlease_job (grp, name, schedule, since, schedule_since, paused)
SELECT f.name, d.value ->> 0, d.value ->> 1, instant.now, instant.now, 0
FROM cronlease_fence AS f CROSS JOIN instant CROSS JOIN json_each(?1) AS d
WHERE f.name = ?2 AND f.owner = ?3 AND f.token = ?4
ON CONFLICT (grp, name) DO UPDATE SET schedule = excluded.schedule, gone_at = NULL,
  schedule_since = min(excluded.schedule_since, CASE
    WHEN schedule = excluded.schedule AND schedule_since <= excluded.schedule_since THEN schedule_since
    ELSE max(iif(schedule_since > excluded.schedule_since, 0, schedule_since),
      (SELECT d.value ->> 2 FROM json_each(?1) AS d WHERE d.value ->> 0 = excluded.name)) END)
WHERE schedule <> excluded.schedule OR schedule_since > excluded.schedule_since OR gone_at IS NOT NULL`),

		current: `SELECT count(*) FROM cronlease_fence WHERE name = ?1 AND owner = ?2 AND token = ?3`,

		group: text.Replace(`
SELECT {now}, (SELECT file FROM cronlease_schema), coalesce(g.changes, 0), coalesce(g.paused, 0), coalesce(g.pauses, '')
FROM (SELECT 1) LEFT JOIN cronlease_group AS g ON g.name = ?1`),

		opened: `SELECT schedule, schedule_since FROM cronlease_job WHERE grp = ?1 AND name = ''`,

		jobs:   allJobs,
		jobsOf: allJobs + ` AND j.name IN (SELECT value FROM json_each(?2))`,

		openRuns: text.Replace(`
SELECT {shown} FROM cronlease_run INDEXED BY cronlease_run_by_state
WHERE grp = ?1 AND state IN (1, 2)
ORDER BY tick, job, trigger_id`),

		// ?1 is a JSON array of [job, tick, trigger, state, delay, missed, error in
		// hexadecimal]. Rows that are there stay as they are. Nothing is returned when
		// the fence row is another term's. Since the insert has a trigger, SQLite
		// selects all rows before it inserts one: so it reads the previous cursor.
		claim: text.Replace(`{instant}
INSERT INTO cronlease_run (grp, {columns})
SELECT f.name, c.value ->> 0, c.value ->> 1, c.value ->> 2, ?5, c.value ->> 3, f.owner, f.token, c.value ->> 3 = 1,
  instant.now,
  CASE WHEN c.value ->> 3 = 1 THEN instant.now END,
  CASE WHEN c.value ->> 3 > 2 THEN instant.now END,
  CASE WHEN c.value ->> 3 = 2 THEN instant.now + (c.value ->> 4) END,
  c.value ->> 5, CAST(unhex(c.value ->> 6) AS TEXT), 0
FROM cronlease_fence AS f CROSS JOIN instant CROSS JOIN json_each(?1) AS c
WHERE f.name = ?2 AND f.owner = ?3 AND f.token = ?4
  AND (c.value ->> 2 > 0
    OR NOT EXISTS (SELECT 1 FROM cronlease_cursor WHERE grp = ?2 AND job = c.value ->> 0 AND tick >= c.value ->> 1)
    AND (c.value ->> 3 > 2
      OR NOT EXISTS (SELECT 1 FROM cronlease_job WHERE grp = ?2 AND name = c.value ->> 0 AND paused = 1)
      AND NOT EXISTS (SELECT 1 FROM cronlease_group WHERE name = ?2 AND paused = 1)))
ON CONFLICT (grp, job, tick, trigger_id) DO NOTHING
RETURNING {shown}`),

		// The cursor follows in the same transaction.
		extend: text.Replace(`
UPDATE cronlease_run SET tick = ?6, claim_id = ?7, finished_at = {now}, missed = missed + 1 + ?8
WHERE grp = ?1 AND job = ?4 AND tick = ?5 AND trigger_id = 0 AND ?6 > ?5
  AND +state = ` + fmt.Sprint(uint8(jobs.Skipped)) + ` AND owner = ?2 AND token = ?3 AND error = CAST(unhex(?9) AS TEXT)
  AND EXISTS (SELECT 1 FROM cronlease_fence WHERE name = ?1 AND owner = ?2 AND token = ?3)
  AND EXISTS (SELECT 1 FROM cronlease_cursor WHERE grp = ?1 AND job = ?4 AND tick = ?5)`),
		extendCursor: `UPDATE cronlease_cursor SET tick = ?4 WHERE grp = ?1 AND job = ?2 AND tick = ?3`,

		// ?1 is a JSON array of [job, tick, trigger, from, attempt, owner, token, to,
		// delay, error in hexadecimal, attempt after, verdict]. A row that is as the move
		// wants it, by a repetition, is left alone. Every row conflicts, with itself:
		// UPDATE FROM cannot be kept from reading all runs for each of the list.
		move: text.Replace(`{instant}
INSERT INTO cronlease_run (grp, {columns}, verdict)
SELECT r.grp, r.job, r.tick, r.trigger_id, r.claim_id, m.value ->> 7, f.owner, f.token, m.value ->> 10, r.claimed_at,
  CASE WHEN m.value ->> 7 = 1 THEN instant.now ELSE r.started_at END,
  CASE WHEN m.value ->> 7 > 2 THEN instant.now ELSE r.finished_at END,
  CASE WHEN m.value ->> 7 = 2 THEN instant.now + (m.value ->> 8) ELSE r.due_at END,
  r.missed, CAST(unhex(m.value ->> 9) AS TEXT),
  r.cancel_asked, CASE WHEN m.value ->> 7 > 2 THEN nullif(m.value ->> 11, 0) END
FROM cronlease_fence AS f CROSS JOIN instant CROSS JOIN json_each(?1) AS m CROSS JOIN cronlease_run AS r
WHERE f.name = ?2 AND f.owner = ?3 AND f.token = ?4
  AND r.grp = ?2 AND r.job = m.value ->> 0 AND r.tick = m.value ->> 1 AND r.trigger_id = m.value ->> 2
  AND +r.state = m.value ->> 3 AND r.attempt = m.value ->> 4 AND r.owner = m.value ->> 5 AND r.token = m.value ->> 6
  AND (r.state, r.attempt, r.owner, r.token) IS NOT (m.value ->> 7, m.value ->> 10, f.owner, f.token)
ON CONFLICT (grp, job, tick, trigger_id) DO UPDATE SET state = excluded.state, owner = excluded.owner,
  token = excluded.token, attempt = excluded.attempt, started_at = excluded.started_at, finished_at = excluded.finished_at,
  due_at = excluded.due_at, error = excluded.error, verdict = excluded.verdict
RETURNING {shown}`),

		// ?1 is a JSON array of [job, tick, trigger, delay, backfill, the key of the run that
		// was moved or claimed, and its own arguments in hexadecimal].
		follow: text.Replace(`{instant}
INSERT INTO cronlease_run (grp, {columns}, args, backfill)
SELECT r.grp, f.value ->> 0, f.value ->> 1, f.value ->> 2, x'', 2, r.owner, r.token, 0,
  instant.now, NULL, NULL, instant.now + (f.value ->> 3), 0, '', 0, coalesce(nullif(unhex(f.value ->> 8), x''), r.args), nullif(f.value ->> 4, '')
FROM instant CROSS JOIN json_each(?1) AS f CROSS JOIN cronlease_run AS r
WHERE r.grp = ?2 AND r.job = f.value ->> 5 AND r.tick = f.value ->> 6 AND r.trigger_id = f.value ->> 7
  AND (f.value ->> 4 = '' OR r.cancel_asked = 0)
ON CONFLICT (grp, job, tick, trigger_id) DO NOTHING`),

		// After passOver, the cursor goes back to the newest tick that is left,
		// or, where none is, away.
		passOver: `
UPDATE cronlease_run SET trigger_id = ?1 WHERE grp = ?2 AND job = ?3 AND tick > ?4 AND trigger_id = 0 AND token <> ?1`,
		rewind: `
UPDATE cronlease_cursor SET tick = coalesce((
  SELECT tick FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND trigger_id = 0 ORDER BY tick DESC LIMIT 1), ?3)
WHERE grp = ?1 AND job = ?2`,
		forget: `DELETE FROM cronlease_cursor WHERE grp = ?1 AND job = ?2 AND tick = ?3`,

		// ?1 is a JSON array of [job, tick, trigger].
		readRuns: text.Replace(`
SELECT {shown} FROM json_each(?1) AS k CROSS JOIN cronlease_run
WHERE grp = ?2 AND job = k.value ->> 0 AND tick = k.value ->> 1 AND trigger_id = k.value ->> 2`),

		// Those of a job count a change, by the trigger.
		pauseJob:  text.Replace(`UPDATE cronlease_job SET paused = 1, pauses = {begun} WHERE grp = ?1 AND name = ?2 AND paused = 0`),
		resumeJob: text.Replace(`UPDATE cronlease_job SET paused = 0, pauses = {ended} WHERE grp = ?1 AND name = ?2 AND paused = 1`),
		resumeJobSkipping: text.Replace(`
UPDATE cronlease_job SET paused = 0, pauses = {skipped} WHERE grp = ?1 AND name = ?2 AND paused = 1`),
		resumeGroupSkipping: text.Replace(`
UPDATE cronlease_group SET changes = changes + 1, paused = 0, pauses = {skipped} WHERE name = ?1 AND paused = 1`),
		isJob: `SELECT count(*) FROM cronlease_job WHERE grp = ?1 AND name = ?2`,
		pauseGroup: text.Replace(`
INSERT INTO cronlease_group (name, changes, paused, pauses) VALUES (?1, 1, 1, printf('%017d-', {now}))
ON CONFLICT (name) DO UPDATE SET changes = changes + 1, paused = 1, pauses = {begun} WHERE paused = 0`),
		resumeGroup: text.Replace(`
UPDATE cronlease_group SET changes = changes + 1, paused = 0, pauses = {ended} WHERE name = ?1 AND paused = 1`),

		// Both count a change, by the triggers; a second cancel request does not. ?3 is
		// the tick or NULL, ?4 the number or 0.
		trigger: text.Replace(`{instant}
INSERT INTO cronlease_run (grp, {columns}, args, backfill)
SELECT j.grp, j.name, coalesce(?3, instant.now),
  iif(?4 > 0, ?4, 1 + coalesce((SELECT max(trigger_id) FROM cronlease_run
    WHERE grp = ?1 AND job = ?2 AND tick = coalesce(?3, instant.now) AND trigger_id < ` + fmt.Sprint(manualBelow) + `), 0)),
  x'', 2, '', 0, 0, instant.now, NULL, NULL, instant.now, 0, '', 0, ?5, nullif(?6, '')
FROM cronlease_job AS j CROSS JOIN instant
WHERE j.grp = ?1 AND j.name = ?2 AND j.name > '' AND (SELECT count(*) FROM cronlease_run INDEXED BY cronlease_run_by_state
  WHERE grp = ?1 AND job = ?2 AND state IN (1, 2)) < ` + fmt.Sprint(jobs.MaxOpen) + `
ON CONFLICT (grp, job, tick, trigger_id) DO NOTHING
RETURNING tick, trigger_id`),
		args: `SELECT args FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4`,
		cancel: `
UPDATE cronlease_run SET cancel_asked = 1
WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4 AND +state <= 2 AND cancel_asked = 0`,
		isOpen: `SELECT count(*) FROM cronlease_run WHERE grp = ?1 AND job = ?2 AND tick = ?3 AND trigger_id = ?4 AND +state <= 2`,
		// The newest of each state, merged.
		newest:        strings.Join(states, "\nUNION ALL") + byAge,
		newestOfState: newestOf("?9") + byAge,
		newestOfJob: text.Replace(`
SELECT {shown} FROM cronlease_run
WHERE grp = ?1 AND job = ?10 AND tick >= ?2 AND tick <= ?4 AND (?5 = 0 OR (tick, job, trigger_id) < (?6, ?7, ?8))
  AND (?9 = 0 OR +state = ?9)
ORDER BY tick DESC, trigger_id DESC LIMIT ?3`),

		// ?3 is how many are kept at most, ?4 for how long; 0 is no bound. ?6 bounds
		// how many of the oldest are looked at.
		prune: text.Replace(`
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
