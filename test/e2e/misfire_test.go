package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/internal/workertest"
)

// Under `misfire: all` every tick gets a run that began, under every overlap except
// replace: each second has a tick whose run takes 300 ms, and leaders are killed,
// stopped for longer than their TTL, or terminated, in turn, every few seconds.
func TestMisfireAllMeansAll(t *testing.T) {
	t.Parallel()
	faults := rounds.Of(t, 3)
	const job = `
  - name: {overlap}
    every: 1s
    misfire: all
    overlap: {overlap}
    http: {url: "{target}/slow/{overlap}", method: POST}
`
	overlaps := []string{"forbid", "queue", "allow"}
	var declared string
	for _, overlap := range overlaps {
		declared += strings.ReplaceAll(job, "{overlap}", overlap)
	}
	workertest.EachWith(t, declared, func(t *testing.T, c *workertest.Cluster) {
		// The next leader has caught up once it has run a tick that is younger than its term.
		caughtUp := func(from time.Time, token uint64) {
			for _, overlap := range overlaps {
				c.Target.WaitFor("a run of "+overlap, func(a workertest.Arrival) bool {
					tick, err := time.Parse(time.RFC3339Nano, a.Tick)
					return err == nil && a.Path == "/slow/"+overlap && a.Token == token && tick.After(from.Add(2*time.Second))
				})
			}
		}
		next := workertest.Term{Token: c.Leader().Token(), At: time.Now()}
		caughtUp(next.At, next.Token)
		for i := range faults {
			leader := c.Leader()
			switch i % 3 {
			case 0:
				leader.Kill()
				c.Start()
			case 1:
				c.Pause(leader)
			case 2:
				leader.Terminate()
				c.Start()
			}
			next = c.WaitForLeaderAfter(next.Token)
			caughtUp(next.At, next.Token)
			if i%3 == 1 {
				leader.Resume()
			}
		}
		c.TerminateAll()
		for _, overlap := range overlaps {
			wantAllRun(t, c, overlap)
		}
		for _, overlap := range []string{"forbid", "queue"} {
			if most := c.Target.Most("/slow/" + overlap); most > 1 {
				t.Errorf("%s: %d runs at once", overlap, most)
			}
		}
	})
}

// wantAllRun checks that every tick of a job, from the first to the last that
// began, has a row of its own and began, and that what succeeded called the
// target once.
func wantAllRun(t *testing.T, c *workertest.Cluster, job string) {
	t.Helper()
	calls := map[string]int{}
	for _, a := range c.Target.Arrivals() {
		if a.Path == "/slow/"+job {
			calls[a.Tick]++
		}
	}
	runs := history(t, c, job)
	slices.Reverse(runs)
	for len(runs) > 0 && runs[len(runs)-1].Attempt == 0 && runs[len(runs)-1].State == "waiting" {
		runs = runs[:len(runs)-1] // for the next leader
	}
	if len(runs) == 0 {
		t.Fatalf("%s: no runs", job)
	}
	states := map[string]int{}
	for i, r := range runs {
		states[r.State]++
		if want := runs[0].Tick.Add(time.Duration(i) * time.Second); !r.Tick.Equal(want) {
			t.Fatalf("%s: the tick %v has no row: the next is of %v, missed %d", job, want, r.Tick, r.Missed)
		}
		if r.Attempt == 0 {
			t.Errorf("%s: the tick %v never began: %s %s", job, r.Tick, r.State, r.Error)
		}
		if n := calls[r.Tick.Format(time.RFC3339Nano)]; n > 1 || r.State == "succeeded" && n == 0 {
			t.Errorf("%s: the tick %v %s, and called the target %d times", job, r.Tick, r.State, n)
		}
	}
	t.Logf("%s: %d ticks: %v", job, len(runs), states)
}
