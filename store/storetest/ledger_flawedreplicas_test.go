package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// replicaFlaws are those of [store.Replicas].
var replicaFlaws = []string{
	"replicas: Enlist ignores the group",
	"replicas: Enlist leaves the list",
	"replicas: Enlist leaves the jobs",
	"replicas: Enlist leaves the version",
	"replicas: Enlist moves Since",
	"replicas: Enlist leaves Seen",
	"replicas: Enlist adds jobs",
	"replicas: Enlist has no version",
	"replicas: Enlist has no hashes",
	"replicas: Enlist takes any group",
	"replicas: Enlist takes any owner",
	"replicas: Enlist takes at most 1,000 jobs",
	"replicas: Refresh does nothing",
	"replicas: Refresh ignores the owner",
	"replicas: Refresh ignores the group",
	"replicas: Refresh moves Since",
	"replicas: Refresh adds",
	"replicas: Strike does nothing",
	"replicas: Strike ignores the owner",
	"replicas: Strike ignores the group",
	"replicas: Strike ignores idle",
	"replicas: Strike at once only",
	"replicas: Roster of all groups",
	"replicas: Roster in any order",
	"replicas: Roster has no leader",
	"replicas: Roster has a leader that released",
	"replicas: Roster has the leader among its replicas alone",
	"replicas: Roster has no clock",
	"replicas: Roster trusts what is known",
	"replicas: Gone ignores the fence",
	"replicas: Gone ignores the owner",
	"replicas: Gone ignores the token",
	"replicas: Gone does nothing",
	"replicas: Gone moves Gone",
	"replicas: Gone of all jobs",
	"replicas: Gone of all groups",
	"replicas: Gone makes jobs",
	"replicas: Gone of at most 500 jobs",
	"replicas: Gone stays when declared",
	"replicas: Gone ends with any declaration",
	"replicas: GoneSince of any group",
	"replicas: GoneSince of any job",
	"replicas: GoneSince is always zero",
	"replicas: Forget does nothing",
	"replicas: Forget ignores Gone",
	"replicas: Forget of what is not gone",
	"replicas: Forget of all groups",
	"replicas: Forget of all jobs",
	"replicas: Forget leaves the job",
	"replicas: Forget leaves Failing",
	"replicas: Forget leaves runs",
	"replicas: Forget leaves open runs",
	"replicas: Forget leaves pauses",
	"replicas: Forget leaves the cursor",
	"replicas: Forget always says yes",
	"replicas: Forget of names alike",
	"replicas: Enlist ignores its context",
	"replicas: Roster ignores its context",
}

// enlisted is a replica of a group.
type enlisted struct {
	group string
	jobs.Replica
}

func (s *ledgerReplica) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	if err := ctx.Err(); err != nil && !s.has("replicas: Enlist ignores its context") {
		return err
	}
	if store.CheckName("group", group) != nil && !s.has("replicas: Enlist takes any group") {
		return errors.New("not a group")
	}
	if store.CheckName("owner", r.Owner) != nil && !s.has("replicas: Enlist takes any owner") {
		return errors.New("not an owner")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has("replicas: Enlist ignores the group") {
		group = otherOne
	}
	now := s.now("Seen")
	r.Since, r.Seen, r.Jobs = now, now, maps.Clone(r.Jobs)
	if s.has("replicas: Enlist has no version") {
		r.Version = ""
	}
	for name := range r.Jobs {
		if s.has("replicas: Enlist has no hashes") {
			r.Jobs[name] = 0
		}
		if s.has("replicas: Enlist takes at most 1,000 jobs") && len(r.Jobs) > 1000 {
			delete(r.Jobs, name)
		}
	}
	i := slices.IndexFunc(s.replicas, func(x enlisted) bool { return x.group == group && x.Owner == r.Owner })
	if i < 0 {
		s.replicas = append(s.replicas, enlisted{group, r})
		return nil
	}
	was := &s.replicas[i]
	if !s.has("replicas: Enlist moves Since") {
		r.Since = was.Since
	}
	switch s.flaw {
	case "replicas: Enlist leaves the list":
		r.List = was.List
	case "replicas: Enlist leaves the jobs":
		r.Jobs = was.Jobs
	case "replicas: Enlist leaves the version":
		r.Version = was.Version
	case "replicas: Enlist leaves Seen":
		r.Seen = was.Seen
	case "replicas: Enlist adds jobs":
		maps.Copy(r.Jobs, was.Jobs)
	}
	was.Replica = r
	return nil
}

func (s *ledgerReplica) Refresh(ctx context.Context, group, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for i := range s.replicas {
		x := &s.replicas[i]
		if (x.group == group || s.has("replicas: Refresh ignores the group")) && (x.Owner == owner || s.has("replicas: Refresh ignores the owner")) {
			found = true
			if !s.has("replicas: Refresh does nothing") {
				x.Seen = s.now("Seen")
			}
			if s.has("replicas: Refresh moves Since") {
				x.Since = x.Seen
			}
		}
	}
	if !found && s.has("replicas: Refresh adds") {
		s.replicas = append(s.replicas, enlisted{group, jobs.Replica{Owner: owner}})
	}
	return nil
}

func (s *ledgerReplica) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has("replicas: Strike ignores idle") {
		idle = 0
	}
	s.replicas = slices.DeleteFunc(s.replicas, func(x enlisted) bool {
		return !s.has("replicas: Strike does nothing") &&
			(!s.has("replicas: Strike at once only") || idle == 0) &&
			(x.group == group || s.has("replicas: Strike ignores the group")) &&
			(x.Owner == owner || s.has("replicas: Strike ignores the owner")) && s.now("Seen").Sub(x.Seen) >= idle
	})
	return nil
}

