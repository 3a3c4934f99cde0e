package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/joblist"
	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var _ store.Replicas = (*Store)(nil)

var (
	enlistScript  = newLedgerScript("enlist")
	refreshScript = newScript("refresh")
	strikeScript  = newScript("strike")
	rosterScript  = newScript("roster")
	seenScript    = newLedgerScript("seen")
	listScript    = newScript("list")
)

// Enlist implements [store.Replicas].
func (s *Store) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	if err := store.CheckName("owner", r.Owner); err != nil {
		return err
	}
	args := []any{group, r.Owner, r.Version, r.List}
	for _, part := range joblist.Encode(r) {
		args = append(args, part)
	}
	_, err := s.run(ctx, "tell of the replica", enlistScript, args...)
	return err
}

// Refresh implements [store.Replicas].
func (s *Store) Refresh(ctx context.Context, group, owner string) error {
	_, err := s.run(ctx, "refresh the replica", refreshScript, group, owner)
	return err
}

// Strike implements [store.Replicas].
func (s *Store) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	_, err := s.run(ctx, "strike the replica", strikeScript, group, owner, idle.Microseconds())
	return err
}

// Roster implements [jobs.Registry]. It is two scripts, and one more for each replica whose list is not known: one that
// has told of another list in between is left out.
func (s *Store) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	f, err := s.fieldsOf(ctx, "read the replicas", rosterScript, group)
	if err != nil {
		return jobs.Roster{}, err
	}
	roster, all := jobs.Roster{Now: f.instant(), Leader: f.text()}, f.nested()
	for len(all.values) > 0 && all.err == nil {
		row := all.nested()
		r := jobs.Replica{Owner: row.text(), Version: row.text(), Since: row.instant(), Seen: row.instant(), List: row.number()}
		all.keep(row)
		roster.Replicas = append(roster.Replicas, r)
	}
	if f.keep(all); f.err != nil {
		return jobs.Roster{}, f.err
	}
	jobs.SortReplicas(roster.Replicas)
	if err := s.see(ctx, group, &roster); err != nil {
		return jobs.Roster{}, err
	}
	err = joblist.Fill(&roster, known, func(r jobs.Replica) (map[string]jobs.ScheduleHash, error) { return s.readList(ctx, group, r) })
	return roster, err
}

// see finds out which replicas are present, by the channels that they listen to.
func (s *Store) see(ctx context.Context, group string, roster *jobs.Roster) error {
	at := 0
	for part := range slices.Chunk(roster.Replicas, lookMost) {
		args := []any{group}
		for _, r := range part {
			args = append(args, (&signal{store: s, group: group}).channel(store.ReplicaToken(r.Owner), ""))
		}
		f, err := s.fieldsOf(ctx, "look for the replicas", seenScript, args...)
		if err != nil {
			return err
		}
		leader := f.text() // now: it may have become that after the replicas were read
		for range part {
			r := &roster.Replicas[at]
			at++
			if present := f.number() > 0; r.Owner != leader && r.Owner != roster.Leader {
				r.SetPresence(present)
			}
		}
		if f.err != nil {
			return f.err
		}
	}
	return nil
}

// readList reads the jobs of a replica: see [joblist.Parts.Jobs].
func (s *Store) readList(ctx context.Context, group string, r jobs.Replica) (map[string]jobs.ScheduleHash, error) {
	answer, err := s.run(ctx, "read a replica's jobs", listScript, group, r.Owner)
	if err != nil || answer == nil {
		return nil, err
	}
	f := &fields{doing: "read a replica's jobs"}
	f.values = f.array(answer)
	list, rows := f.number(), f.nested()
	parts, of := joblist.NewParts(r.List), len(rows.values)
	for i := range of {
		parts.Add(i, of, list, []byte(rows.text()))
	}
	if f.keep(rows); f.err != nil || list != r.List {
		return nil, f.err
	}
	return parts.Jobs(), nil
}

// GoneSince implements [jobs.Registry].
func (s *Store) GoneSince(ctx context.Context, group, job string) (gone time.Time, err error) {
	err = rows{s}.Do(ctx, group, ledger.Need{Doing: "read whether the job is gone", Jobs: []string{job}}, func(tx *ledger.Tx) { gone = tx.Jobs[job].Gone })
	return gone, err
}

// Forget implements [jobs.Registry]. Runs that are over go first, in batches.
func (s *Store) Forget(ctx context.Context, group, job string, gone time.Time) (bool, error) {
	if err := store.CheckName("group", group); err != nil {
		return false, err
	}
	if err := ledgerrows.PruneGone(gone,
		func() (time.Time, error) { return s.GoneSince(ctx, group, job) },
		func() (int, error) { return s.Prune(ctx, group, job, jobs.History{Keep: 1}, defaultBatch) },
	); err != nil {
		return false, err
	}
	return s.rules.Forget(ctx, group, job, gone)
}
