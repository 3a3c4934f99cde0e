package cronlease_test

import (
	"encoding/json"
	"testing"
	"time"
)

// A job of each second, a leader that is killed twenty times: each tick has its
// row in the ledger, and none ran twice.
func TestEveryTickOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, c *cluster) {
		c.target.waitForTick(c.leader().token())
		for range 20 {
			leader := c.leader()
			leader.kill()
			next := c.waitForLeaderAfter(leader.token())
			c.target.waitForTick(next.token)
			c.start()
		}
		c.terminateAll()

		var runs []struct {
			Tick  time.Time `json:"tick"`
			State string    `json:"state"`
		}
		out := runWorker(t, "runs", "--config", c.config(c.url), "--job", "tick", "--limit", "100000", "--json")
		if err := json.Unmarshal([]byte(out), &runs); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
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
