package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// pastRuns has runs, the newest first, and counts how often it is asked.
type pastRuns struct {
	store.Ledger
	runs  []jobs.Record
	asked int
}

func (h *pastRuns) Runs(_ context.Context, _ string, f jobs.Filter) (found []jobs.Record, err error) {
	h.asked++
	for _, r := range h.runs {
		if (f.Job == "" || f.Job == r.Job) && len(found) < f.Limit {
			found = append(found, r)
		}
	}
	return found, nil
}

// The last runs of many jobs are one query. A job that has not run for long, beside
// one that runs all the time, is one more.
func TestLastRunsAreFewQueries(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var h pastRuns
	snapshot := jobs.Snapshot{Now: now, Jobs: map[string]jobs.Known{}}
	add := func(job string, ago time.Duration, state jobs.State) {
		tick := now.Add(-ago)
		r := jobs.Record{Key: jobs.Key{Job: job, Tick: tick}, State: state}
		h.runs = append(h.runs, r)
		if !state.Over() {
			snapshot.Open = append(snapshot.Open, r)
		}
		if known, ok := snapshot.Jobs[job]; !ok {
			known.Cursor = tick
			snapshot.Jobs[job] = known
		}
	}
	const many = 10_000
	for i := range many {
		snapshot.Jobs[fmt.Sprint("idle-", i)] = jobs.Known{}
		add(fmt.Sprint("job-", i), 0, jobs.Running)
	}
	for i := range many {
		add(fmt.Sprint("job-", i), time.Minute, jobs.Failed)
	}
	check := func(asked int, ended ...string) {
		t.Helper()
		h.asked = 0
		list := listJobs(snapshot, nil)
		if err := addLast(t.Context(), jobs.NewGroup(&h, "g"), snapshot, list); err != nil {
			t.Fatal(err)
		}
		last := map[string]*runRecord{}
		for _, s := range list {
			last[s.Name] = s.Last
		}
		for _, name := range ended {
			if last[name] == nil || last[name].Job != name || last[name].State == jobs.Running.String() {
				t.Errorf("the last run of %s: %+v", name, last[name])
			}
		}
		if last["idle-7"] != nil {
			t.Errorf("a job that never ran: %+v", last["idle-7"])
		}
		if h.asked != asked {
			t.Errorf("%d queries, want %d", h.asked, asked)
		}
	}
	check(1, "job-0", "job-9999")
	for i := range 8 * many {
		add("often", time.Hour+time.Duration(i)*time.Second, jobs.Succeeded)
	}
	add("rare", 1000*time.Hour, jobs.Succeeded)
	check(2, "job-0", "often", "rare")
}
