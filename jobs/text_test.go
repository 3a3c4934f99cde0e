package jobs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/jobs"
)

// States and policies are names in JSON, and come back from it.
func TestTextInJSON(t *testing.T) {
	t.Parallel()
	type all struct {
		State    jobs.State
		Misfire  jobs.Misfire
		Recover  jobs.Recover
		Overlap  jobs.Overlap
		ByState  map[jobs.State]int `json:",omitempty"`
		Policies []jobs.Overlap     `json:",omitempty"`
	}
	for _, test := range []struct {
		value all
		want  string
	}{
		{all{}, `{"State":"","Misfire":"once","Recover":"skip","Overlap":"forbid"}`},
		{all{jobs.TimedOut, jobs.MisfireAll, jobs.RecoverRerun, jobs.OverlapReplace, map[jobs.State]int{jobs.Failed: 3}, []jobs.Overlap{jobs.OverlapAllow}},
			`{"State":"timed out","Misfire":"all","Recover":"rerun","Overlap":"replace","ByState":{"failed":3},"Policies":["allow"]}`},
	} {
		text, err := json.Marshal(test.value)
		if err != nil || string(text) != test.want {
			t.Errorf("got %s, %v, want %s", text, err, test.want)
		}
		var back all
		if err := json.Unmarshal(text, &back); err != nil || back.State != test.value.State || back.Overlap != test.value.Overlap || back.Misfire != test.value.Misfire || back.Recover != test.value.Recover || back.ByState[jobs.Failed] != test.value.ByState[jobs.Failed] {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
	}
	for s := jobs.Running; s <= jobs.Interrupted; s++ {
		text, err := json.Marshal(s)
		var back jobs.State
		if err != nil || json.Unmarshal(text, &back) != nil || back != s {
			t.Errorf("%v: %s, %v", s, text, err)
		}
	}
	if text, err := json.Marshal(jobs.State(99)); err != nil || string(text) != `"State(99)"` {
		t.Errorf("an unknown state: %s, %v", text, err)
	}
	for text, to := range map[string]any{`"gone"`: new(jobs.State), `"State(99)"`: new(jobs.State), `"twice"`: new(jobs.Misfire), `""`: new(jobs.Recover), `"x"`: new(jobs.Overlap)} {
		if err := json.Unmarshal([]byte(text), to); err == nil || !strings.Contains(err.Error(), "must be one of") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
