package mysqlstore

import "github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"

// replicaQueries are the statements about replicas and jobs that are gone.
type replicaQueries struct {
	enlist  sqltext.Query
	refresh sqltext.Query
	strike  sqltext.Query
	roster  sqltext.Query
	lists   sqltext.Query
	present sqltext.Query
	since   sqltext.Query
}

func newReplicaQueries(t tables) *replicaQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &replicaQueries{
		enlist: sql(`
INSERT INTO {replica} (grp, owner, part, parts, list, version, since, seen_at, jobs)
VALUES (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), ?)
ON DUPLICATE KEY UPDATE parts = VALUES(parts), list = VALUES(list), version = VALUES(version), seen_at = UTC_TIMESTAMP(6), jobs = VALUES(jobs)`),
		refresh: sql(`UPDATE {replica} SET seen_at = UTC_TIMESTAMP(6) WHERE grp = ? AND owner = ?`),
		strike: sql(`
DELETE FROM {replica} WHERE grp = ? AND owner = ? AND seen_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND`),

		// There is a row where there is no replica, with the clock and the leader.
		roster: sql(`
SELECT ` + micros + `, COALESCE(IF(l.released, _binary'', l.owner), _binary''), r.owner, r.part, r.parts, r.list, r.version,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.since), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.seen_at)
FROM (SELECT ? name) g LEFT JOIN {lease} l ON l.name = g.name LEFT JOIN {replica} r ON r.grp = g.name`),
		lists: sql(`SELECT part, parts, list, jobs FROM {replica} WHERE grp = ? AND owner = ?`),

		present: sql(`
WITH v (place, name) AS (VALUES ?)
SELECT v.place, IS_USED_LOCK(v.name) IS NOT NULL, COALESCE(IF(l.released, _binary'', l.owner), _binary'') FROM v LEFT JOIN {lease} l ON l.name = ?`),

		since: sql(`SELECT COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, {epoch}, gone_at)), 0) FROM {job} WHERE grp = ? AND name = ? AND name > _binary''`),
	}
}
