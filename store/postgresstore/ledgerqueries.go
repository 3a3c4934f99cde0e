package postgresstore

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

	// shownColumns are what is read of a run.
	shownColumns = runColumns + `, args IS NOT NULL, coalesce(backfill, ''), details`

	// cursor is the newest scheduled tick of a job.
	cursor = `(SELECT c.tick FROM {s}cronlease_run AS c WHERE c.grp = $1::text AND c.job = {job} AND c.trigger_id = 0 ORDER BY c.tick DESC LIMIT 1)`
)

// newLedgerQueries returns the statements about runs and jobs.
func newLedgerQueries(o options) sqlledger.LedgerQueries {
	text := texts(o, "{channel}", strings.ReplaceAll(channel, "{schema}", schemaOf(o)), "{columns}", runColumns, "{shown}", shownColumns)
	newestOf := func(state string) string {
		return `
SELECT {shown} FROM {s}cronlease_run
WHERE grp = $1::text AND tick >= $2::bigint AND tick <= $4::bigint AND state = ` + state + `
  AND (NOT $5::boolean OR (tick, job, trigger_id) < ($6::bigint, $7::text, $8::bigint))` + byAge
	}
	var states []string
	for state := jobs.Running; state <= jobs.Interrupted; state++ {
		states = append(states, "("+newestOf(fmt.Sprint(uint8(state)))+")")
	}
	newestTick := func(job string) string { return strings.ReplaceAll(cursor, "{job}", job) }
	return sqlledger.LedgerQueries{
		Group: text.Replace(`
SELECT {now}, {server}, coalesce(g.changes, 0), coalesce(g.paused, false), coalesce(g.pauses, ''), f.owner, f.token, o.schedule, o.schedule_since
FROM (SELECT) AS one
LEFT JOIN {s}cronlease_group AS g ON g.name = $1::text
LEFT JOIN {s}cronlease_fence AS f ON f.name = $1::text
LEFT JOIN {s}cronlease_job AS o ON o.grp = $1::text AND o.name = ''`),
		// That of a session, in place of the group's.
		Fence: text.Replace(`SELECT owner, token FROM {s}cronlease_fence WHERE name = $1::text`),

		Jobs: text.Replace(`
SELECT j.name, true, j.schedule, j.since, j.schedule_since, j.paused, j.pauses, j.started_at, j.finished_at, j.gone_at, j.failing,
  ` + newestTick("j.name") + `
FROM {s}cronlease_job AS j WHERE j.grp = $1::text AND j.name > ''`),
		// Jobs that the ledger does not know may have a newest tick.
		JobsOf: text.Replace(`
SELECT w.name, j.name IS NOT NULL, coalesce(j.schedule, ''), coalesce(j.since, 0), coalesce(j.schedule_since, 0), coalesce(j.paused, false),
  coalesce(j.pauses, ''), j.started_at, j.finished_at, j.gone_at, coalesce(j.failing, false),
  ` + newestTick("w.name") + `
FROM json_array_elements_text($2::json) AS w (name)
LEFT JOIN {s}cronlease_job AS j ON j.grp = $1::text AND j.name = w.name AND j.name > ''`),

		OpenRuns: text.Replace(`
SELECT {shown} FROM {s}cronlease_run WHERE grp = $1::text AND state <= 2 ORDER BY tick, job, trigger_id`),
		OpenRunsOf: text.Replace(`
SELECT {shown} FROM {s}cronlease_run WHERE grp = $1::text AND state <= 2 AND owner = $2::text ORDER BY tick, job, trigger_id`),
		CountOpen: text.Replace(`SELECT count(*) FROM {s}cronlease_run WHERE grp = $1::text AND job = $2::text AND state <= 2`),

		// One look by the key for each, whatever the statistics say.
		ReadRuns: text.Replace(`
SELECT r.* FROM json_array_elements($2::json) AS k, LATERAL (
  SELECT {shown} FROM {s}cronlease_run
  WHERE grp = $1::text AND job = k ->> 0 AND tick = (k ->> 1)::bigint AND trigger_id = (k ->> 2)::bigint OFFSET 0) AS r`),
		RunsAt: text.Replace(`SELECT {shown} FROM {s}cronlease_run WHERE grp = $1::text AND job = $2::text AND tick = $3::bigint`),
		RunsLater: text.Replace(`
SELECT {shown} FROM {s}cronlease_run WHERE grp = $1::text AND job = $2::text AND tick > $3::bigint ORDER BY tick, trigger_id`),
		Args: text.Replace(`
SELECT args FROM {s}cronlease_run WHERE grp = $1::text AND job = $2::text AND tick = $3::bigint AND trigger_id = $4::bigint`),

		// What never changes in a run is not written again.
		PutRun: text.Replace(`
INSERT INTO {s}cronlease_run (grp, {columns}, verdict, args, backfill, details)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (grp, job, tick, trigger_id) DO UPDATE SET state = excluded.state, owner = excluded.owner,
  token = excluded.token, attempt = excluded.attempt, started_at = excluded.started_at, finished_at = excluded.finished_at,
  due_at = excluded.due_at, error = excluded.error, cancel_asked = excluded.cancel_asked, verdict = excluded.verdict,
  details = excluded.details`),
		Judge: text.Replace(`
UPDATE {s}cronlease_job SET started_at = $3::bigint, finished_at = $4::bigint, failing = $5::boolean WHERE grp = $1::text AND name = $2::text`),
		Rekey: text.Replace(`
UPDATE {s}cronlease_run SET tick = $5::bigint, trigger_id = $6::bigint, claim_id = $7::bytea, finished_at = $8::bigint, missed = $9::integer
WHERE grp = $1::text AND job = $2::text AND tick = $3::bigint AND trigger_id = $4::bigint`),

		PutJob: text.Replace(`
INSERT INTO {s}cronlease_job (grp, name, schedule, since, schedule_since, gone_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (grp, name) DO UPDATE SET schedule = excluded.schedule, schedule_since = excluded.schedule_since, gone_at = excluded.gone_at`),
		SetPaused: text.Replace(`UPDATE {s}cronlease_job SET paused = $3::boolean, pauses = $4::text WHERE grp = $1::text AND name = $2::text`),
		PutGroup: text.Replace(`
INSERT INTO {s}cronlease_group (name, changes, paused, pauses) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET changes = excluded.changes, paused = excluded.paused, pauses = excluded.pauses
RETURNING pg_notify({channel}, 'asked ' || name)`),
		Forget: text.Replace(`
WITH runs AS (DELETE FROM {s}cronlease_run WHERE grp = $1::text AND job = $2::text)
DELETE FROM {s}cronlease_job WHERE grp = $1::text AND name = $2::text`),

		// The newest of each state, merged.
		NewestRuns:    text.Replace(strings.Join(states, "\nUNION ALL") + byAge),
		NewestOfState: text.Replace(newestOf("$9::smallint")),
		NewestOfJob: text.Replace(`
SELECT {shown} FROM {s}cronlease_run
WHERE grp = $1::text AND job = $10::text AND tick >= $2::bigint AND tick <= $4::bigint
  AND (NOT $5::boolean OR (tick, job, trigger_id) < ($6::bigint, $7::text, $8::bigint)) AND ($9::smallint = 0 OR state = $9::smallint)
ORDER BY tick DESC, trigger_id DESC LIMIT $3::bigint`),

		Prune: text.Replace(`
DELETE FROM {s}cronlease_run
WHERE grp = $1::text AND job = $2::text AND (tick, trigger_id) IN (
  SELECT tick, trigger_id FROM (
    SELECT tick, trigger_id, state, finished_at FROM {s}cronlease_run
    WHERE grp = $1::text AND job = $2::text ORDER BY tick, trigger_id LIMIT $6::bigint) AS oldest
  WHERE state > 2
    AND (trigger_id > 0 OR tick <> ` + newestTick("$2::text") + `)
    AND ($4::bigint > 0 AND finished_at < {now} - $4::bigint
      OR $3::bigint > 0 AND (tick, trigger_id) <= (
        SELECT tick, trigger_id FROM {s}cronlease_run
        WHERE grp = $1::text AND job = $2::text ORDER BY tick DESC, trigger_id DESC LIMIT 1 OFFSET $3::bigint))
  ORDER BY tick, trigger_id LIMIT $5::bigint)`),
	}
}

