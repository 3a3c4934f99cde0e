package e2e

import (
	"testing"

	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/internal/workertest"
)

// long is a job that takes longer than a job has to stop, and the drain for it, which
// is no job but the next key of the file.
const long = `
  - name: long
    every: 1s
    exec: [sleep, "1.5"]
drain: 1m
`

// Rolling deployments: a leader that is stopped in the middle of a run lets it finish,
// and the next worker leads right after it. No run is cancelled or interrupted.
func TestRollingDeployments(t *testing.T) {
	t.Parallel()
	workertest.EachWith(t, long, func(t *testing.T, c *workertest.Cluster) {
		for range rounds.Of(t, 3) {
			leader := c.Leader()
			token := leader.Token()
			leader.WaitFor("run started", func(e workertest.Event) bool { return e.Token == token })
			c.Start()
			leader.Terminate()
			leader.WaitFor("leaving: nothing new is started, and what runs may finish", func(workertest.Event) bool { return true })
			c.WaitForLeaderAfter(token)
			if code := leader.Wait(); code != 0 {
				t.Errorf("the worker ended with %d", code)
			}
		}
		c.TerminateAll()
		states := map[string]int{}
		for _, r := range history(t, c, "long") {
			states[r.State]++
		}
		t.Logf("%v", states)
		if states["succeeded"] < 3 || states["cancelled"]+states["interrupted"]+states["failed"] > 0 {
			t.Errorf("%v", states)
		}
	})
}
