package sqlledger

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/joblist"
	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/examining"
)

// MeasureCommits measures how long a commit takes, with the row of a replica in a group that cannot be.
func MeasureCommits(ctx context.Context, db Database, q *ReplicaQueries) (examining.Times, error) {
	const group, owner = "", "worker doctor"
	run := func(statement string, args ...any) error {
		_, err := db.Exec(ctx, "measure commits", Statement{statement, append([]any{group, owner}, args...)})
		return err
	}
	if err := run(q.Enlist, 0, 1, 0, "", []byte{}); err != nil {
		return examining.Times{}, err
	}
	took, err := examining.Measure(func() error { return run(q.Refresh) })
	if err != nil {
		return examining.Times{}, err
	}
	return took, run(q.Strike, 0)
}

// Enlist implements [store.Replicas]. A long list takes several statements: part 0 goes
// last, so that a reader in between has the list before, or none.
func (l *Ledger) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	if err := store.CheckName("owner", r.Owner); err != nil {
		return err
	}
	parts := joblist.Encode(r)
	for i, part := range slices.Backward(parts) {
		if _, err := l.db.Exec(ctx, "tell of the replica", Statement{l.q.Enlist, []any{group, r.Owner, i, len(parts), Number(r.List), r.Version, part}}); err != nil {
			return err
		}
	}
	return nil
}

// Refresh implements [store.Replicas].
func (l *Ledger) Refresh(ctx context.Context, group, owner string) error {
	_, err := l.db.Exec(ctx, "refresh the replica", Statement{l.q.Refresh, []any{group, owner}})
	return err
}

// Strike implements [store.Replicas].
func (l *Ledger) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	_, err := l.db.Exec(ctx, "strike the replica", Statement{l.q.Strike, []any{group, owner, idle.Microseconds()}})
	return err
}

// Roster implements [jobs.Registry]. It is one statement, and one more for each replica
// whose list is not known.
func (l *Ledger) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	var roster jobs.Roster
	err := l.db.Read(ctx, "read the replicas", func(ctx context.Context, c Conn) (err error) {
		if roster, err = l.readRoster(ctx, c, group); err != nil {
			return err
		}
		if err := l.db.See(ctx, c, group, &roster); err != nil {
			return err
		}
		return joblist.Fill(&roster, known, func(r jobs.Replica) (map[string]jobs.ScheduleHash, error) {
			return l.readList(ctx, c, group, r)
		})
	})
	return roster, err
}

func (l *Ledger) readRoster(ctx context.Context, c Conn, group string) (roster jobs.Roster, err error) {
	var all []joblist.Row
	err = Each(ctx, c, l.q.Roster, []any{group}, func(rows *sql.Rows) error {
		var (
			now               int64
			owner, version    sql.NullString
			part, parts, list sql.NullInt64
			since, seen       sql.NullInt64
		)
		err := rows.Scan(&now, &roster.Leader, &owner, &part, &parts, &list, &version, &since, &seen)
		roster.Now = Instant(now)
		if owner.Valid {
			r := jobs.Replica{Owner: owner.String, Version: version.String, Since: Instant(since.Int64), Seen: Instant(seen.Int64), List: uint64(list.Int64)}
			all = append(all, joblist.Row{Replica: r, Part: int(part.Int64), Parts: int(parts.Int64)})
		}
		return err
	})
	roster.Replicas = joblist.Complete(all)
	return roster, err
}

// readList reads the jobs of a replica: see [joblist.Parts.Jobs].
func (l *Ledger) readList(ctx context.Context, c Conn, group string, r jobs.Replica) (map[string]jobs.ScheduleHash, error) {
	parts := joblist.NewParts(r.List)
	err := Each(ctx, c, l.q.Lists, []any{group, r.Owner}, func(rows *sql.Rows) error {
		var part, of int
		var number int64
		var text []byte
		err := rows.Scan(&part, &of, &number, &text)
		parts.Add(part, of, uint64(number), text)
		return err
	})
	return parts.Jobs(), err
}

// GoneSince implements [jobs.Registry].
func (l *Ledger) GoneSince(ctx context.Context, group, job string) (gone time.Time, err error) {
	err = l.db.Read(ctx, "read whether the job is gone", func(ctx context.Context, c Conn) error {
		var at int64
		err := c.QueryRowContext(ctx, l.q.Since, group, job).Scan(&at)
		if at > 0 {
			gone = Instant(at)
		}
		return err
	})
	return gone, err
}

// Forget implements [jobs.Registry]. Runs that are over go first, in batches.
func (l *Ledger) Forget(ctx context.Context, group, job string, gone time.Time) (bool, error) {
	if err := ledgerrows.PruneGone(gone,
		func() (time.Time, error) { return l.GoneSince(ctx, group, job) },
		func() (int, error) { return l.Prune(ctx, group, job, jobs.History{Keep: 1}, defaultBatch) },
	); err != nil {
		return false, err
	}
	return l.Ledger.Forget(ctx, group, job, gone)
}
