package election_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
)

// A missing argument is an error that names it, and never a panic.
func TestNothingGiven(t *testing.T) {
	t.Parallel()
	store := memdb.New()
	for want, option := range map[string]election.Option{
		"option 1 is nil":   nil,
		"WithLogger(nil)":   election.WithLogger(nil),
		"WithObserver(nil)": election.WithObserver(nil),
	} {
		if _, err := election.New(store, "g", option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if err := election.Run(t.Context(), store, "g", nil); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("Run with no function: %v", err)
	}
	if err := election.Run(t.Context(), nil, "g", func(context.Context, election.Term) error { return nil }); err == nil {
		t.Error("Run without a store: no error")
	}
}

func TestReadingWithoutAStore(t *testing.T) {
	t.Parallel()
	if _, err := election.Leader(t.Context(), nil, "g"); err == nil {
		t.Error("Leader: no error")
	}
	if _, err := election.AskResign(t.Context(), nil, "g"); err == nil {
		t.Error("AskResign: no error")
	}
}

func TestZeroElection(t *testing.T) {
	t.Parallel()
	var e election.Election
	lead := func(context.Context, election.Term) error { return nil }
	for what, err := range map[string]error{"Run": e.Run(t.Context(), lead), "Resign": e.Resign(t.Context()), "Check": e.Check()} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if e.State() != (election.State{}) || e.Owner() != "" {
		t.Error("a zero Election knows something")
	}
}
