package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// pooled are jobs of one pool of two runs that are due at the same time.
func pooled(n int, every, takes time.Duration) (all []jobs.Job) {
	for i := range n {
		all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(every), Pool: jobs.Pool{Name: "two", Limit: 2}, Recover: jobs.RecoverRerun, Do: sleep(takes)})
	}
	return all
}

// wantTogether checks how many runs of a pool went on at a time.
func (c *cluster) wantTogether(most int) {
	c.Helper()
	all := slices.DeleteFunc(c.allRuns(), func(r ran) bool { return r.Job == "other" })
	for i, r := range all {
		n := 1
		for j, o := range all {
			if j != i && o.began <= r.began && (o.ended == 0 || o.ended > r.began) {
				n++
			}
		}
		if n > most {
			c.Errorf("%d runs at a time: %+v", n, r)
		}
	}
}

// Of all jobs of a pool, no more runs go on at a time than it has room for, and all come to run.
func TestPool(t *testing.T) {
	for name, options := range map[string][]scheduler.Option{"leader": nil, "spread": {scheduler.WithSpread()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				all := append(pooled(6, time.Minute, 5*time.Second), jobs.Job{Name: "other", Schedule: jobs.Every(time.Minute), Do: sleep(time.Second)})
				for range 3 {
					c.start(all, options...)
				}
				c.until(2*time.Minute + 30*time.Second)
				c.wantBegan("other", time.Minute, 2*time.Minute)
				for i := range 6 {
					if n := len(c.runs(fmt.Sprint("job-", i))); n != 2 {
						t.Errorf("job-%d began %d times", i, n)
					}
				}
				c.wantTogether(2)
			})
		})
	}
}

// A change of leader lets no more runs go on: the next one counts those that replicas have, and those that may go on in the process of the
// leader that died.
func TestPoolOverTakeovers(t *testing.T) {
	t.Run("spread", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			all := pooled(6, time.Minute, 5*time.Second)
			leader, _ := c.spreadOver(3, all)
			for i := range 4 {
				c.until(time.Duration(i+1)*time.Minute + 7*time.Second)
				if i%2 == 0 {
					leader.stop()
				} else {
					leader.kill()
				}
				time.Sleep(20 * time.Second)
				c.start(all, scheduler.WithSpread())
				leader = c.leader()
			}
			c.until(6 * time.Minute)
			c.wantTogether(2)
			if n := len(c.allRuns()); n < 30 {
				t.Errorf("%d runs", n)
			}
		})
	})
	t.Run("leader", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			all := append(pooled(2, time.Hour, 10*time.Minute), jobs.Job{Name: "late", Schedule: jobs.Cron("30 1 1 * * *"), Pool: jobs.Pool{Name: "two", Limit: 2}, Do: sleep(time.Second)})
			c.start(all)
			c.start(all)
			killed := time.Hour + 90*time.Second - 100*time.Millisecond
			c.until(killed)
			c.leader().kill()
			c.until(2 * time.Hour)
			if runs := c.runs("late"); len(runs) != 1 || runs[0].began < killed+lease15/2 {
				t.Errorf("%+v", runs)
			}
		})
	})
}

// Of all jobs of a pool, no more attempts begin in a time than it lets, also over takeovers, and none is lost.
func TestPoolOfStarts(t *testing.T) {
	for name, options := range map[string][]scheduler.Option{"leader": nil, "spread": {scheduler.WithSpread()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				pool := jobs.Pool{Name: "api", Starts: 3, Per: time.Minute}
				var all []jobs.Job
				for i := range 5 {
					all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(5 * time.Minute), Pool: pool, Recover: jobs.RecoverRerun, Do: sleep(time.Second)})
				}
				for range 3 {
					c.start(all, options...)
				}
				for i := range 3 {
					c.until(time.Duration(5*(i+1))*time.Minute + 20*time.Second)
					c.leader().kill()
					c.start(all, options...)
				}
				c.until(24 * time.Minute)
				runs := c.allRuns()
				slices.SortFunc(runs, func(a, b ran) int { return int(a.began - b.began) })
				for i := range runs[3:] {
					if within := runs[i+3].began - runs[i].began; within < time.Minute {
						t.Errorf("four runs began within %v: %+v", within, runs[i:i+4])
					}
				}
				for i := range 5 {
					if rows := c.lines(fmt.Sprint("job-", i)); len(rows) != 4 || rows[3] != "20m succeeded" {
						t.Errorf("job-%d: %q", i, rows)
					}
				}
			})
		})
	}
}

// Of the runs whose arguments have the same key, one goes on at a time, also over takeovers; the others overlap.
func TestConcurrencyKey(t *testing.T) {
	for name, options := range map[string][]scheduler.Option{"leader": nil, "spread": {scheduler.WithSpread()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := jobs.Job{Name: "sync", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, ConcurrencyKey: "customer", Recover: jobs.RecoverRerun, Do: sleep(10 * time.Second)}
				for range 3 {
					c.start([]jobs.Job{job}, options...)
				}
				c.until(time.Second)
				keyOf := map[jobs.Key]int{}
				for i := range 12 {
					key, err := c.TriggerWith(c.Context(), "sync", map[string]int{"customer": i % 3, "n": i})
					check(t, err)
					keyOf[key] = i % 3
				}
				for range 2 {
					_, err := c.TriggerWith(c.Context(), "sync", map[string]int{"n": 1})
					check(t, err)
				}
				c.until(5 * time.Second)
				if n := len(c.runs("sync")); n != 5 {
					t.Errorf("%d runs began at once, want one for each of three keys, and two without", n)
				}
				c.until(15 * time.Second)
				c.leader().kill()
				c.until(3 * time.Minute)
				runs := c.runs("sync")
				for i, r := range runs {
					for _, o := range runs[i+1:] {
						a, is := keyOf[r.Key()]
						b, also := keyOf[o.Key()]
						if is && also && a == b && r.began < o.ended && o.began < r.ended && r.Key() != o.Key() {
							t.Errorf("two runs of customer %d at a time: %+v, %+v", a, r, o)
						}
					}
				}
				for _, r := range c.records("sync") {
					if r.State != jobs.Succeeded {
						t.Errorf("%+v", r)
					}
				}
			})
		})
	}
}

// A replica that leaves starts nothing any more that waited for its pool.
func TestPoolOfStartsWhileItLeaves(t *testing.T) {
	inBubble(t, func(c *cluster) {
		pool := jobs.Pool{Name: "api", Starts: 1, Per: 10 * time.Second}
		all := []jobs.Job{
			{Name: "a", Schedule: jobs.Every(time.Hour), Pool: pool, Do: sleep(time.Minute)},
			{Name: "b", Schedule: jobs.Every(time.Hour), Pool: pool, Do: sleep(time.Second)},
		}
		r := c.start(all, scheduler.WithDrain(2*time.Minute))
		c.until(time.Hour + 5*time.Second)
		go r.stop()
		c.until(time.Hour + 50*time.Second)
		if n := len(c.allRuns()); n != 1 {
			t.Errorf("%d runs began", n)
		}
		for _, name := range []string{"a", "b"} {
			for _, row := range c.records(name) {
				if row.State == jobs.Waiting && row.Attempt > 0 {
					t.Errorf("it was started in the ledger: %+v", row)
				}
			}
		}
	})
}