// byAge is an order of runs: the newest first.
const byAge = `
ORDER BY tick DESC, job DESC, trigger_id DESC LIMIT $3::bigint`

// newArchiveQueries returns the statements about what people look at later.
func newArchiveQueries(o options) sqlledger.ArchiveQueries {
	text := texts(o, "{shown}", shownColumns,
		"{entry}", "id, at, actor, via, action, job, tick, trigger_id, note, result",
		"{term}", "token, owner, began_at, ended_at, early, why",
	)
	return sqlledger.ArchiveQueries{
		Note: text.Replace(`
INSERT INTO {s}cronlease_audit (grp, at, actor, via, action, job, tick, trigger_id, note, result)
VALUES ($1, {now}, $2, $3, $4, $5, $6, $7, $8, $9)`),
		Audit: text.Replace(`
SELECT {entry} FROM {s}cronlease_audit WHERE grp = $1::text AND id < $2::bigint ORDER BY id DESC LIMIT $3::bigint`),
		AuditOfJob: text.Replace(`
SELECT {entry} FROM {s}cronlease_audit WHERE grp = $1::text AND job = $4::text AND id < $2::bigint ORDER BY id DESC LIMIT $3::bigint`),
		Had: text.Replace(`
SELECT (SELECT count(*) FROM {s}cronlease_audit WHERE grp = $1::text), (SELECT count(*) FROM {s}cronlease_term WHERE grp = $1::text)`),
		Oldest:    text.Replace(`SELECT id, at FROM {s}cronlease_audit WHERE grp = $1::text ORDER BY id LIMIT $2::bigint`),
		DropEntry: text.Replace(`DELETE FROM {s}cronlease_audit WHERE grp = $1::text AND id = $2::bigint`),

		PutTerm: text.Replace(`
INSERT INTO {s}cronlease_term (grp, token, owner, began_at, ended_at, early, why) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (grp, token) DO UPDATE SET ended_at = excluded.ended_at, why = excluded.why`),
		OpenTerms: text.Replace(`SELECT {term} FROM {s}cronlease_term WHERE grp = $1::text AND (token = $2::bigint OR ended_at IS NULL)`),
		Terms: text.Replace(`
SELECT {term} FROM {s}cronlease_term
WHERE grp = $1::text AND began_at <= $2::bigint AND (ended_at IS NULL OR ended_at >= $3::bigint) ORDER BY token DESC LIMIT $4::bigint`),
		FirstTerms: text.Replace(`SELECT {term} FROM {s}cronlease_term WHERE grp = $1::text ORDER BY token LIMIT $2::bigint`),
		DropTerm:   text.Replace(`DELETE FROM {s}cronlease_term WHERE grp = $1::text AND token = $2::bigint`),

		Keep: text.Replace(`
INSERT INTO {s}cronlease_attempt (grp, job, tick, trigger_id, attempt, state, owner, token, started_at, finished_at, error, output)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (grp, job, tick, trigger_id, attempt) DO UPDATE SET state = excluded.state, owner = excluded.owner, token = excluded.token,
  started_at = excluded.started_at, finished_at = excluded.finished_at, error = excluded.error, output = excluded.output`),
		Drop: text.Replace(`
DELETE FROM {s}cronlease_attempt
WHERE grp = $1::text AND job = $2::text AND tick = $3::bigint AND trigger_id = $4::bigint AND attempt <= $5::integer`),
		Run: text.Replace(`
SELECT {shown} FROM {s}cronlease_run WHERE grp = $1::text AND job = $2::text AND tick = $3::bigint AND trigger_id = $4::bigint`),
		Attempts: text.Replace(`
SELECT attempt, state, owner, token, started_at, finished_at, error, output FROM {s}cronlease_attempt
WHERE grp = $1::text AND job = $2::text AND tick = $3::bigint AND trigger_id = $4::bigint ORDER BY attempt`),

		Names: text.Replace(`SELECT name, paused FROM {s}cronlease_job WHERE grp = $1::text AND name > '' ORDER BY name`),
		Newest: text.Replace(`
SELECT {shown} FROM {s}cronlease_run
WHERE grp = $1::text AND job = $2::text AND tick >= $3::bigint AND tick <= $4::bigint AND state > $5::smallint
ORDER BY tick DESC, trigger_id DESC LIMIT $6::bigint`),
		// $2 is a job, or a state.
		CutOf: text.Replace(`
SELECT tick FROM {s}cronlease_run WHERE grp = $1::text AND job = $2::text AND tick >= $3::bigint AND tick <= $4::bigint
ORDER BY tick DESC LIMIT 1 OFFSET $5::bigint`),
		CutAll: text.Replace(`
SELECT tick FROM {s}cronlease_run WHERE grp = $1::text AND state = $2::smallint AND tick >= $3::bigint AND tick <= $4::bigint
ORDER BY tick DESC LIMIT 1 OFFSET $5::bigint`),
		CountOf: text.Replace(`
SELECT (tick - $5::bigint) / $6::bigint AS bucket, state, count(*) FROM {s}cronlease_run
WHERE grp = $1::text AND job = $2::text AND tick >= $3::bigint AND tick <= $4::bigint GROUP BY bucket, state`),
		CountAll: text.Replace(`
SELECT (tick - $5::bigint) / $6::bigint AS bucket, state, count(*) FROM {s}cronlease_run
WHERE grp = $1::text AND state = $2::smallint AND tick >= $3::bigint AND tick <= $4::bigint GROUP BY bucket, state`),
	}
}