func (s *ledgerReplica) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	if err := ctx.Err(); err != nil && !s.has("replicas: Roster ignores its context") {
		return jobs.Roster{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	roster := jobs.Roster{Now: s.now("Roster")}
	if s.has("replicas: Roster has no clock") {
		roster.Now = time.Time{}
	}
	for _, x := range s.replicas {
		if x.group != group && !s.has("replicas: Roster of all groups") {
			continue
		}
		r := x.Replica
		r.Jobs = maps.Clone(r.Jobs)
		if was, ok := known.Find(r.Owner); ok && s.has("replicas: Roster trusts what is known") {
			r.Jobs = was.Jobs
		}
		roster.Replicas = append(roster.Replicas, r)
	}
	jobs.SortReplicas(roster.Replicas)
	if s.has("replicas: Roster in any order") {
		slices.Reverse(roster.Replicas)
	}
	rs, err := s.leases.Read(context.Background(), group)
	if err != nil {
		return jobs.Roster{}, err
	}
	if l := rs[0].Lease; l != nil && (!l.Released || s.has("replicas: Roster has a leader that released")) && !s.has("replicas: Roster has no leader") {
		roster.Leader = l.Owner
	}
	if _, ok := roster.Find(roster.Leader); !ok && s.has("replicas: Roster has the leader among its replicas alone") {
		roster.Leader = ""
	}
	return roster, nil
}

func (s *ledgerReplica) Gone(ctx context.Context, h store.Holder, names []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fence(h.Group)
	if !s.has("replicas: Gone ignores the fence") && (f == nil ||
		f.Owner != h.Owner && !s.has("replicas: Gone ignores the owner") ||
		f.Token != h.Token && !s.has("replicas: Gone ignores the token")) {
		return store.ErrReplaced
	}
	if s.has("replicas: Gone does nothing") {
		return nil
	}
	if s.has("replicas: Gone of at most 500 jobs") {
		names = names[:min(len(names), 500)]
	}
	for _, name := range names {
		if k := (jobKey{h.Group, name}); s.jobs[k] == nil && s.has("replicas: Gone makes jobs") {
			s.jobs[k] = &jobs.Known{}
		}
	}
	for k, known := range s.jobs {
		group := k.group == h.Group || s.has("replicas: Gone of all groups")
		job := slices.Contains(names, k.job) || s.has("replicas: Gone of all jobs")
		if group && job && (known.Gone.IsZero() || s.has("replicas: Gone moves Gone")) {
			known.Gone = s.now("Gone")
		}
	}
	return nil
}

// cameBack ends the absence of what is declared. It is called with mu held.
func (s *ledgerReplica) cameBack(h store.Holder, declared []store.Declared) {
	for k, known := range s.jobs {
		is := slices.ContainsFunc(declared, func(d store.Declared) bool { return s.name(d.Name) == k.job })
		if k.group == h.Group && !s.has("replicas: Gone stays when declared") && (is || s.has("replicas: Gone ends with any declaration") && len(declared) > 0) {
			known.Gone = time.Time{}
		}
	}
}

func (s *ledgerReplica) GoneSince(ctx context.Context, group, job string) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := time.Time{}
	for k, known := range s.jobs {
		mine := (k.group == group || s.has("replicas: GoneSince of any group")) && (k.job == job || s.has("replicas: GoneSince of any job"))
		if mine && !known.Gone.IsZero() && !s.has("replicas: GoneSince is always zero") {
			gone = known.Gone
		}
	}
	return gone, nil
}

func (s *ledgerReplica) Forget(ctx context.Context, group, job string, gone time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	alike := func(name string) bool {
		return name == job || s.has("replicas: Forget of all jobs") || s.has("replicas: Forget of names alike") && len(name) > len(job) && job != "" && name[:len(job)] == job
	}
	done := false
	for k, known := range s.jobs {
		if (k.group != group && !s.has("replicas: Forget of all groups")) || !alike(k.job) {
			continue
		}
		if known.Gone.IsZero() && !s.has("replicas: Forget of what is not gone") || !known.Gone.Equal(gone) && !s.has("replicas: Forget ignores Gone") && k.group == group && k.job == job {
			continue
		}
		if done = true; s.has("replicas: Forget does nothing") {
			continue
		}
		if !s.has("replicas: Forget leaves the job") {
			delete(s.jobs, k)
		}
		if s.has("replicas: Forget leaves Failing") {
			s.stillFailing[k] = known.Failing
		}
		if !s.has("replicas: Forget leaves pauses") {
			delete(s.pauses, k)
		}
		newest := time.Time{}
		for _, r := range s.runs {
			if r.group == k.group && r.Job == k.job && r.Trigger == 0 && r.Tick.After(newest) {
				newest = r.Tick
			}
		}
		s.runs = slices.DeleteFunc(s.runs, func(r *ledgerRow) bool {
			return r.group == k.group && r.Job == k.job && !s.has("replicas: Forget leaves runs") &&
				(r.State.Over() || !s.has("replicas: Forget leaves open runs")) &&
				(!r.Tick.Equal(newest) || !s.has("replicas: Forget leaves the cursor"))
		})
	}
	return done || s.has("replicas: Forget always says yes"), nil
}
