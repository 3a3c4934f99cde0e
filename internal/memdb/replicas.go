package memdb

import (
	"context"
	"maps"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Replicas = (*Store)(nil)

// Enlist implements [store.Replicas].
func (s *Store) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	if err := store.CheckName("owner", r.Owner); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Since, r.Seen, r.Jobs = s.now(), s.now(), maps.Clone(r.Jobs)
	if was, ok := s.replicas[group][r.Owner]; ok {
		r.Since = was.Since
	}
	if s.replicas[group] == nil {
		s.replicas[group] = map[string]jobs.Replica{}
	}
	s.replicas[group][r.Owner] = r
	return nil
}

// Refresh implements [store.Replicas].
func (s *Store) Refresh(ctx context.Context, group, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.replicas[group][owner]; ok {
		r.Seen = s.now()
		s.replicas[group][owner] = r
	}
	return nil
}

// Strike implements [store.Replicas].
func (s *Store) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.replicas[group][owner]; s.now().Sub(r.Seen) >= idle {
		delete(s.replicas[group], owner)
	}
	return nil
}

// Roster implements [jobs.Registry].
func (s *Store) Roster(ctx context.Context, group string, _ jobs.Roster) (jobs.Roster, error) {
	if err := ctx.Err(); err != nil {
		return jobs.Roster{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	roster := jobs.Roster{Now: s.now()}
	if l, ok := s.leases[group]; ok && !l.Released {
		roster.Leader = l.Owner
	}
	for _, r := range s.replicas[group] {
		r.Jobs, r.Lent = maps.Clone(r.Jobs), maps.Clone(r.Lent)
		if r.Owner != roster.Leader {
			r.SetPresence(s.present[term{group, store.ReplicaToken(r.Owner)}] != nil)
		}
		roster.Replicas = append(roster.Replicas, r)
	}
	jobs.SortReplicas(roster.Replicas)
	return roster, nil
}
