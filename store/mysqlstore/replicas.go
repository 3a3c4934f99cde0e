package mysqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/joblist"
	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// replicas are those of each group, and the jobs that are gone. They use the
// connections of the ledger, and never those of heartbeats.
type replicas struct {
	ledger *ledger
	sql    *replicaQueries
	prefix string // of the tables
}

// Enlist implements [store.Replicas]. A long list takes several statements: part 0 goes
// last, so that a reader in between has the list before, or none.
func (s *replicas) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	if err := store.CheckName("owner", r.Owner); err != nil {
		return err
	}
	parts := joblist.Encode(r)
	return s.ledger.do(ctx, mysqlconn.Unfenced, "tell of the replica", func(ctx context.Context, c *conn) error {
		for i, part := range slices.Backward(parts) {
			if err := c.Exec(ctx, s.sql.enlist.Render(group, r.Owner, i, len(parts), r.List, r.Version, string(part))); err != nil {
				return err
			}
		}
		return nil
	})
}

// Refresh implements [store.Replicas].
func (s *replicas) Refresh(ctx context.Context, group, owner string) error {
	return s.ledger.do(ctx, mysqlconn.Unfenced, "refresh the replica", func(ctx context.Context, c *conn) error {
		return c.Exec(ctx, s.sql.refresh.Render(group, owner))
	})
}

// Strike implements [store.Replicas].
func (s *replicas) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	return s.ledger.do(ctx, mysqlconn.Unfenced, "strike the replica", func(ctx context.Context, c *conn) error {
		return c.Exec(ctx, s.sql.strike.Render(group, owner, idle.Microseconds()))
	})
}

// Roster implements [jobs.Registry]. It is two statements, and one more for each replica
// whose list is not known.
func (s *replicas) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	var roster jobs.Roster
	err := s.ledger.do(ctx, mysqlconn.Read, "read the replicas", func(ctx context.Context, c *conn) error {
		var err error
		if roster, err = s.roster(ctx, c, group); err != nil {
			return err
		}
		if err := s.see(ctx, c, group, &roster); err != nil {
			return err
		}
		return joblist.Fill(&roster, known, func(r jobs.Replica) (map[string]jobs.ScheduleHash, error) {
			return s.list(ctx, c, group, r)
		})
	})
	return roster, err
}

func (s *replicas) roster(ctx context.Context, c *conn, group string) (jobs.Roster, error) {
	rows, err := c.Query(ctx, s.sql.roster.Render(group))
	if err != nil {
		return jobs.Roster{}, err
	}
	defer rows.Close()
	var roster jobs.Roster
	var all []joblist.Row
	for rows.Next() {
		var (
			now            int64
			owner, version sql.NullString
			part, parts    sql.NullInt64
			list           sql.Null[uint64]
			since, seen    sql.NullInt64
		)
		if err := rows.Scan(&now, &roster.Leader, &owner, &part, &parts, &list, &version, &since, &seen); err != nil {
			return jobs.Roster{}, err
		}
		roster.Now = time.UnixMicro(now).UTC()
		if owner.Valid {
			r := jobs.Replica{Owner: owner.String, Version: version.String, Since: instant(since), Seen: instant(seen), List: list.V}
			all = append(all, joblist.Row{Replica: r, Part: int(part.Int64), Parts: int(parts.Int64)})
		}
	}
	roster.Replicas = joblist.Complete(all)
	return roster, rows.Err()
}

// see finds out which replicas are present, by the locks of their hand-over signals. On
// a cluster with several writers they may be connected to another node.
func (s *replicas) see(ctx context.Context, c *conn, group string, roster *jobs.Roster) error {
	if c.Server.ManyWriters() || len(roster.Replicas) == 0 {
		return nil
	}
	names := make(sqltext.Values, len(roster.Replicas))
	for i, r := range roster.Replicas {
		names[i] = sqltext.Row{i, presenceLock(c, s.prefix, group, store.ReplicaToken(r.Owner))}
	}
	rows, err := c.Query(ctx, s.sql.present.Render(names, group))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var present sqlscan.Bool
		var leader string // now: it may have become that after the replicas were read
		if err := rows.Scan(&i, &present, &leader); err != nil {
			return err
		}
		if r := &roster.Replicas[i]; r.Owner != leader && r.Owner != roster.Leader {
			r.SetPresence(bool(present))
		}
	}
	return rows.Err()
}

// list reads the jobs of a replica: see [joblist.Parts.Jobs].
func (s *replicas) list(ctx context.Context, c *conn, group string, r jobs.Replica) (map[string]jobs.ScheduleHash, error) {
	rows, err := c.Query(ctx, s.sql.lists.Render(group, r.Owner))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	parts := joblist.NewParts(r.List)
	for rows.Next() {
		var part, of int
		var number uint64
		var text []byte
		if err := rows.Scan(&part, &of, &number, &text); err != nil {
			return nil, err
		}
		parts.Add(part, of, number, text)
	}
	return parts.Jobs(), rows.Err()
}

// GoneSince implements [jobs.Registry].
func (s *replicas) GoneSince(ctx context.Context, group, job string) (gone time.Time, err error) {
	err = s.ledger.do(ctx, mysqlconn.Read, "read whether the job is gone", func(ctx context.Context, c *conn) error {
		at, err := c.Count(ctx, s.sql.since.Render(group, job))
		if at > 0 {
			gone = time.UnixMicro(int64(at)).UTC()
		}
		return err
	})
	return gone, err
}

// Forget implements [jobs.Registry]. Runs that are over go first, in batches.
func (s *replicas) Forget(ctx context.Context, group, job string, gone time.Time) (bool, error) {
	if err := ledgerrows.PruneGone(gone,
		func() (time.Time, error) { return s.GoneSince(ctx, group, job) },
		func() (int, error) { return s.ledger.Prune(ctx, group, job, jobs.History{Keep: 1}, defaultBatch) },
	); err != nil {
		return false, err
	}
	return s.ledger.Forget(ctx, group, job, gone)
}
