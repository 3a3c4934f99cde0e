package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/joblist"
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
	parts := joblist.Encode(r.Jobs)
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
	err := s.do(ctx, "read the replicas", func(ctx context.Context, c *sql.Conn, _ opened) (err error) {
		if roster, err = s.readRoster(ctx, c, group); err != nil {
			return err
		}
		var read []jobs.Replica
		for _, r := range roster.Replicas {
			if was, ok := known.Find(r.Owner); ok && was.List == r.List {
				r.Jobs = was.Jobs
			} else if r.Jobs, err = s.readList(ctx, c, group, r); err != nil {
				return err
			}
			if r.Jobs != nil {
				read = append(read, r)
			}
		}
		roster.Replicas = read
		return nil
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

// readList reads the jobs of a replica; nil when they have changed meanwhile, or are of
// a format that this program does not know.
func (s *Store) readList(ctx context.Context, c *sql.Conn, group string, r jobs.Replica) (_ map[string]jobs.ScheduleHash, err error) {
	rows, err := c.QueryContext(ctx, s.replica.lists, group, r.Owner)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	list, parts, want := map[string]jobs.ScheduleHash{}, int64(0), int64(0)
	for rows.Next() {
		var part, of, number int64
		var text []byte
		if err := rows.Scan(&part, &of, &number, &text); err != nil {
			return nil, err
		}
		if uint64(number) != r.List || part >= of {
			continue
		}
		if joblist.Decode(text, list) != nil {
			return nil, nil
		}
		parts, want = parts+1, of
	}
	if parts != want {
		return nil, rows.Err()
	}
	return list, rows.Err()
}

// Gone implements [store.Replicas].
func (s *Store) Gone(ctx context.Context, h store.Holder, names []string) error {
	if len(names) == 0 {
		return nil
	}
	current := false
	err := s.write(ctx, "note that jobs are gone", func(ctx context.Context, c *sql.Conn) error {
		for chunk := range slices.Chunk(names, ledgerBatch) {
			list, err := json.Marshal(chunk)
			if err != nil {
				return err
			}
			if _, err := exec(ctx, c, s.replica.gone, string(list), h.Group, h.Owner, number(h.Token)); err != nil {
				return err
			}
		}
		var err error
		current, err = s.current(ctx, c, h)
		return err
	})
	if err == nil && !current {
		return store.ErrReplaced
	}
	return err
}

// Forget implements [jobs.Registry]. Runs that are over go first, in batches.
func (s *Store) Forget(ctx context.Context, group, job string, gone time.Time) (bool, error) {
	if gone.IsZero() {
		return false, ctx.Err()
	}
	for {
		// A leader may declare it again between two batches.
		var is bool
		err := s.do(ctx, "forget the job", func(ctx context.Context, c *sql.Conn, _ opened) error {
			return c.QueryRowContext(ctx, s.replica.isGone, group, job, gone.UnixMicro()).Scan(&is)
		})
		if err != nil || !is {
			return false, err
		}
		n, err := s.Prune(ctx, group, job, jobs.History{Keep: 1}, defaultBatch)
		if err != nil {
			return false, err
		}
		if n == 0 {
			break
		}
	}
	n, err := s.writeRow(ctx, "forget the job", s.replica.forget, group, job, gone.UnixMicro())
	return n > 0, err
}
