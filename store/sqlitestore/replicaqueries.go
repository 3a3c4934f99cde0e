package sqlitestore

import "strings"

// replicaQueries are the statements about replicas; see [queries].
type replicaQueries struct {
	enlist, refresh, strike, roster, lists string
	since                                  string
}

func newReplicaQueries(clock string) replicaQueries {
	text := strings.NewReplacer("{now}", "("+clock+")")
	return replicaQueries{
		enlist: text.Replace(`
INSERT INTO cronlease_replica (grp, owner, part, parts, list, version, since, seen_at, jobs)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, now, now, ?7 FROM (SELECT {now} AS now) WHERE true
ON CONFLICT (grp, owner, part) DO UPDATE SET parts = excluded.parts, list = excluded.list,
  version = excluded.version, seen_at = excluded.seen_at, jobs = excluded.jobs`),
		refresh: text.Replace(`UPDATE cronlease_replica SET seen_at = {now} WHERE grp = ?1 AND owner = ?2`),
		strike:  text.Replace(`DELETE FROM cronlease_replica WHERE grp = ?1 AND owner = ?2 AND seen_at <= {now} - ?3`),

		// There is a row where there is no replica, with the clock and the leader.
		roster: text.Replace(`
SELECT {now}, coalesce(iif(l.released, '', l.owner), ''), r.owner, r.part, r.parts, r.list, r.version, r.since, r.seen_at
FROM (SELECT 1) LEFT JOIN cronlease_lease AS l ON l.name = ?1 LEFT JOIN cronlease_replica AS r ON r.grp = ?1`),
		lists: `SELECT part, parts, list, jobs FROM cronlease_replica WHERE grp = ?1 AND owner = ?2`,

		since: `SELECT coalesce(max(gone_at), 0) FROM cronlease_job WHERE grp = ?1 AND name = ?2`,
	}
}
