package election_test

import (
	"encoding/json"
	"testing"

	"github.com/cronlease/cronlease/election"
)

// A role is its name in JSON, and comes back from it.
func TestRoleInJSON(t *testing.T) {
	t.Parallel()
	for _, r := range []election.Role{election.Following, election.Leading, election.Draining} {
		text, err := json.Marshal(r)
		back := election.Role(99)
		if err != nil || string(text) != `"`+r.String()+`"` || json.Unmarshal(text, &back) != nil || back != r {
			t.Errorf("%v: %s, %v, read as %v", r, text, err, back)
		}
	}
	if err := json.Unmarshal([]byte(`"king"`), new(election.Role)); err == nil {
		t.Error("an unknown role is read")
	}
}
