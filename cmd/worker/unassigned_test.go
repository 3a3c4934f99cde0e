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
