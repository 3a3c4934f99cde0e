package scheduler_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
)

// What a replica of a spread group sends at rest does not grow with the number of replicas. They share the runs, and when every
// tenth dies at once, no tick is lost. CRONLEASE_ROUNDS=20 does it with a thousand.
func TestManyReplicas(t *testing.T) {
	const few = 25 // more than those that watch all sessions
	n := rounds.Of(t, 50)
	inBubble(t, func(c *cluster) {
		declared := several(20, 0, sleep(20*time.Second))
		for i := range declared {
			declared[i].Schedule, declared[i].Recover = jobs.FixedRate(time.Minute).InitialDelay(20*time.Minute), jobs.RecoverRerun
		}
		c.spreadOver(few, declared)
		ofFew := c.perSecond(2*time.Minute, 4*time.Minute)
		c.spreadOver(n-few, declared)
		if ofAll := c.perSecond(17*time.Minute, 19*time.Minute); ofAll > ofFew {
			t.Errorf("%.2f statements a second at rest by each of %d replicas, and %.2f of %d", ofAll, n, ofFew, few)
		}
		c.until(21*time.Minute + 10*time.Second)
		for i, r := range c.replicas {
			if i%10 == 0 { // one of them leads
				r.kill()
			}
		}
		c.until(24 * time.Minute)
		for _, job := range declared {
			rows := c.records(job.Name)
			if len(rows) < 3 {
				t.Errorf("%s has %d runs", job.Name, len(rows))
			}
			for _, r := range rows {
				if r.State != jobs.Succeeded && r.Tick.Before(c.begin.Add(23*time.Minute)) {
					t.Errorf("%v of %s is %v: %s", r.Tick, job.Name, r.State, r.Error)
				}
			}
		}
	})
}

// perSecond is how many statements each replica sends meanwhile, but for those that tell of replicas.
func (c *cluster) perSecond(from, to time.Duration) float64 {
	sent := func() (all int) {
		for _, r := range c.replicas {
			r.link.mu.Lock()
			for _, n := range r.link.sent {
				all += n
			}
			r.link.mu.Unlock()
		}
		return all
	}
	c.until(from)
	before := sent()
	c.until(to)
	return float64(sent()-before) / (to - from).Seconds() / float64(len(c.replicas))
}
