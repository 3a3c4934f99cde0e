package jobs_test

import (
	"testing"

	"github.com/cronlease/cronlease/jobs"
)

// How an attempt ended is read from the ledger as it was written, with whatever its error says.
func TestPrevious(t *testing.T) {
	t.Parallel()
	for state := jobs.Succeeded; state <= jobs.Interrupted; state++ {
		for _, why := range []string{"", "timed out: failed: x"} {
			if p := (jobs.Previous{State: state, Error: why}); jobs.ParsePrevious(p.String()) != p {
				t.Errorf("%+v is written as %q and read as %+v", p, p, jobs.ParsePrevious(p.String()))
			}
		}
	}
	for text, want := range map[string]jobs.Previous{
		"":              {State: jobs.Interrupted},
		"no luck":       {State: jobs.Failed, Error: "no luck"},
		"State(10): no": {State: jobs.Failed, Error: "State(10): no"},
		"running: away": {State: jobs.Failed, Error: "running: away"},
	} {
		if p := jobs.ParsePrevious(text); p != want {
			t.Errorf("%q: %+v, want %+v", text, p, want)
		}
	}
	if text := (jobs.Previous{}).String(); text != "" {
		t.Errorf("no attempt: %q", text)
	}
}
