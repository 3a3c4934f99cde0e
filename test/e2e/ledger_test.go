package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/internal/workertest"
)

// A job of each second, a leader that is killed again and again: each tick has
// its row in the ledger, and none ran twice.
func TestEveryTickOnce(t *testing.T) {
	t.Parallel()
	workertest.Each(t, func(t *testing.T, c *workertest.Cluster) {
		c.Target.WaitForTick(c.Leader().Token())
		for range rounds.Of(t, 5) {
			leader := c.Leader()
			leader.Kill()
			next := c.WaitForLeaderAfter(leader.Token())
			c.Target.WaitForTick(next.Token)
			c.Start()
		}
		c.TerminateAll()

		runs := history(t, c, "tick")
		rows := map[time.Time]string{}
		states := map[string]int{}
		var first, last time.Time
		for _, r := range runs {
			if rows[r.Tick] != "" {
				t.Errorf("tick %v has two rows", r.Tick)
			}
			rows[r.Tick] = r.State
			states[r.State]++
			if first.IsZero() || r.Tick.Before(first) {
				first = r.Tick
			}
			if r.Tick.After(last) {
				last = r.Tick
			}
		}
		for tick := first; !tick.After(last); tick = tick.Add(time.Second) {
			if rows[tick] == "" {
				t.Errorf("tick %v is missing", tick)
			}
		}
		if states["skipped"] > 0 {
			t.Errorf("%d ticks were skipped", states["skipped"])
		}
		t.Logf("%d ticks over %v: %v", len(rows), last.Sub(first), states)
	})
}

// run is a run as `worker runs --json` prints it.
type run struct {
	Tick    time.Time `json:"tick"`
	Kind    string    `json:"kind"`
	State   string    `json:"state"`
	Attempt int       `json:"attempt"`
	Missed  int       `json:"missed"`
	Error   string    `json:"error"`
}

// history is what the ledger has of a job, the newest tick first.
func history(t *testing.T, c *workertest.Cluster, job string) []run {
	t.Helper()
	out := c.Command("runs", "--job", job, "--limit", "1000000", "--json")
	var runs []run
	if err := json.Unmarshal([]byte(out), &runs); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return runs
}
