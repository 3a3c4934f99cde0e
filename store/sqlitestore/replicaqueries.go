package sqlitestore

import (
	"strings"

	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

func newReplicaQueries(clock string) sqlledger.ReplicaQueries {
	text := strings.NewReplacer("{now}", "("+clock+")")
	return sqlledger.ReplicaQueries{
		Enlist: text.Replace(`
INSERT INTO cronlease_replica (grp, owner, part, parts, list, version, since, seen_at, jobs)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, now, now, ?7 FROM (SELECT {now} AS now) WHERE true
ON CONFLICT (grp, owner, part) DO UPDATE SET parts = excluded.parts, list = excluded.list,
  version = excluded.version, seen_at = excluded.seen_at, jobs = excluded.jobs`),
		Refresh: text.Replace(`UPDATE cronlease_replica SET seen_at = {now} WHERE grp = ?1 AND owner = ?2`),
		Strike:  text.Replace(`DELETE FROM cronlease_replica WHERE grp = ?1 AND owner = ?2 AND seen_at <= {now} - ?3`),

		// There is a row where there is no replica, with the clock and the leader.
		Roster: text.Replace(`
SELECT {now}, coalesce(iif(l.released, '', l.owner), ''), r.owner, r.part, r.parts, r.list, r.version, r.since, r.seen_at
FROM (SELECT 1) LEFT JOIN cronlease_lease AS l ON l.name = ?1 LEFT JOIN cronlease_replica AS r ON r.grp = ?1`),
		Lists: `SELECT part, parts, list, jobs FROM cronlease_replica WHERE grp = ?1 AND owner = ?2`,

		Since: `SELECT coalesce(max(gone_at), 0) FROM cronlease_job WHERE grp = ?1 AND name = ?2`,
	}
}
