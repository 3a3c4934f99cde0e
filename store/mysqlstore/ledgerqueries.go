package mysqlstore

import (
	"fmt"
	"strconv"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// ledgerQueries are the statements of the ledger. Lists of rows
// come in as a VALUES clause (see [sqltext.Values]) and are joined to {run} by its whole
// key in the order of the list, so that no plan is left to the optimizer and
// rows are locked in the order of their key.
//
// States are numbers here: 1 is Running, 2 is Waiting, and above 2 they are over.
type ledgerQueries struct {
	declare, hasFence                               sqltext.Query
	summary, jobs, openRuns, open, openOf, changes  sqltext.Query
	claim, extend, refused, readRuns                sqltext.Query
	move, movable, keepAttempts, dropAttempts       sqltext.Query
	follow, followClaim, passOver, passOverAttempts sqltext.Query
	spreadMove                                      sqltext.Query // of a holder that assigns
	trigger, triggerOnce, isRun, isJob, countOpen   sqltext.Query
	args, newestRuns, newestOfJob, newestIn         sqltext.Query
	bounds, keptFrom, prunable, prune               sqltext.Query
	orphans, pruneAttempts                          sqltext.Query

	// What the rules read and write.
	writeFence, lockFence                          sqltext.Query
	lockRun, lockJobs, putRun                      sqltext.Query
	insertJobs, updateJobs, forget, forgetAttempts sqltext.Query
}

const (
	micros = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`

	presentOf = `COALESCE({epoch} + INTERVAL NULLIF(v.present, 0) MICROSECOND, UTC_TIMESTAMP(6))`

	// open reads open runs, with what summary says of the group, so that a replica has its runs in one journey.
	open = `
SELECT r.grp IS NOT NULL, ` + micros + `, ` + changesOf + `,
	COALESCE(j.schedule, _binary''), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', j.schedule_since), COALESCE(j.paused, 0), {run fields}
FROM (SELECT 1) one LEFT JOIN {job} j ON j.grp = ? AND j.name = _binary''
LEFT JOIN {run} r FORCE INDEX (by_state) ON r.grp = ? AND r.state IN (1, 2)`
	byTick = `
ORDER BY r.tick, r.job, r.trigger_id`

	// isNoted says that a term has noted itself in the group's row before.
	isNoted = `(v.name = _binary'' AND SUBSTRING_INDEX({job}.schedule, _binary' ', 1) = SUBSTRING_INDEX(v.schedule, _binary' ', 1))`

	// changesOf is the group's counter mixed with the keys of the manual runs
	// that no term has taken up: so a trigger is one INSERT and nothing else. Without the hash, the
	// runs of two jobs that follow one at two ticks would cancel each other out.
	changesOf = `
	COALESCE((SELECT changes FROM {job} WHERE grp = ? AND name = _binary''), 0)
	^ (SELECT BIT_XOR(CAST(CONV(LEFT(SHA2(CONCAT_WS('.', tick, trigger_id, job), 256), 16), 16, 10) AS UNSIGNED)) FROM {run} FORCE INDEX (by_state) WHERE grp = ? AND state = 2 AND trigger_id > 0 AND token = 0)`

	// The first ? is an expression.
	trigger = `
INSERT INTO {run} ({run columns})
SELECT j.grp, j.name, ?, ?, _binary'', 2, _binary'', 0, 0,
	UTC_TIMESTAMP(6), NULL, NULL, UTC_TIMESTAMP(6), 0, _binary'', 0, ?, NULLIF(?, _binary''), NULL
FROM {job} j WHERE j.grp = ? AND j.name = ? AND j.name > _binary''`

	// What follows a run that the transaction has changed. The ? after the list is underRun or underNobody.
	follow = `
INSERT INTO {run} ({run columns})
WITH v (job, tick, trigger_id, delay, backfill, args, of_job, of_tick, of_trigger) AS (VALUES ?)
SELECT r.grp, v.job, v.tick, v.trigger_id, _binary'', 2, ?, 0,
	UTC_TIMESTAMP(6), NULL, NULL, UTC_TIMESTAMP(6) + INTERVAL v.delay MICROSECOND, 0, _binary'', 0,
	COALESCE(NULLIF(v.args, _binary''), r.args), NULLIF(v.backfill, _binary''), NULL
FROM v STRAIGHT_JOIN {run} r ON r.grp = ? AND r.job = v.of_job AND r.tick = v.of_tick AND r.trigger_id = CAST(v.of_trigger AS UNSIGNED)`
	underRun    = sqltext.Raw("r.owner, r.token")
	underNobody = sqltext.Raw("_binary'', 0")

	// The row is as the move expects it.
	expected = `r.state = v.state AND r.attempt = v.attempt AND r.owner = v.owner AND r.token = v.token`

	// The fence row is locked before any run. No expression reads what
	// another one assigns: in an UPDATE of several tables their order is
	// not said. (A run that is finished keeps its start.) A job's last
	// finish is of the same statement, and its latest start the latest of
	// what it was, that of one of the runs and v.started, since a row is
	// written once even if it is joined to several: v.verdict is the same in
	// all rows of a job. v.finished is empty where a move ends nothing, and so is the name
	// of the group's own row: it must not be joined, since the rows that change are counted.
	move = `
UPDATE (SELECT f.owner, f.token FROM {fence} f WHERE f.name = ? AND f.owner = ? AND f.token = ? LOCK IN SHARE MODE) h
STRAIGHT_JOIN (
	WITH v (job, tick, trigger_id, state, attempt, owner, token, to_state, delay, error, details, finished, started, verdict{assigned}) AS (VALUES ?) SELECT * FROM v
) v
STRAIGHT_JOIN {run} r ON r.grp = ? AND r.job = v.job AND r.tick = v.tick AND r.trigger_id = CAST(v.trigger_id AS UNSIGNED)
LEFT JOIN {job} j ON j.grp = ? AND j.name = v.finished AND v.finished > _binary''
SET r.state = v.to_state, r.owner = {to owner}, r.token = {to token}, r.error = v.error, r.details = NULLIF(v.details, _binary''),
	r.attempt = {to attempt},
	r.started_at = IF(v.to_state = 1, {start}, r.started_at),
	r.due_at = IF(v.to_state = 2, UTC_TIMESTAMP(6) + INTERVAL v.delay MICROSECOND, r.due_at),
	r.finished_at = IF(v.to_state > 2, UTC_TIMESTAMP(6), r.finished_at),
	j.finished_at = UTC_TIMESTAMP(6), j.failing = IF(v.verdict = 0, j.failing, v.verdict = 2),
	j.started_at = NULLIF(GREATEST(COALESCE(j.started_at, {epoch}), COALESCE(r.started_at, {epoch}), {epoch} + INTERVAL v.started MICROSECOND), {epoch})
WHERE {moves}`
)

func newLedgerQueries(t tables) *ledgerQueries {
	parts := []string{
		"{jobs}", "WITH v (name, schedule, since, schedule_since, paused, changes, pauses, gone) AS (VALUES ?)",
		// Both by the primary key: the newest tick is the end of a range, as above. It is from what the holder knows to
		// before the claim's.
		"{late}", fmt.Sprintf(`COALESCE((SELECT r.tick FROM {run} r FORCE INDEX (PRIMARY)
		WHERE r.grp = f.name AND r.job = v.job AND r.trigger_id = 0 ORDER BY r.grp DESC, r.job DESC, r.tick DESC LIMIT 1), %d)
		NOT BETWEEN v.known AND v.tick - 1`, noTick),
		"{paused}", `(COALESCE((SELECT j.paused FROM {job} j WHERE j.grp = f.name AND j.name = v.job), 0)
		OR COALESCE((SELECT g.paused FROM {job} g WHERE g.grp = f.name AND g.name = _binary''), 0))`,
	}
	sql := func(statement string, more ...string) sqltext.Query {
		return t.query(statement, append(more, parts...)...)
	}
	// In both, what waits already as the move wants it is not made to wait again, and no run starts whose end was asked for.
	plain := []string{
		"{assigned}", "", "{to owner}", "h.owner", "{to token}", "h.token", "{to attempt}", "v.attempt + (v.to_state = 1)", "{start}", "GREATEST(UTC_TIMESTAMP(6), COALESCE(r.started_at, {epoch}))",
		"{moves}", expected + `
	AND (v.to_state <> 2 OR r.state <> 2 OR r.owner <> h.owner OR r.token <> h.token) AND (v.to_state <> 1 OR r.cancel_asked = 0)`,
	}
	spread := []string{
		"{assigned}", ", to_owner, to_token, to_attempt, not_before", "{to owner}", "v.to_owner", "{to token}", "v.to_token", "{to attempt}", "v.to_attempt",
		"{start}", "GREATEST(UTC_TIMESTAMP(6), COALESCE(r.started_at, {epoch}), {epoch} + INTERVAL v.not_before MICROSECOND)",
		"{moves}", expected + `
	AND (v.to_state, v.to_attempt, v.to_owner, v.to_token) <> (v.state, v.attempt, v.owner, v.token) AND (v.to_state <> 1 OR r.cancel_asked = 0)`,
	}
	return &ledgerQueries{
		// The clause waits for a takeover that is under way: without it, READ
		// COMMITTED reads the fence row from before. The assignments are made
		// in their order. In the group's own row, which has no name, the
		// schedule is the token of the term that declared last, with the mode of the group, and
		// schedule_since is when it did so first: what it declares later on changes neither. A mode that is another one than the
		// term's stays. A present is that of a clock which is not the server's; zero: of that.
		declare: sql(`
INSERT INTO {job} (grp, name, schedule, since, schedule_since, paused, changes)
WITH v (name, schedule, since, present) AS (VALUES ?)
SELECT f.name, v.name, v.schedule, UTC_TIMESTAMP(6), ` + presentOf + `, 0, 0
FROM {fence} f STRAIGHT_JOIN v
WHERE f.name = ? AND f.owner = ? AND f.token = ?
LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
	schedule_since = LEAST(` + presentOf + `, CASE
		WHEN {job}.schedule_since > ` + presentOf + ` THEN {epoch} + INTERVAL v.since MICROSECOND
		WHEN {job}.schedule = v.schedule OR ` + isNoted + ` THEN {job}.schedule_since
		ELSE GREATEST({job}.schedule_since, {epoch} + INTERVAL v.since MICROSECOND) END),
	schedule = CASE
		WHEN ` + isNoted + ` THEN {job}.schedule
		WHEN v.name = _binary'' AND {job}.schedule NOT IN (_binary'', _binary'0') AND (LOCATE(_binary' spread ', {job}.schedule) > 0) <> ? THEN ?
		ELSE v.schedule END,
	gone_at = NULL`),

		hasFence: sql(`SELECT COUNT(*) FROM {fence} WHERE name = ? AND owner = ? AND token = ?`),

		summary: sql(`
SELECT j.name IS NOT NULL, ` + micros + `, ` + changesOf + `, {job fields}
FROM (SELECT 1) one LEFT JOIN {job} j ON j.grp = ? AND j.name = _binary''`),
		changes: sql(`SELECT ` + micros + `, ` + changesOf),

		// The cursor is the end of a range of the key. MySQL sorts the range
		// unless the whole key is named.
		jobs: sql(`
SELECT (SELECT r.tick FROM {run} r FORCE INDEX (PRIMARY) WHERE r.grp = j.grp AND r.job = j.name AND r.trigger_id = 0
	ORDER BY r.grp DESC, r.job DESC, r.tick DESC LIMIT 1), {job fields}
FROM {job} j WHERE j.grp = ? AND j.name > _binary''`),
		openRuns: sql(`
SELECT {run fields} FROM {run} r FORCE INDEX (by_state) WHERE r.grp = ? AND r.state IN (1, 2)` + byTick),
		open:   sql(open + byTick),
		openOf: sql(open + ` AND r.owner = ?` + byTick),

		// IGNORE leaves rows alone that are there already. It would also hide
		// that a value was cut, so values are checked before. LAST_INSERT_ID
		// returns the instant that the rows were stamped with. The subqueries are
		// not locked by the clause: they read what was committed when the fence
		// row was locked, and hold up no pause and no outcome. Whom a row is under is the fence row's
		// owner and token, or, if the holder assigns, in more columns of the list.
		claim: sql(`
INSERT IGNORE INTO {run} ({run columns})
WITH v (job, tick, trigger_id, known, state, delay, missed, error?) AS (VALUES ?)
SELECT f.name, v.job, v.tick, v.trigger_id, ?, v.state, ?, v.state = 1,
	IF(LAST_INSERT_ID(` + micros + `), UTC_TIMESTAMP(6), NULL), IF(v.state = 1, UTC_TIMESTAMP(6), NULL),
	IF(v.state > 2, UTC_TIMESTAMP(6), NULL), IF(v.state = 2, UTC_TIMESTAMP(6) + INTERVAL v.delay MICROSECOND, NULL),
	v.missed, v.error, 0, NULL, NULL, ?
FROM {fence} f STRAIGHT_JOIN v
WHERE f.name = ? AND f.owner = ? AND f.token = ? AND (v.trigger_id > 0 OR NOT ({late} OR v.state <= 2 AND {paused}))
LOCK IN SHARE MODE`),
		// The fence row is locked before any run. The row that is extended has the
		// job's newest scheduled tick: n is a newer one.
		extend: sql(`
UPDATE (SELECT f.owner, f.token FROM {fence} f WHERE f.name = ? AND f.owner = ? AND f.token = ? LOCK IN SHARE MODE) h
STRAIGHT_JOIN (WITH v (job, tick, extends, missed, error) AS (VALUES ?) SELECT * FROM v) v
STRAIGHT_JOIN {run} r ON r.grp = ? AND r.job = v.job AND r.tick = v.extends AND r.trigger_id = 0
LEFT JOIN {run} n FORCE INDEX (PRIMARY) ON n.grp = ? AND n.job = v.job AND n.tick > v.extends AND n.trigger_id = 0
SET r.tick = v.tick, r.claim_id = ?, r.finished_at = UTC_TIMESTAMP(6), r.missed = r.missed + 1 + v.missed
WHERE r.state = ` + strconv.Itoa(int(jobs.Skipped)) + ` AND r.owner = h.owner AND r.token = h.token AND r.error = v.error
	AND v.tick > v.extends AND n.grp IS NULL`),
		refused: sql(`
WITH v (job, tick, trigger_id, known, state) AS (VALUES ?)
SELECT v.job, v.tick FROM (SELECT ? name) f STRAIGHT_JOIN v
WHERE v.trigger_id = 0 AND ({late} OR v.state <= 2 AND {paused})`),

		move:       sql(move, plain...),
		spreadMove: sql(move, spread...),

		// Which of the rows the move will change, locked until the transaction ends.
		movable: sql(`
SELECT r.job, r.tick, r.trigger_id
FROM (SELECT f.owner, f.token FROM {fence} f WHERE f.name = ? AND f.owner = ? AND f.token = ? LOCK IN SHARE MODE) h
STRAIGHT_JOIN (
	WITH v (job, tick, trigger_id, state, attempt, owner, token, to_state) AS (VALUES ?) SELECT * FROM v
) v
STRAIGHT_JOIN {run} r ON r.grp = ? AND r.job = v.job AND r.tick = v.tick AND r.trigger_id = CAST(v.trigger_id AS UNSIGNED)
WHERE {moves}
FOR UPDATE`, plain...),
		// It comes after the move, in its transaction. Without IGNORE, which would hide
		// that the table refuses a row.
		follow: sql(follow + `
WHERE v.backfill = _binary'' OR r.cancel_asked = 0
ON DUPLICATE KEY UPDATE grp = {run}.grp`),
		// It comes after the claim, in its transaction. Rows under the claim's id that it has
		// not inserted itself are of another instant: an earlier call did.
		followClaim: sql(follow + `
WHERE r.claim_id = ? AND r.claimed_at = {epoch} + INTERVAL ? MICROSECOND
ON DUPLICATE KEY UPDATE grp = {run}.grp`),

		// What the move will end, before it does: as movable, whose rows it keeps locked.
		keepAttempts: sql(`
INSERT INTO {attempt} ({attempt columns})
WITH v (job, tick, trigger_id, attempt, owner, token, to_state, state, finished, error, output) AS (VALUES ?)
SELECT r.grp, r.job, r.tick, r.trigger_id, r.claimed_at, v.attempt, v.state, r.owner, r.token, r.started_at,
	IF(v.finished = 1, UTC_TIMESTAMP(6), NULL), v.error, v.output
FROM (SELECT f.owner, f.token FROM {fence} f WHERE f.name = ? AND f.owner = ? AND f.token = ? LOCK IN SHARE MODE) h
STRAIGHT_JOIN v
STRAIGHT_JOIN {run} r FORCE INDEX (PRIMARY) ON r.grp = ? AND r.job = v.job AND r.tick = v.tick AND r.trigger_id = CAST(v.trigger_id AS UNSIGNED)
WHERE r.state = 1 AND r.attempt = v.attempt AND r.owner = v.owner AND r.token = v.token AND (v.to_state <> 1 OR r.cancel_asked = 0)
FOR UPDATE
ON DUPLICATE KEY UPDATE claimed_at = r.claimed_at, state = v.state, owner = r.owner, token = r.token, started_at = r.started_at,
	finished_at = IF(v.finished = 1, UTC_TIMESTAMP(6), NULL), error = v.error, output = v.output`),
		dropAttempts: sql(`
DELETE a FROM (WITH v (job, tick, trigger_id, attempt) AS (VALUES ?) SELECT * FROM v) v
STRAIGHT_JOIN {attempt} a ON a.grp = ? AND a.job = v.job AND a.tick = v.tick AND a.trigger_id = CAST(v.trigger_id AS UNSIGNED)
	AND a.attempt <= v.attempt`),

		// One statement, so that all rows are of one instant: when the fence
		// row has a later token, a run that is absent stays absent.
		readRuns: sql(`
WITH v (job, tick, trigger_id) AS (VALUES ?)
SELECT r.grp IS NOT NULL, COALESCE(f.owner, _binary''), COALESCE(f.token, 0), {run fields} FROM v
LEFT JOIN {run} r FORCE INDEX (PRIMARY) ON r.grp = ? AND r.job = v.job AND r.tick = v.tick AND r.trigger_id = CAST(v.trigger_id AS UNSIGNED)
LEFT JOIN {fence} f ON f.name = ?`),

		isJob:       sql(`SELECT COUNT(*) FROM {job} WHERE grp = ? AND name = ?`),
		trigger:     sql(trigger),
		triggerOnce: sql(trigger + ` ON DUPLICATE KEY UPDATE grp = {run}.grp`),
		args:        sql(`SELECT args FROM {run} WHERE grp = ? AND job = ? AND tick = ? AND trigger_id = ?`),

		isRun: sql(`SELECT COUNT(*) FROM {run} WHERE grp = ? AND job = ? AND tick = ? AND trigger_id = ?`),
		countOpen: sql(`
SELECT COUNT(*) FROM {run} FORCE INDEX (by_state) WHERE grp = ? AND state IN (1, 2) AND job = ?`),

		// The keys are found in an index alone, and only the rows that are
		// asked for are read. The ? is one newestOfJob, or some newestIn.
		newestRuns: sql(`
SELECT {run fields} FROM (? ORDER BY tick DESC, job DESC, trigger_id DESC LIMIT ?) k
STRAIGHT_JOIN {run} r ON r.grp = ? AND r.job = k.job AND r.tick = k.tick AND r.trigger_id = k.trigger_id
ORDER BY r.tick DESC, r.job DESC, r.trigger_id DESC`),
		newestOfJob: sql(`
(SELECT job, tick, trigger_id FROM {run} FORCE INDEX (PRIMARY)
WHERE grp = ? AND job = ? AND tick >= ? AND tick <= ? AND (? = 0 OR state = ?) AND (? = 0 OR (tick, job, trigger_id) < (?, ?, ?))
ORDER BY tick DESC, trigger_id DESC LIMIT ?)`),
		newestIn: sql(`
(SELECT job, tick, trigger_id FROM {run} FORCE INDEX (by_state)
WHERE grp = ? AND state = ? AND tick >= ? AND tick <= ? AND (? = 0 OR (tick, job, trigger_id) < (?, ?, ?))
ORDER BY tick DESC, job DESC, trigger_id DESC LIMIT ?)`),

		// Pruning looks without locks and deletes by key. What it finds stays
		// true: a run that is over stays so, and the newest tick only grows.
		// Below the newest tick, and not all but that one: a scan backwards beside
		// the purge of deleted rows may miss some (MySQL bug 114248).
		bounds: sql(`
SELECT ` + micros + `, (SELECT tick FROM {run} FORCE INDEX (PRIMARY) WHERE grp = ? AND job = ? AND trigger_id = 0
	ORDER BY tick DESC LIMIT 1)`),
		keptFrom: sql(`
SELECT tick, trigger_id FROM {run} FORCE INDEX (PRIMARY) WHERE grp = ? AND job = ?
ORDER BY tick DESC, trigger_id DESC LIMIT 1 OFFSET ?`),
		prunable: sql(`
SELECT tick, trigger_id FROM {run} FORCE INDEX (PRIMARY)
WHERE grp = ? AND job = ? AND tick <= ? AND state > 2 AND (trigger_id > 0 OR tick < ?)
	AND (tick < ? OR tick = ? AND trigger_id <= ? OR ? > 0 AND finished_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)
ORDER BY tick, trigger_id LIMIT ?`),
		prune: sql(`
DELETE r FROM (WITH v (tick, trigger_id) AS (VALUES ?) SELECT * FROM v) v
STRAIGHT_JOIN {run} r ON r.grp = ? AND r.job = ? AND r.tick = v.tick AND r.trigger_id = CAST(v.trigger_id AS UNSIGNED)
WHERE r.state > 2`),
		// Attempts without their run: it was pruned, perhaps by a program that knows of no
		// attempts. As above, this looks without locks and deletes by key, and what it
		// finds stays true: a run that gets the key again is claimed at another instant.
		orphans: sql(`
SELECT a.tick, a.trigger_id, a.attempt, TIMESTAMPDIFF(MICROSECOND, {epoch}, a.claimed_at) FROM {attempt} a FORCE INDEX (PRIMARY)
LEFT JOIN {run} r ON r.grp = a.grp AND r.job = a.job AND r.tick = a.tick AND r.trigger_id = a.trigger_id AND r.claimed_at = a.claimed_at
WHERE a.grp = ? AND a.job = ? AND a.tick <= ? AND r.grp IS NULL LIMIT ?`),
		pruneAttempts: sql(`
DELETE a FROM (WITH v (tick, trigger_id, attempt, claimed) AS (VALUES ?) SELECT * FROM v) v
STRAIGHT_JOIN {attempt} a ON a.grp = ? AND a.job = ? AND a.tick = v.tick AND a.trigger_id = CAST(v.trigger_id AS UNSIGNED)
	AND a.attempt = CAST(v.attempt AS UNSIGNED)
WHERE a.claimed_at = {epoch} + INTERVAL v.claimed MICROSECOND`),

		// The fence row is locked before any run. Both ? at the end are the
		// holder's token: no other run has it for a trigger, and the holder's
		// own runs stay where they are.
		passOver: sql(`
UPDATE (SELECT f.name FROM {fence} f WHERE f.name = ? AND f.owner = ? AND f.token = ? LOCK IN SHARE MODE) h
STRAIGHT_JOIN {run} r FORCE INDEX (PRIMARY) ON r.grp = ? AND r.job = ? AND r.tick > ? AND r.trigger_id = 0
SET r.trigger_id = ? WHERE r.token <> ?`),
		// The attempts go with their runs.
		passOverAttempts: sql(`
UPDATE {attempt} a FORCE INDEX (PRIMARY)
STRAIGHT_JOIN {run} r ON r.grp = a.grp AND r.job = a.job AND r.tick = a.tick AND r.trigger_id = ? AND r.claimed_at = a.claimed_at
SET a.trigger_id = ? WHERE a.grp = ? AND a.job = ? AND a.tick > ? AND a.trigger_id = 0`),

		// Where a lock is not enough; see [ledger.guarded].
		writeFence: sql(`UPDATE {fence} SET checks = checks + 1 WHERE name = ? AND owner = ? AND token = ?`),
		lockFence:  sql(`SELECT owner, token FROM {fence} WHERE name = ? LOCK IN SHARE MODE`),
		lockRun:    sql(`SELECT {run fields} FROM {run} r WHERE r.grp = ? AND r.job = ? AND r.tick = ? AND r.trigger_id = ? FOR UPDATE`),
		// There is a row where there is no job, with the clock.
		lockJobs: sql(`
WITH v (name) AS (VALUES ?)
SELECT j.name IS NOT NULL, ` + micros + `, {job fields} FROM v
LEFT JOIN {job} j FORCE INDEX (PRIMARY) ON j.grp = ? AND j.name = v.name FOR UPDATE`),

		putRun: sql(`UPDATE {run} SET cancel_asked = ? WHERE grp = ? AND job = ? AND tick = ? AND trigger_id = ?`),
		insertJobs: sql(`
INSERT INTO {job} ({job columns})
{jobs}
SELECT ?, v.name, v.schedule, {epoch} + INTERVAL v.since MICROSECOND, {epoch} + INTERVAL v.schedule_since MICROSECOND,
	v.paused, v.changes, NULL, NULL, v.pauses, NULL, 0 FROM v`),
		updateJobs: sql(`
UPDATE ({jobs} SELECT * FROM v) v
STRAIGHT_JOIN {job} j ON j.grp = ? AND j.name = v.name
SET j.schedule = v.schedule, j.schedule_since = {epoch} + INTERVAL v.schedule_since MICROSECOND,
	j.paused = v.paused, j.changes = v.changes, j.pauses = v.pauses, j.gone_at = {epoch} + INTERVAL NULLIF(v.gone, 0) MICROSECOND`),
		forget: sql(`
DELETE j, r FROM {job} j LEFT JOIN {run} r ON r.grp = j.grp AND r.job = j.name WHERE j.grp = ? AND j.name = ?`),
		forgetAttempts: sql(`DELETE FROM {attempt} WHERE grp = ? AND job = ?`),
	}
}
