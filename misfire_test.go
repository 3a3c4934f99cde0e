package cronlease_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
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
	onEachStoreWith(t, declared, func(t *testing.T, c *cluster) {
		// The next leader has caught up once it has run a tick that is younger than its term.
		caughtUp := func(from time.Time, token uint64) {
			for _, overlap := range overlaps {
				c.target.waitFor("a run of "+overlap, func(a arrival) bool {
					tick, err := time.Parse(time.RFC3339Nano, a.tick)
					return err == nil && a.path == "/slow/"+overlap && a.token == token && tick.After(from.Add(2*time.Second))
				})
			}
		}
		next := term{c.leader().token(), time.Now()}
		caughtUp(next.at, next.token)
		for i := range faults {
			leader := c.leader()
			switch i % 3 {
			case 0:
				leader.kill()
				c.start()
			case 1:
				c.pause(leader)
			case 2:
				leader.terminate()
				c.start()
			}
			next = c.waitForLeaderAfter(next.token)
			caughtUp(next.at, next.token)
			if i%3 == 1 {
				leader.signal(sigCont)
			}
		}
		c.terminateAll()
		for _, overlap := range overlaps {
			c.wantAllRun(overlap)
		}
		for _, overlap := range []string{"forbid", "queue"} {
			if most := c.target.most["/slow/"+overlap]; most > 1 {
				t.Errorf("%s: %d runs at once", overlap, most)
			}
		}
	})
}

// wantAllRun checks that every tick of a job, from the first to the last that
// began, has a row of its own and began, and that what succeeded called the
// target once.
func (c *cluster) wantAllRun(job string) {
	c.t.Helper()
	calls := map[string]int{}
	for _, a := range c.target.arrivals() {
		if a.path == "/slow/"+job {
			calls[a.tick]++
		}
	}
	runs := c.history(job)
	slices.Reverse(runs)
	for len(runs) > 0 && runs[len(runs)-1].Attempt == 0 && runs[len(runs)-1].State == "waiting" {
		runs = runs[:len(runs)-1] // for the next leader
	}
	if len(runs) == 0 {
		c.t.Fatalf("%s: no runs", job)
	}
	states := map[string]int{}
	for i, r := range runs {
		states[r.State]++
		if want := runs[0].Tick.Add(time.Duration(i) * time.Second); !r.Tick.Equal(want) {
			c.t.Fatalf("%s: the tick %v has no row: the next is of %v, missed %d", job, want, r.Tick, r.Missed)
		}
		if r.Attempt == 0 {
			c.t.Errorf("%s: the tick %v never began: %s %s", job, r.Tick, r.State, r.Error)
		}
		if n := calls[r.Tick.Format(time.RFC3339Nano)]; n > 1 || r.State == "succeeded" && n == 0 {
			c.t.Errorf("%s: the tick %v %s, and called the target %d times", job, r.Tick, r.State, n)
		}
	}
	c.t.Logf("%s: %d ticks: %v", job, len(runs), states)
}
