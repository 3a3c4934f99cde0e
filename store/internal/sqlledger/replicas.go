package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/joblist"
	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Enlist implements [store.Replicas]. A long list takes several statements: part 0 goes
// last, so that a reader in between has the list before, or none.
func (s *Store) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	if err := store.CheckName("owner", r.Owner); err != nil {
		return err
	}
	parts := joblist.Encode(r)
	for i, part := range slices.Backward(parts) {
		if _, err := s.writeRow(ctx, "tell of the replica", s.replica.enlist, group, r.Owner, i, len(parts), number(r.List), r.Version, part); err != nil {
			return err
		}
	}
	return nil
}

// Refresh implements [store.Replicas].
func (s *Store) Refresh(ctx context.Context, group, owner string) error {
	_, err := s.writeRow(ctx, "refresh the replica", s.replica.refresh, group, owner)
	return err
}

// Strike implements [store.Replicas].
func (s *Store) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	_, err := s.writeRow(ctx, "strike the replica", s.replica.strike, group, owner, idle.Microseconds())
	return err
}

// Roster implements [jobs.Registry]. It is one statement, and one more for each replica
// whose list is not known.
func (s *Store) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	var roster jobs.Roster
	err := s.do(ctx, "read the replicas", func(ctx context.Context, c *sql.Conn, of opened) (err error) {
		if roster, err = s.readRoster(ctx, c, group); err != nil {
			return err
		}
		if err := s.see(ctx, c, of, group, &roster); err != nil {
			return err
		}
		return joblist.Fill(&roster, known, func(r jobs.Replica) (map[string]jobs.ScheduleHash, error) {
			return s.readList(ctx, c, group, r)
		})
	})
	return roster, err
}

func (s *Store) readRoster(ctx context.Context, c *sql.Conn, group string) (roster jobs.Roster, err error) {
	rows, err := c.QueryContext(ctx, s.replica.roster, group)
	if err != nil {
		return jobs.Roster{}, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var all []joblist.Row
	for rows.Next() {
		var (
			now               int64
			owner, version    sql.NullString
			part, parts, list sql.NullInt64
			since, seen       sql.NullInt64
		)
		if err := rows.Scan(&now, &roster.Leader, &owner, &part, &parts, &list, &version, &since, &seen); err != nil {
			return jobs.Roster{}, err
		}
		roster.Now = instant(now)
		if owner.Valid {
			r := jobs.Replica{Owner: owner.String, Version: version.String, Since: instant(since.Int64), Seen: instant(seen.Int64), List: uint64(list.Int64)}
			all = append(all, joblist.Row{Replica: r, Part: int(part.Int64), Parts: int(parts.Int64)})
		}
	}
	roster.Replicas = joblist.Complete(all)
	return roster, rows.Err()
}

// readList reads the jobs of a replica: see [joblist.Parts.Jobs].
func (s *Store) readList(ctx context.Context, c *sql.Conn, group string, r jobs.Replica) (_ map[string]jobs.ScheduleHash, err error) {
	rows, err := c.QueryContext(ctx, s.replica.lists, group, r.Owner)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	parts := joblist.NewParts(r.List)
	for rows.Next() {
		var part, of int
		var number int64
		var text []byte
		if err := rows.Scan(&part, &of, &number, &text); err != nil {
			return nil, err
		}
		parts.Add(part, of, uint64(number), text)
	}
	return parts.Jobs(), rows.Err()
}

// GoneSince implements [jobs.Registry].
func (s *Store) GoneSince(ctx context.Context, group, job string) (gone time.Time, err error) {
	err = s.do(ctx, "read whether the job is gone", func(ctx context.Context, c *sql.Conn, _ opened) error {
		var at int64
		err := c.QueryRowContext(ctx, s.replica.since, group, job).Scan(&at)
		if at > 0 {
			gone = instant(at)
		}
		return err
	})
	return gone, err
}

// Forget implements [jobs.Registry]. Runs that are over go first, in batches.
func (s *Store) Forget(ctx context.Context, group, job string, gone time.Time) (bool, error) {
	if err := ledgerrows.PruneGone(gone,
		func() (time.Time, error) { return s.GoneSince(ctx, group, job) },
		func() (int, error) { return s.Prune(ctx, group, job, jobs.History{Keep: 1}, defaultBatch) },
	); err != nil {
		return false, err
	}
	return s.rules.Forget(ctx, group, job, gone)
}
