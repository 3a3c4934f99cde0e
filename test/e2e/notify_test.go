package e2e

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/internal/workertest"
)

// A job that fails each second, and leaders that are killed again and again: of each run
// that was not a success, one notice stands in the ledger, and the target has got it.
func TestEachFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	const declared = `
  - {name: tick, every: 1s, misfire: all, overlap: allow, exec: ["false"]}
  - name: tell
    notify: {on_failure: [tick], limit: none}
    recover: rerun
    http: {url: "{target}/notice"}
`
	workertest.EachWith(t, declared, func(t *testing.T, c *workertest.Cluster) {
		toldBy := func(token uint64) {
			c.Target.WaitFor("a notice", func(a workertest.Arrival) bool { return a.Path == "/notice" && a.Token == token })
		}
		toldBy(c.Leader().Token())
		kills := rounds.Of(t, 4)
		for range kills {
			leader := c.Leader()
			leader.Kill()
			next := c.WaitForLeaderAfter(leader.Token())
			toldBy(next.Token)
			c.Start()
		}
		failed := history(t, c, "tick")
		late := time.Now()
		c.Target.WaitFor("a notice of the last of them", func(a workertest.Arrival) bool { return a.Path == "/notice" && a.At.After(late.Add(2*time.Second)) })
		c.TerminateAll()

		notices := map[time.Time]int{}
		for _, n := range history(t, c, "tell") {
			if notices[n.Tick]++; n.Kind != "notice" {
				t.Errorf("%v is of kind %s", n.Tick, n.Kind)
			}
		}
		arrived := map[string]int{}
		for _, a := range c.Target.Arrivals() {
			arrived[a.Tick]++
		}
		twice, told := 0, 0
		for _, r := range failed {
			if r.State == "running" || r.State == "waiting" {
				continue
			}
			told++
			tick := r.Tick.Format(time.RFC3339Nano)
			if notices[r.Tick] != 1 || arrived[tick] == 0 {
				t.Errorf("%s at %s: %d notices, which arrived %d times", r.State, tick, notices[r.Tick], arrived[tick])
			}
			twice += max(0, arrived[tick]-1)
		}
		if told < kills || twice > 2*kills {
			t.Errorf("%d runs failed, %d messages came twice", told, twice)
		}
		t.Logf("%d runs were told, %d of them twice", told, twice)
	})
}
