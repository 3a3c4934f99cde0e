package main

import (
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/jobs"
)

// Jobs whose runs a worker could have wait for something else, where the file says what they want.
func TestUnassigned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	snapshot := jobs.Snapshot{Now: now, Opened: jobs.Opened{Spread: true}}
	for _, name := range []string{"pooled", "labelled", "unknown"} {
		snapshot.Open = append(snapshot.Open, jobs.Record{Key: jobs.Key{Job: name, Tick: now}, State: jobs.Waiting, Due: now.Add(-time.Minute)})
	}
	has := map[string]jobs.ScheduleHash{"pooled": 1, "labelled": 1}
	roster := jobs.Roster{Now: now, Replicas: []jobs.Replica{{Owner: "a", Seen: now, Since: now, Jobs: has, MaxRuns: 1}}}
	file := &config.Config{Jobs: []config.Job{{Job: jobs.Job{Name: "pooled"}}, {Job: jobs.Job{Name: "labelled", On: jobs.Labels{"disk": "ssd"}}}, {Job: jobs.Job{Name: "unknown"}}}}
	if got := unassigned(snapshot, roster, &target{file: file}); !slices.Equal(got, []string{"labelled", "unknown"}) {
		t.Errorf("by the file: %q", got)
	}
	if got := unassigned(snapshot, roster, &target{}); len(got) != 3 {
		t.Errorf("without a file: %q", got)
	}
	snapshot.Open = append(snapshot.Open, jobs.Record{Key: jobs.Key{Job: "other", Tick: now}, State: jobs.Running, Owner: "a", Details: jobs.Details{Fencing: 1}})
	if got := unassigned(snapshot, roster, &target{file: file}); len(got) != 3 {
		t.Errorf("of a worker that is full: %q", got)
	}
}

// The labels of a job with shards are what its shards want, and no other job. One that runs everywhere does not begin without them.
func TestUnassignedShards(t *testing.T) {
	t.Parallel()
	now := time.Now()
	snapshot := jobs.Snapshot{Now: now, Opened: jobs.Opened{Spread: true}}
	for _, name := range []string{"a", "a/shards", "b/shards", "c"} {
		snapshot.Open = append(snapshot.Open, jobs.Record{Key: jobs.Key{Job: name, Tick: now}, State: jobs.Waiting, Due: now.Add(-time.Minute)})
	}
	has := map[string]jobs.ScheduleHash{"a": 1, "a/shards": 1, "b": 1, "b/shards": 1, "c": 1, "c/shards": 1}
	roster := jobs.Roster{Now: now, Replicas: []jobs.Replica{{Owner: "w", Seen: now, Since: now, Jobs: has}}}
	on := jobs.Labels{"disk": "ssd"}
	file := &config.Config{Jobs: []config.Job{{Job: jobs.Job{Name: "a", Shards: 2, On: on}}, {Job: jobs.Job{Name: "b/shards"}}, {Job: jobs.Job{Name: "b", On: on}}, {Job: jobs.Job{Name: "c", On: on, Everywhere: true}}}, Spread: true}
	if got := unassigned(snapshot, roster, &target{file: file}); !slices.Equal(got, []string{"a/shards", "c"}) {
		t.Errorf("got %q", got)
	}
}
