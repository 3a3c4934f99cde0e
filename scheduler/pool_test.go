package scheduler_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
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

// wantTogether checks how many runs of a pool went on at a time; killed says when replicas were.
func (c *cluster) wantTogether(most int, killed map[string]time.Duration) {
	c.Helper()
	all := slices.DeleteFunc(c.allRuns(), func(r ran) bool { return r.Job == "other" || r.Job == "key" })
	for i, r := range all {
		n := 1
		for j, o := range all {
			if j != i && o.began <= r.began && endOf(o, killed) > r.began {
				n++
			}
		}
		if n > most {
			c.Errorf("%d runs at a time: %+v", n, r)
		}
	}
}

// endOf is when a run ended, or its process was killed.
func endOf(r ran, killed map[string]time.Duration) time.Duration {
	end := cmp.Or(r.ended, math.MaxInt64)
	if at, is := killed[r.Owner]; is {
		end = min(end, at)
	}
	return end
}

// wantKeys checks that of the runs of a job that have the same key, one went on at a time.
func (c *cluster) wantKeys(job string, keys map[jobs.Key]int, killed map[string]time.Duration) {
	c.Helper()
	runs := c.runs(job)
	for i, r := range runs {
		for _, o := range runs[i+1:] {
			a, is := keys[r.Key()]
			b, also := keys[o.Key()]
			if is && also && a == b && r.began < endOf(o, killed) && o.began < endOf(r, killed) {
				c.Errorf("two runs of key %d at a time: %+v, %+v", a, r, o)
			}
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
				c.wantTogether(2, nil)
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
			c.wantTogether(2, nil)
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
				c.wantStarts(3, time.Minute)
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
				leader := c.leader()
				leader.kill()
				c.until(3 * time.Minute)
				c.wantKeys("sync", keyOf, map[string]time.Duration{leader.Owner(): 15 * time.Second})
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

// wantStarts checks how many attempts of all jobs began in a time, as the ledger has it.
func (c *cluster) wantStarts(most int, per time.Duration) {
	c.Helper()
	var starts []time.Time
	for i := range 5 {
		for _, r := range c.records(fmt.Sprint("job-", i)) {
			if r.Unbegun > 0 { // which of its attempts these are is not known
				continue
			}
			attempts, err := c.Attempts(c.Context(), r.Key)
			check(c.T, err)
			for _, a := range attempts {
				starts = append(starts, a.Started)
			}
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	for i := range max(0, len(starts)-most) {
		if within := starts[i+most].Sub(starts[i]); within < per-time.Millisecond {
			c.Errorf("%d attempts began within %v, from %v on", most+1, within, starts[i].Sub(c.begin))
			return
		}
	}
}

// Each attempt at a run counts, also those under the leader before.
func TestPoolOfStartsCountsAttempts(t *testing.T) {
	for name, leave := range map[string]func(*replica){"killed": (*replica).kill, "stopped": (*replica).stop} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				all := []jobs.Job{{Name: "job-0", Schedule: jobs.Every(10 * time.Minute), Pool: jobs.Pool{Name: "api", Starts: 3, Per: time.Minute}, Recover: jobs.RecoverRerun,
					Retry: jobs.Retry{Attempts: 10, Initial: time.Second, Max: time.Second}, Do: failing(100)}}
				c.start(all)
				c.start(all)
				c.until(10*time.Minute + 10*time.Second)
				leave(c.leader())
				c.until(19 * time.Minute)
				c.wantStarts(3, time.Minute)
			})
		})
	}
}

// A leader that takes over counts the starts of thousands of jobs in a few statements, and of those that have not run lately in none.
func TestPoolOfStartsOfManyJobs(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var all []jobs.Job
		for i := range 2000 {
			every := time.Hour
			if i%2 == 0 {
				every = 24 * time.Hour
			}
			all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(every), Pool: jobs.Pool{Name: "api", Starts: 5000, Per: 10 * time.Minute}, Do: sleep(0)})
		}
		first, second := c.start(all), c.start(all)
		c.until(time.Hour + time.Minute)
		first.stop()
		c.until(time.Hour + 2*time.Minute)
		if n := second.link.count("Newest"); n != 2 {
			t.Errorf("%d statements count the starts of 1000 jobs", n)
		}
	})
}

