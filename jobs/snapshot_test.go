package jobs_test

import (
	"testing"

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
}