// newReplicaQueries returns the statements about replicas.
func newReplicaQueries(o options) sqlledger.ReplicaQueries {
	text := texts(o)
	return sqlledger.ReplicaQueries{
		Enlist: text.Replace(`
INSERT INTO {s}cronlease_replica (grp, owner, part, parts, list, version, since, seen_at, jobs)
SELECT $1, $2, $3, $4, $5, $6, now, now, $7 FROM (SELECT {now} AS now) AS instant
ON CONFLICT (grp, owner, part) DO UPDATE SET parts = excluded.parts, list = excluded.list,
  version = excluded.version, seen_at = excluded.seen_at, jobs = excluded.jobs`),
		Refresh: text.Replace(`UPDATE {s}cronlease_replica SET seen_at = {now} WHERE grp = $1::text AND owner = $2::text`),
		Strike: text.Replace(`
DELETE FROM {s}cronlease_replica WHERE grp = $1::text AND owner = $2::text AND seen_at <= {now} - $3::bigint`),

		// There is a row where there is no replica, with the clock and the leader.
		Roster: text.Replace(`
SELECT {now}, coalesce(CASE WHEN l.released THEN '' ELSE l.owner END, ''), r.owner, r.part, r.parts, r.list, r.version, r.since, r.seen_at
FROM (SELECT) AS one LEFT JOIN {s}cronlease_lease AS l ON l.name = $1::text LEFT JOIN {s}cronlease_replica AS r ON r.grp = $1::text`),
		Lists: text.Replace(`SELECT part, parts, list, jobs FROM {s}cronlease_replica WHERE grp = $1::text AND owner = $2::text`),

		Since: text.Replace(`SELECT coalesce(max(gone_at), 0) FROM {s}cronlease_job WHERE grp = $1::text AND name = $2::text`),
	}
}
