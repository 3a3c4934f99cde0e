package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// replicaStatus is a worker of the group, as it has told of itself. Its JSON form is
// relied on.
type replicaStatus struct {
	Owner   string `json:"owner"`
	Version string `json:"version"`
	Since   *stamp `json:"since"`
	Seen    *stamp `json:"seen"`
	Jobs    int    `json:"jobs"`
	// Runs are those that it has, in a group that is spread, and MaxRuns as many as it may have at a time; zero: any number.
	Runs    int         `json:"runs"`
	MaxRuns int         `json:"max_runs"`
	Labels  jobs.Labels `json:"labels"`
	// FollowerOnly: it never leads.
	FollowerOnly bool `json:"follower_only"`
}

// readRoster reads the workers of the group. Where they cannot be read, as before worker
// migrate, there are none.
func readRoster(ctx context.Context, g jobs.Group) jobs.Roster {
	roster, err := g.Roster(ctx)
	if err != nil {
		return jobs.Roster{}
	}
	return roster
}

// rosterUnder is the roster as it counts with that leader.
func rosterUnder(roster jobs.Roster, l election.Leadership) jobs.Roster {
	if !l.Held() {
		return roster.Expired()
	}
	return roster
}

// goneOf says which workers are gone that told of themselves lately; empty: none.
func goneOf(roster jobs.Roster) string {
	var gone []string
	for _, r := range roster.Gone() {
		gone = append(gone, fmt.Sprintf("%s (told of itself %v ago)", r.Owner, roster.Now.Sub(r.Seen).Round(time.Second)))
	}
	return bounded(gone)
}

func replicaStates(roster jobs.Roster, snapshot jobs.Snapshot) []replicaStatus {
	all, runs := []replicaStatus{}, snapshot.RunsOf()
	for _, r := range roster.Live() {
		all = append(all, replicaStatus{r.Owner, r.Version, jsontime.Of(r.Since), jsontime.Of(r.Seen), len(r.Jobs), runs[r.Owner], r.MaxRuns, r.Labels, r.FollowerOnly})
	}
	return all
}

// unassigned are the jobs whose runs have been due and have no worker. Where the file says what the jobs want, those are left out that a
// worker could have: their pool lets none start, or lock_at_least_for.
func unassigned(snapshot jobs.Snapshot, roster jobs.Roster, t *target) []string {
	runs, on := snapshot.RunsOf(), map[string]jobs.Labels{}
	if t.file != nil {
		for _, j := range t.file.Jobs {
			on[j.Name] = j.On
			if t.file.Divides(j) {
				on[jobs.ShardsOf(j.Name)] = j.On
			}
			if j.Shards > 0 { // the leader does its runs, and workers their shards
				on[j.Name] = nil
			}
		}
	}
	return jobsOf(slices.DeleteFunc(snapshot.Unassigned(), func(r jobs.Record) bool {
		wants, known := on[r.Job]
		return known && slices.ContainsFunc(roster.Live(), func(x jobs.Replica) bool {
			_, has := x.Jobs[r.Job]
			return has && x.Labels.Has(wants) && (x.MaxRuns == 0 || runs[x.Owner] < x.MaxRuns)
		})
	}))
}

// versionsOf says how many workers there are of each version: "3 of v1.4.0, 1 of v1.5.0".
func versionsOf(replicas []replicaStatus) string {
	count := map[string]int{}
	var versions []string
	for _, r := range replicas {
		if count[r.Version]++; count[r.Version] == 1 {
			versions = append(versions, r.Version)
		}
	}
	slices.Sort(versions)
	var parts []string
	for _, v := range versions {
		shown := printable(v)
		if v == "" {
			shown = "no version"
		}
		parts = append(parts, fmt.Sprintf("%d of %s", count[v], shown))
	}
	return strings.Join(parts, ", ")
}

// addNotLed marks the jobs that workers have and the leader does not have, and adds those
// that no leader has had.
func addNotLed(list []jobStatus, roster jobs.Roster) []jobStatus {
	for _, name := range roster.Differences().NotLed {
		i := slices.IndexFunc(list, func(s jobStatus) bool { return s.Name == name })
		if i < 0 {
			list = append(list, jobStatus{Name: name})
			i = len(list) - 1
		}
		list[i].NotLed, list[i].Next = true, nil
	}
	slices.SortFunc(list, func(a, b jobStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// bounded lists names, at most ten.
func bounded(list []string) string {
	const most = 10
	shown := make([]string, len(list))
	for i, name := range list {
		shown[i] = printable(name)
	}
	return strings.Join(names.First(shown, most), ", ")
}

// firstBytes cuts a version to what a replica may tell.
func firstBytes(version string) string {
	return strings.ToValidUTF8(version[:min(len(version), store.MaxName)], "")
}

// work says what a worker of a group that is spread does: "worker/vm/17/A4: runs 2 of 8, disk=ssd".
func (r replicaStatus) work() string {
	text := fmt.Sprintf("%s: runs %d", printable(r.Owner), r.Runs)
	if r.MaxRuns > 0 {
		text += fmt.Sprintf(" of %d", r.MaxRuns)
	}
	if r.FollowerOnly {
		text += ", never leads"
	}
	if len(r.Labels) > 0 {
		text += ", " + printable(r.Labels.String())
	}
	return text
}

// jobsOf are the jobs of runs, each once.
func jobsOf(runs []jobs.Record) []string {
	names := []string{}
	for _, r := range runs {
		names = append(names, r.Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