// A run whose start was set aside gives its place in the pool back, and starts when there is one again.
func TestPoolOfARowSetAside(t *testing.T) {
	inBubble(t, func(c *cluster) {
		pool := jobs.Pool{Name: "one", Limit: 1}
		r := c.start([]jobs.Job{
			{Name: "refused-a", Schedule: jobs.Manual(), Pool: pool, Do: sleep(time.Minute)},
			{Name: "b", Schedule: jobs.Manual(), Pool: pool, Do: sleep(time.Minute)},
			{Name: "other", Schedule: jobs.Every(time.Second), Do: sleep(0)},
		})
		trigger := func(job string) {
			_, err := c.Trigger(c.Context(), job)
			check(t, err)
		}
		c.until(10 * time.Second)
		r.link.set(func(l *link) { l.refused, l.refusedOps = "refused-", "Move" })
		trigger("refused-a")
		c.until(20 * time.Second)
		trigger("b")
		c.until(30 * time.Second)
		r.link.set(func(l *link) { l.refused = "" })
		c.until(5 * time.Minute)
		c.wantTogether(1, nil)
		if len(c.runs("b")) != 1 || len(c.runs("refused-a")) != 1 {
			t.Errorf("runs: %+v", c.allRuns())
		}
	})
}

// A pool that is made shorter lets start what waits for it then.
func TestPoolIsMadeShorter(t *testing.T) {
	inBubble(t, func(c *cluster) {
		of := func(per time.Duration) (all []jobs.Job) {
			for _, name := range []string{"a", "b"} {
				all = append(all, jobs.Job{Name: name, Schedule: jobs.Manual(), Pool: jobs.Pool{Name: "api", Starts: 1, Per: per}, Do: sleep(time.Second)})
			}
			return all
		}
		r := c.start(of(24 * time.Hour))
		for i, name := range []string{"a", "b"} {
			c.until(time.Duration(i+1) * time.Minute)
			_, err := c.Trigger(c.Context(), name)
			check(t, err)
		}
		c.until(3 * time.Minute)
		check(t, r.Set(r.doing(of(10*time.Minute)...)...))
		c.until(30 * time.Hour)
		c.wantBegan("b", 11*time.Minute)
	})
}

// A run of a backfill waits for another one with its key, too.
func TestConcurrencyKeyOfABackfill(t *testing.T) {
	inBubble(t, func(c *cluster) {
		args := map[string]int{"customer": 1}
		c.start([]jobs.Job{{Name: "a", Schedule: jobs.Every(time.Hour), Overlap: jobs.OverlapAllow, ConcurrencyKey: "customer", Do: sleep(10 * time.Minute)}})
		c.until(2*time.Hour + 20*time.Minute)
		_, err := c.TriggerWith(c.Context(), "a", args)
		check(t, err)
		c.until(2*time.Hour + 21*time.Minute)
		_, err = c.Backfill(c.Context(), "a", jobs.Backfill{From: c.begin.Add(time.Minute), Args: args})
		check(t, err)
		c.until(3*time.Hour - time.Minute)
		c.wantBegan("a", time.Hour, 2*time.Hour, 140*time.Minute, 150*time.Minute, 160*time.Minute)
	})
}

// Whatever happens to replicas and statements, pools let no more go on and begin than they say, one run of a key goes on at a time, and
// no run is left over.
func TestPoolsAtRandom(t *testing.T) {
	for _, seed := range rounds.Seeds(t, 3) {
		for _, spread := range []bool{false, true} {
			t.Run(fmt.Sprint(seed, spread), func(t *testing.T) {
				inBubble(t, func(c *cluster) { poolsAtRandom(c, rand.New(rand.NewPCG(seed, 1)), spread) })
			})
		}
	}
}

