package jobs_test

import (
	"maps"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// In a group that is spread, no run is of a term.
func TestEarlierTerm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state  jobs.State
		token  uint64
		spread bool
		want   bool
	}{
		{jobs.Running, 6, false, true},
		{jobs.Running, 7, false, false},
		{jobs.Waiting, 6, false, false},
		{jobs.Running, 6, true, false},
	} {
		s := jobs.Snapshot{Opened: jobs.Opened{Token: 7, Spread: c.spread}}
		if got := s.IsOfEarlierTerm(jobs.Record{State: c.state, Token: c.token}, 7); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
	// Until the leader has handed over after a switch, its replicas have runs.
	s := jobs.Snapshot{Opened: jobs.Opened{Token: 7, Cluster: "c"}}
	r := jobs.Record{State: jobs.Running, Token: 6, Details: jobs.Details{Fencing: 5}}
	if s.IsOfEarlierTerm(r, 7) {
		t.Error("a run of a replica is said to be of an earlier term")
	}
	if s.Opened.Cluster = ""; !s.IsOfEarlierTerm(r, 7) {
		t.Error("a run that a replica has left is not said to be of an earlier term")
	}
}

// Of a group that is spread it is seen which replica has how many runs, and which runs have none.
func TestRunsOfReplicas(t *testing.T) {
	t.Parallel()
	now, assigned := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), jobs.Details{Fencing: 1}
	s := jobs.Snapshot{Now: now, Open: []jobs.Record{
		{Key: jobs.Key{Job: "runs"}, State: jobs.Running, Owner: "a", Details: assigned},
		{Key: jobs.Key{Job: "begins"}, State: jobs.Waiting, Owner: "a", Due: now.Add(-time.Minute), Details: assigned},
		{Key: jobs.Key{Job: "elsewhere"}, State: jobs.Running, Owner: "b", Details: assigned},
		{Key: jobs.Key{Job: "has shards"}, State: jobs.Running, Owner: "b"},
		{Key: jobs.Key{Job: "later"}, State: jobs.Waiting, Due: now.Add(time.Second)},
		{Key: jobs.Key{Job: "now"}, State: jobs.Waiting, Due: now.Add(-5 * time.Second)},
		{Key: jobs.Key{Job: "waits"}, State: jobs.Waiting, Due: now.Add(-6 * time.Second)},
		{Key: jobs.Key{Job: "runs", Trigger: 1}, State: jobs.Waiting, Due: now.Add(-time.Minute)}, // for the run before
		{Key: jobs.Key{Job: "paused"}, State: jobs.Waiting, Due: now.Add(-time.Minute)},
	}, Jobs: map[string]jobs.Known{"paused": {Paused: true}}}
	if runs, none := s.RunsOf(), s.Unassigned(); len(runs)+len(none) > 0 {
		t.Errorf("of a group whose leader runs all: %v, %v", runs, none)
	}
	s.Opened.Spread = true
	if runs := s.RunsOf(); !maps.Equal(runs, map[string]int{"a": 2, "b": 1}) {
		t.Errorf("runs: %v", runs)
	}
	if none := s.Unassigned(); len(none) != 1 || none[0].Job != "waits" {
		t.Errorf("runs without a replica: %v", none)
	}
	s.Paused = true
	if none := s.Unassigned(); len(none) != 0 {
		t.Errorf("of a group that is paused: %v", none)
	}
}
