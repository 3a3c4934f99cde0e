package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/jobs"
)

// replicaRow is a replica in the list.
type replicaRow struct {
	Owner, Short, Version, Jobs string
	Runs, Labels                string // where the group is spread
	Since, Seen                 moment
	Leads, Quiet, Gone, Spread  bool
	FollowerOnly                bool
}

// versions say how many replicas there are of each version.
func versions(replicas []jobs.Replica) string {
	of := map[string]int{}
	for _, r := range replicas {
		of[r.Version]++
	}
	var all []string
	for version := range of {
		all = append(all, version)
	}
	slices.Sort(all)
	for i, version := range all {
		shown := visible(version)
		if version == "" {
			shown = "no version"
		}
		if len(of) > 1 {
			shown = count(of[version]) + " of " + shown
		}
		all[i] = shown
	}
	return strings.Join(all, ", ")
}

func (v *viewer) replicaRows() []replicaRow {
	var rows []replicaRow
	live, runs := v.roster.Live(), v.snapshot.RunsOf()
	for _, r := range v.roster.Replicas {
		quiet := v.roster.Now.Sub(r.Seen) > jobs.ReplicaLife
		has := count(runs[r.Owner])
		if r.MaxRuns > 0 {
			has += " of " + count(r.MaxRuns)
		}
		rows = append(rows, replicaRow{
			FollowerOnly: r.FollowerOnly,
			Spread:       v.snapshot.Opened.Spread, Runs: has, Labels: visible(r.Labels.String()),
			Owner: visible(r.Owner), Short: visible(shortOwner(r.Owner)), Version: visible(r.Version), Jobs: count(len(r.Jobs)),
			Since: v.moment(r.Since), Seen: v.moment(r.Seen), Leads: r.Owner == v.leader.Owner && v.leader.Held(), Quiet: quiet,
			Gone: !quiet && !slices.ContainsFunc(live, func(x jobs.Replica) bool { return x.Owner == r.Owner }),
		})
	}
	slices.SortStableFunc(rows, func(a, b replicaRow) int {
		return cmp.Or(-boolean(a.Leads, b.Leads), boolean(a.Quiet || a.Gone, b.Quiet || b.Gone), cmp.Compare(a.Owner, b.Owner))
	})
	return rows
}

// boolean puts false before true.
func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