func poolsAtRandom(c *cluster, random *rand.Rand, spread bool) {
	pool := jobs.Pool{Name: "two", Limit: 2}
	if random.IntN(3) == 0 {
		pool.Starts, pool.Per = 6, 10*time.Second
	}
	var all []jobs.Job
	for i := range 5 {
		all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Duration(3+i) * time.Second), Pool: pool, Misfire: jobs.MisfireAll,
			Recover: jobs.RecoverRerun, Priority: []jobs.Priority{jobs.PriorityNormal, jobs.PriorityHigh, jobs.PriorityLow}[i%3], Do: sleep(time.Duration(300+400*i) * time.Millisecond)})
	}
	all = append(all, jobs.Job{Name: "key", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, ConcurrencyKey: "c", Recover: jobs.RecoverRerun, Do: sleep(3 * time.Second)},
		jobs.Job{Name: "other", Schedule: jobs.Every(time.Second), Do: sleep(0)})
	var options []scheduler.Option
	if spread {
		options = append(options, scheduler.WithSpread())
	}
	alive := []*replica{c.start(all, options...), c.start(all, options...), c.start(all, options...)}
	killed, keys := map[string]time.Duration{}, map[jobs.Key]int{}
	for range 60 {
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		at := random.IntN(len(alive))
		r := alive[at]
		switch random.IntN(12) {
		case 0:
			r.kill()
			killed[r.Owner()] = time.Since(c.begin)
			alive[at] = c.start(all, options...)
		case 1:
			r.stop()
			alive[at] = c.start(all, options...)
		case 2:
			op, n := []string{"Claim", "Move", "Changes", "Load", "Args"}[random.IntN(5)], random.IntN(4)
			r.link.set(func(l *link) { l.lose[op] = n })
		case 3:
			d := time.Duration(random.IntN(4000)) * time.Millisecond
			r.link.set(func(l *link) { l.away = time.Now().Add(d) })
		case 4:
			d := time.Duration(random.IntN(1500)) * time.Millisecond
			r.link.set(func(l *link) { l.delay["Move"], l.delay["Claim"] = d, d/2 })
		case 5:
			name := fmt.Sprint("job-", random.IntN(5))
			_ = c.Pause(c.Context(), name)
			time.Sleep(time.Second)
			_ = c.Resume(c.Context(), name)
		default:
			k := random.IntN(2)
			if key, err := c.TriggerWith(c.Context(), "key", map[string]int{"c": k}); err == nil {
				keys[key] = k
			}
		}
	}
	for _, r := range alive {
		r.link.set(func(l *link) { l.delay, l.lose = map[string]time.Duration{}, map[string]int{} })
	}
	time.Sleep(5 * time.Minute)
	c.wantTogether(pool.Limit, killed)
	if pool.Starts > 0 {
		c.wantStarts(pool.Starts, pool.Per)
	}
	c.wantKeys("key", keys, killed)
	for _, r := range c.records("key") {
		if !r.State.Over() {
			c.Errorf("left: %+v", r)
		}
	}
}

// A job that a reload moves to another pool, or to another priority, waits there from then on, and no other waits for that pool.
func TestPoolMoves(t *testing.T) {
	inBubble(t, func(c *cluster) {
		a, b := jobs.Pool{Name: "a", Limit: 1}, jobs.Pool{Name: "b", Limit: 1}
		names := []string{"busy-a", "busy-b", "moved", "stays", "raised"}
		of := func(p jobs.Pool, priority jobs.Priority) []jobs.Job {
			return []jobs.Job{
				{Name: "busy-a", Schedule: jobs.Manual(), Pool: a, Do: sleep(10 * time.Minute)}, {Name: "busy-b", Schedule: jobs.Manual(), Pool: b, Do: sleep(5 * time.Hour)},
				{Name: "moved", Schedule: jobs.Manual(), Pool: p, Do: sleep(time.Minute)}, {Name: "stays", Schedule: jobs.Manual(), Pool: a, Do: sleep(time.Minute)},
				{Name: "raised", Schedule: jobs.Manual(), Pool: a, Priority: priority, Do: sleep(time.Minute)},
			}
		}
		r := c.start(of(a, jobs.PriorityNormal))
		for i, name := range names {
			c.until(time.Duration(i+1) * time.Second)
			_, err := c.Trigger(c.Context(), name)
			check(t, err)
		}
		check(t, r.Set(r.doing(of(b, jobs.PriorityHigh)...)...))
		c.until(6 * time.Hour)
		c.wantBegan("raised", 10*time.Minute+time.Second)
		c.wantBegan("stays", 11*time.Minute+time.Second)
		c.wantBegan("moved", 5*time.Hour+2*time.Second)
	})
}
