package scheduler_test

import (
	"strings"
	"testing"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// A missing argument is an error that names it, and never a panic.
func TestNothingGiven(t *testing.T) {
	t.Parallel()
	store := memdb.New()
	for want, option := range map[string]scheduler.Option{
		"option 1 is nil":   nil,
		"WithLogger(nil)":   scheduler.WithLogger(nil),
		"WithSlog(nil)":     scheduler.WithSlog(nil),
		"WithObserver(nil)": scheduler.WithObserver(nil),
	} {
		if _, err := scheduler.New(store, "g", option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := scheduler.New(nil, "g"); err == nil {
		t.Error("New without a store: no error")
	}
}

func TestZeroScheduler(t *testing.T) {
	t.Parallel()
	var s scheduler.Scheduler
	for what, err := range map[string]error{
		"Add": s.Add(jobs.Job{}), "Run": s.Run(t.Context()), "Resign": s.Resign(t.Context()), "Check": s.Check(),
		"Pause": s.Jobs().Pause(t.Context(), "job"),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, ok := s.Job("job"); ok || s.Everywhere() != nil {
		t.Error("a zero Scheduler has a job")
	}
	if _, ok := s.Skew(); ok || s.State() != (election.State{}) || s.Owner() != "" || len(s.Running()) != 0 {
		t.Error("a zero Scheduler knows something")
	}
}
