package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

func cronJob(name, expression string) jobs.Job {
	return jobs.Job{Name: name, Schedule: jobs.Cron(expression), Misfire: jobs.MisfireAll}
}

// lasting is a job's function that takes so long.
func lasting(d time.Duration) func(context.Context, jobs.Run) error {
	return func(ctx context.Context, _ jobs.Run) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Jobs that are added, replaced and removed while the scheduler runs, on the leader
// and on a follower.
func TestJobsChangeWhileItRuns(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("gone", "0 * * * * *"), cronJob("stays", "0 * * * * *")})
		follower := c.start([]jobs.Job{cronJob("gone", "0 * * * * *"), cronJob("stays", "0 * * * * *")})
		c.until(90 * time.Second)
		for _, r := range []*replica{leader, follower} {
			check(t, r.Add(r.doing(cronJob("new", "30 * * * * *"))...))
			check(t, r.Replace(r.doing(cronJob("stays", "15 * * * * *"))...))
			check(t, r.Remove("gone"))
		}
		c.until(200 * time.Second)
		leader.kill()
		c.until(260 * time.Second)
		c.wantRows("gone", "1m succeeded")
		c.wantRows("new", "2m30s succeeded", "3m30s succeeded")
		c.wantRows("stays", "1m succeeded", "2m15s succeeded", "3m15s succeeded", "4m15s succeeded")
		c.wantBegan("new", 150*time.Second, 210*time.Second)
	})
}

// Set adds, replaces and removes at once.
func TestSet(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("gone", "0 * * * * *"), cronJob("stays", "0 * * * * *")})
		c.until(90 * time.Second)
		err := leader.Set(leader.doing(cronJob("new", "0 * * * * *"), cronJob("new", "0 0 25 * * *"))...)
		if err == nil || !strings.Contains(err.Error(), "declared twice") || !strings.Contains(err.Error(), `hours "25"`) {
			t.Error(err)
		}
		c.until(130 * time.Second)
		check(t, leader.Set(leader.doing(cronJob("new", "0 * * * * *"), cronJob("stays", "30 * * * * *"))...))
		c.until(190 * time.Second)
		c.wantRows("gone", "1m succeeded", "2m succeeded")
		c.wantRows("stays", "1m succeeded", "2m succeeded", "2m30s succeeded")
		c.wantRows("new", "3m succeeded")
	})
}

// The first tick of a job that is added, or whose schedule is changed, may be at once.
func TestAddedJobHasAnAlarm(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("other", "0 * * * * *")})
		c.until(10*time.Second + 900*time.Millisecond)
		check(t, leader.Add(leader.doing(jobs.Job{Name: "at", Schedule: jobs.At(c.begin.Add(11*time.Second + 50*time.Millisecond))})...))
		check(t, leader.Replace(leader.doing(jobs.Job{Name: "other", Schedule: jobs.At(c.begin.Add(11*time.Second + 70*time.Millisecond))})...))
		c.until(time.Minute)
		c.wantBegan("at", 11*time.Second+50*time.Millisecond)
		c.wantBegan("other", 11*time.Second+70*time.Millisecond)
	})
}

// A run goes on as it began, whatever becomes of its job. The next start is by the new
// declaration.
func TestRunsOfChangedJobsGoOn(t *testing.T) {
	inBubble(t, func(c *cluster) {
		began := map[string]int{}
		slow := func(name, version string) jobs.Job {
			job := cronJob(name, "0 * * * * *")
			job.Do = func(ctx context.Context, run jobs.Run) error {
				c.mu.Lock()
				began[fmt.Sprint(name, " ", version, " ", short(run.Tick.Sub(c.begin)))]++
				c.mu.Unlock()
				return lasting(20*time.Second)(ctx, run)
			}
			return job
		}
		leader := c.start([]jobs.Job{slow("replaced", "old"), slow("removed", "old"), slow("cancelled", "old")})
		c.until(70 * time.Second)
		check(t, leader.Replace(leader.doing(slow("replaced", "new"))...))
		check(t, leader.Remove("removed", "cancelled"))
		c.until(75 * time.Second)
		check(t, c.Cancel(t.Context(), c.records("cancelled")[0].Key))
		c.until(130 * time.Second)
		c.wantRows("replaced", "1m succeeded", "2m running")
		c.wantRows("removed", "1m succeeded")
		c.wantRows("cancelled", "1m cancelled: jobs: cancelled on request*")
		if len(began) != 4 || began["replaced new 2m"] != 1 {
			t.Error(began)
		}
	})
}

// What waits of a removed job stays in the ledger, until a replica has the job again:
// this one, or the next leader.
func TestRemovedJobComesBack(t *testing.T) {
	for _, back := range []string{"at once", "later", "on the next leader"} {
		t.Run(back, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				broken := true
				job := cronJob("job", "0 0 * * * *")
				job.Retry = jobs.Retry{Attempts: 2, Initial: 10 * time.Minute, Jitter: 0.001}
				job.Do = func(context.Context, jobs.Run) error {
					if broken {
						return errors.New("broken")
					}
					return nil
				}
				line := cronJob("line", "*/5 * * * * *")
				line.Do = lasting(12 * time.Second)
				leader := c.start([]jobs.Job{job, line})
				next := c.start([]jobs.Job{job, line})
				c.until(time.Hour + 31*time.Second)
				broken = false
				check(t, leader.Remove("job", "line"))
				if back == "at once" {
					check(t, leader.Add(leader.doing(job, line)...))
				}
				c.until(time.Hour + 30*time.Minute)
				if back != "at once" {
					c.wantRows("job", "1h waiting: failed: broken")
					if n := strings.Count(c.rows("line"), "waiting"); n == 0 || strings.Contains(c.rows("line"), "running") {
						t.Errorf("%d wait:\n%s", n, c.rows("line"))
					}
				}
				switch back {
				case "later":
					check(t, leader.Add(leader.doing(job, line)...))
				case "on the next leader":
					leader.stop()
					_ = next
				}
				c.until(2*time.Hour + 10*time.Minute)
				c.wantRows("job", "1h succeeded, attempt 2", "2h succeeded")
				ticks := map[time.Time]bool{}
				for _, r := range c.runs("line") {
					if ticks[r.Tick] {
						t.Errorf("tick %v ran twice", r.Tick)
					}
					ticks[r.Tick] = true
				}
			})
		})
	}
}

// The schedule before rules until the change, and the changed one from then on.
func TestChangedScheduleRulesFromNowOn(t *testing.T) {
	tests := []struct {
		name     string
		old, new jobs.Schedule
		at       time.Duration
		want     []string
	}{
		{
			"to more", jobs.Cron("0 0 * * * *"), jobs.Every(10 * time.Minute), 95 * time.Minute,
			[]string{"1h succeeded", "1h40m succeeded", "1h50m succeeded", "2h succeeded"},
		},
		{
			"to less", jobs.Every(10 * time.Minute), jobs.Cron("0 0 * * * *"), 95 * time.Minute,
			[]string{"10m succeeded", "20m succeeded", "30m succeeded", "40m succeeded", "50m succeeded", "1h succeeded", "1h10m succeeded", "1h20m succeeded", "1h30m succeeded", "2h succeeded"},
		},
		{
			"fixed rate", jobs.Cron("0 0 * * * *"), jobs.FixedRate(20 * time.Minute), 65 * time.Minute,
			[]string{"1h succeeded", "1h5m succeeded", "1h25m succeeded", "1h45m succeeded", "2h5m succeeded"},
		},
		{
			"another fixed rate", jobs.FixedRate(time.Hour), jobs.FixedRate(20 * time.Minute), 65 * time.Minute,
			[]string{"0s succeeded", "1h succeeded", "1h5m succeeded", "1h25m succeeded", "1h45m succeeded", "2h5m succeeded"},
		},
		{
			"fixed delay", jobs.Cron("0 0 * * * *"), jobs.FixedDelay(30 * time.Minute), 65 * time.Minute,
			[]string{"1h succeeded", "1h30m succeeded", "2h succeeded"},
		},
		{
			"from a fixed delay", jobs.FixedDelay(50 * time.Minute), jobs.Cron("0 0 * * * *"), 65 * time.Minute,
			[]string{"0s succeeded", "50m succeeded", "2h succeeded"},
		},
		{"to none", jobs.Cron("0 0 * * * *"), jobs.Manual(), 65 * time.Minute, []string{"1h succeeded"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := func(s jobs.Schedule) jobs.Job { return jobs.Job{Name: "job", Schedule: s, Misfire: jobs.MisfireAll} }
				leader := c.start([]jobs.Job{job(test.old)})
				c.until(test.at)
				check(t, leader.Replace(leader.doing(job(test.new))...))
				c.until(2*time.Hour + 9*time.Minute)
				c.wantRows("job", test.want...)
			})
		})
	}
}

// A job that is removed while a claim is under way claims nothing after it, and does not start what it has claimed.
func TestRemovedInAClaim(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("job", "* * * * * *")})
		leader.link.set(func(l *link) { l.hold["Claim"] = 1500 * time.Millisecond })
		c.until(1200 * time.Millisecond)
		check(t, leader.Remove("job"))
		c.until(time.Minute)
		c.wantRows("job", "1s waiting")
		c.wantBegan("job")
	})
}

// Nor does it start a run whose start is under way. The run waits for a term that has the job, and has not begun.
func TestRemovedInAStart(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Jitter: 20 * time.Second, Recover: jobs.RecoverSkip}
		leader := c.start([]jobs.Job{job})
		c.until(time.Hour - time.Second)
		leader.link.set(func(l *link) { l.delay["Move"] = 2500 * time.Millisecond })
		for records := c.records("job"); len(records) == 0 || records[0].State != jobs.Running; records = c.records("job") {
			time.Sleep(10 * time.Millisecond)
		}
		check(t, leader.Remove("job"))
		c.until(time.Hour + time.Minute)
		c.wantRows("job", "1h waiting")
		c.wantBegan("job")
		check(t, leader.Add(leader.doing(job)...))
		c.until(time.Hour + 2*time.Minute)
		c.wantRows("job", "1h succeeded, attempt 2")
		if runs := c.runs("job"); len(runs) != 1 || !runs[0].LastAttempt {
			t.Errorf("ran %+v", runs)
		}
	})
}

// A reading of the ledger from before a change does not count for it.
func TestStaleReadingOfAChange(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("job", "0 0 * * * *")})
		c.until(time.Minute)
		before, err := c.Load(t.Context())
		check(t, err)
		leader.link.set(func(l *link) { l.stale = []jobs.Snapshot{before, before} })
		check(t, leader.Replace(leader.doing(jobs.Job{Name: "job", Schedule: jobs.FixedRate(10 * time.Minute)})...))
		c.until(12 * time.Minute)
		c.wantRows("job", "1m succeeded", "11m succeeded")
	})
}

// Changes at every step of a term, and terms that end at every step of a change: the
// ticks of both texts are the same, and each is run once.
func TestChangesAndTakeovers(t *testing.T) {
	slow := jobs.Job{Name: "slow", Schedule: jobs.Cron("50 1 * * * *"), Do: func(ctx context.Context, _ jobs.Run) error {
		<-ctx.Done()
		time.Sleep(10 * time.Second)
		return ctx.Err()
	}}
	change := func(r *replica) { check(r.cluster.T, r.Replace(r.doing(minutely(changed)...)...)) }
	tests := map[string]func(c *cluster) *replica{
		"while the term opens": func(c *cluster) *replica {
			r := c.startOn(func(l *link) { l.hold["Declare"] = 2 * time.Second }, minutely(same, slow))
			c.until(time.Second)
			change(r)
			return r
		},
		"while it drains": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			c.until(118 * time.Second)
			go r.stop()
			synctest.Wait()
			change(r)
			return c.start(minutely(changed, slow))
		},
		"the leader dies before the ledger is told": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			c.until(119 * time.Second)
			r.link.set(func(l *link) { l.fail["Declare"] = 1e9 })
			change(r)
			c.until(121 * time.Second)
			r.kill()
			return c.start(minutely(changed, slow))
		},
		"the leader dies once the ledger is told": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			c.until(119 * time.Second)
			r.link.set(func(l *link) { l.lose["Declare"] = 1e9 })
			change(r)
			c.until(121 * time.Second)
			r.kill()
			return c.start(minutely(changed, slow))
		},
		"the next leader does not have the change": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			c.until(119 * time.Second)
			change(r)
			c.until(119*time.Second + 500*time.Millisecond)
			r.kill()
			return c.start(minutely(same, slow))
		},
		"the leader could not claim": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			c.until(119 * time.Second)
			r.link.set(func(l *link) { l.fail["Claim"] = 1e9 })
			c.until(122 * time.Second)
			change(r)
			c.until(125 * time.Second)
			r.kill()
			return c.start(minutely(changed, slow))
		},
		"the job is paused": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			r.link.set(func(l *link) { l.fail["Claim"] = 1e9 })
			c.until(125 * time.Second)
			check(c.T, c.Pause(c.Context(), "job"))
			c.until(130 * time.Second)
			change(r)
			r.link.set(func(l *link) { l.fail["Claim"] = 0 })
			c.until(135 * time.Second)
			check(c.T, c.Resume(c.Context(), "job"))
			return r
		},
		"back before it was made": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			c.until(115 * time.Second)
			r.link.set(func(l *link) { l.lose["Declare"] = 1 })
			change(r)
			check(c.T, r.Replace(r.doing(minutely(same)...)...))
			return r
		},
		"removed and added in a claim": func(c *cluster) *replica {
			r := c.start(minutely(same, slow))
			c.until(119 * time.Second)
			r.link.set(func(l *link) { l.hold["Claim"] = 500 * time.Millisecond })
			c.until(120*time.Second + 100*time.Millisecond)
			check(c.T, r.Remove("job"))
			synctest.Wait()
			check(c.T, r.Add(r.doing(minutely(changed)...)...))
			return r
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				last := test(c)
				c.until(250 * time.Second)
				if last.State().Role != election.Leading {
					t.Errorf("%v", last.State())
				}
				c.wantRows("job", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded")
				if runs := c.runs("job"); len(runs) != 4 {
					t.Errorf("%d runs: %+v", len(runs), runs)
				}
			})
		})
	}
}

// Lists that change at random instants, on replicas that die, stop and lose their
// database at random instants: each tick is run once.
func TestRandomChanges(t *testing.T) {
	for _, seed := range rounds.Seeds(t, 20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			inBubble(t, func(c *cluster) {
				texts := []string{"0 * * * * *", "0 * * * * ?", "0 * * ? * *", "0 0-59 * * * *"}
				job := func() jobs.Job { return cronJob("job", texts[random.IntN(len(texts))]) }
				other := func() jobs.Job {
					return jobs.Job{Name: "other", Schedule: jobs.Every(time.Duration(1+random.IntN(9)) * time.Second), Misfire: jobs.MisfireAll, Do: lasting(4 * time.Second)}
				}
				alive := []*replica{c.start([]jobs.Job{job(), other()}), c.start([]jobs.Job{job(), other()})}
				const end = 30 * time.Minute
				for time.Since(c.begin) < end {
					time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
					at := random.IntN(len(alive))
					r := alive[at]
					switch random.IntN(10) {
					case 0:
						r.kill()
						alive[at] = c.start([]jobs.Job{job(), other()})
					case 1:
						go r.stop()
						alive[at] = c.start([]jobs.Job{job(), other()})
					case 2:
						op := []string{"Declare", "Claim", "Load", "Move"}[random.IntN(4)]
						r.link.set(func(l *link) { l.fail[op] = random.IntN(5) })
					case 3:
						op := []string{"Declare", "Claim", "Move"}[random.IntN(3)]
						r.link.set(func(l *link) { l.lose[op] = random.IntN(3) })
					case 4:
						op := []string{"Declare", "Claim", "Load", "Move"}[random.IntN(4)]
						r.link.set(func(l *link) { l.hold[op] = time.Duration(random.IntN(2000)) * time.Millisecond })
					case 5: // a job that comes and goes
						if err := r.Remove("other"); err != nil {
							check(t, r.Add(r.doing(other())...))
						}
					case 6:
						check(t, r.Remove("job"))
						if random.IntN(2) == 0 {
							synctest.Wait()
						}
						check(t, r.Add(r.doing(job())...))
					default:
						check(t, r.Replace(r.doing(job())...))
					}
				}
				for _, r := range alive {
					r.link.set(func(l *link) { clear(l.hold); clear(l.fail); clear(l.lose) })
				}
				c.until(end + 5*time.Minute)
				rows := map[string]string{}
				for _, line := range c.lines("job") {
					tick, state, _ := strings.Cut(line, " ")
					rows[tick] += state
				}
				for tick := time.Minute; tick <= end; tick += time.Minute {
					// A run is cancelled when its replica is stopped in the moment of its start, or
					// left to the next leader.
					if state := rows[short(tick)]; !strings.HasPrefix(state, "succeeded") && !strings.HasPrefix(state, "interrupted") && !strings.HasPrefix(state, "cancelled") {
						t.Errorf("tick %v: %q", short(tick), state)
					}
				}
				began := map[time.Time]int{}
				for _, r := range c.runs("job") {
					if began[r.Tick]++; began[r.Tick] > 1 {
						t.Errorf("tick %v ran %d times", short(r.Tick.Sub(c.begin)), began[r.Tick])
					}
				}
				if open := strings.Count(c.rows("other"), "running"); open > 1 {
					t.Errorf("%d runs of the other job are open:\n%s", open, c.rows("other"))
				}
			})
		})
	}
}

// Thousands of jobs at once: a few statements, and no term that stands still.
func TestThousandsOfJobsChange(t *testing.T) {
	n := min(rounds.Of(t, 2_500), 10_000) // each removal looks at all of them
	inBubble(t, func(c *cluster) {
		many := func(minute int) (list []jobs.Job) {
			for i := range n {
				list = append(list, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Cron(fmt.Sprintf("%d %d 0 * * *", i%60, minute+i/60%4))})
			}
			return list
		}
		leader := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}})
		c.until(90 * time.Second)
		token := c.leader().State().Token
		check(t, leader.Add(leader.doing(many(10)...)...))
		c.until(100 * time.Second)
		check(t, leader.Replace(leader.doing(many(3)...)...))
		c.until(110 * time.Second)
		for i := range n / 2 {
			check(t, leader.Remove(fmt.Sprint("job-", i)))
		}
		c.until(150 * time.Second)
		if sent := leader.link.sent; sent["Declare"] > 3 || sent["Load"] > 10 {
			t.Errorf("%v", sent)
		}
		if s := leader.State(); s.Token != token || leader.Check() != nil {
			t.Errorf("%v, %v", s, leader.Check())
		}
		if known, err := c.Load(t.Context()); err != nil || len(known.Jobs) != n+1 {
			t.Errorf("%d jobs, %v", len(known.Jobs), err)
		}
		c.until(8 * time.Minute)
		c.wantRows("job", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded", "6m succeeded", "7m succeeded", "8m succeeded")
		for i := range n {
			if rows := c.rows(fmt.Sprint("job-", i)); (rows != "") != (i >= n/2) {
				t.Errorf("job-%d: %q", i, rows)
			}
		}
		for _, r := range c.runs(fmt.Sprint("job-", n-1)) {
			want := time.Duration(3+(n-1)/60%4)*time.Minute + time.Duration((n-1)%60)*time.Second
			if got := r.Tick.Sub(c.begin); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		}
	})
}

// A change is made as a whole or not at all, and everything that is wrong is said.
func TestChangesThatDoNotFit(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("a", "0 * * * * *"), cronJob("b", "0 * * * * *")})
		bad := cronJob("bad", "0 0 25 * * *")
		bad.Timeout = -1
		err := leader.Add(leader.doing(cronJob("a", "0 * * * * *"), cronJob("new", "0 * * * * *"), bad, cronJob("new", "0 * * * * *"))...)
		for _, want := range []string{`"a" is declared twice`, `"bad": Timeout`, `"bad": cron: hours "25"`, `"new" is declared twice`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %s", err, want)
			}
		}
		err = leader.Replace(leader.doing(cronJob("a", "30 * * * * *"), cronJob("x", "0 * * * * *"), cronJob("y", "0 * * * * *"))...)
		for _, want := range []string{`"x" is not declared`, `"y" is not declared`} {
			if !errors.Is(err, jobs.ErrNoJob) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %s", err, want)
			}
		}
		err = leader.Remove("x", "a", "y")
		if !errors.Is(err, jobs.ErrNoJob) || strings.Count(err.Error(), "not declared") != 2 {
			t.Error(err)
		}
		c.until(90 * time.Second)
		c.wantRows("a", "1m succeeded")
		c.wantRows("b", "1m succeeded")
		c.wantRows("new")
	})
	var none scheduler.Scheduler
	if none.Add() == nil || none.Replace() == nil || none.Remove() == nil {
		t.Error("a zero Scheduler takes changes")
	}
}

// The ledger is told of a change again until it takes it, and what it does not take
// keeps nothing else from changing.
func TestChangeThatTheLedgerRefuses(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("a", "0 * * * * *"), cronJob("b", "0 * * * * *")})
		c.until(30 * time.Second)
		leader.link.set(func(l *link) { l.fail["Declare"] = 1e9 })
		check(t, leader.Replace(leader.doing(cronJob("a", "30 * * * * *"))...))
		c.until(5*time.Minute + 10*time.Second)
		if !errors.Is(leader.Check(), scheduler.ErrNotFiring) {
			t.Errorf("%v", leader.Check())
		}
		c.wantRows("b", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded")
		leader.link.set(func(l *link) { l.fail["Declare"] = 0 })
		c.until(6*time.Minute + 10*time.Second)
		check(t, leader.Check())
	})
}

// A schedule that changes while a claim has no answer, and while the next tick is due,
// loses no tick of the schedule before.
func TestReplaceInAClaim(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start([]jobs.Job{cronJob("job", "0,2 * * * * *")})
		c.until(59 * time.Second)
		leader.link.set(func(l *link) { l.delay["Claim"] = 2800 * time.Millisecond })
		c.until(62*time.Second + 500*time.Millisecond)
		check(t, leader.Replace(leader.doing(cronJob("job", "30 * * * * *"))...))
		c.until(80 * time.Second)
		leader.link.set(func(l *link) { l.delay["Claim"] = 0 })
		c.until(3 * time.Minute)
		c.wantRows("job", "2s succeeded", "1m succeeded", "1m2s succeeded", "1m30s succeeded", "2m30s succeeded")
	})
}

// What holds ticks of the schedule before back when it changes does not lose them: they run once failures are counted, behind
// the run that stands for the ticks before a pause, and those that a pause keeps are recorded as skipped.
func TestReplaceWhileTicksWait(t *testing.T) {
	job := func(c *cluster, change func(*jobs.Job)) (*replica, func()) {
		declared := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute)}
		change(&declared)
		r := c.start([]jobs.Job{declared})
		return r, func() {
			declared.Schedule = jobs.Cron("30 */20 * * * *")
			check(t, c.replicas[len(c.replicas)-1].Replace(r.doing(declared)...))
		}
	}
	// Nobody leads from 5m30s to 11m10s, and the job is paused from 10m30s on.
	paused := func(c *cluster, change func(*jobs.Job)) func() {
		first, _ := job(c, change)
		c.until(5*time.Minute + 30*time.Second)
		first.stop()
		c.until(10*time.Minute + 30*time.Second)
		check(t, c.Pause(c.Context(), "job"))
		c.until(11*time.Minute + 10*time.Second)
		_, replace := job(c, change)
		return replace
	}
	before := []string{"1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded"}

	t.Run("failures are counted", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			r, replace := job(c, func(job *jobs.Job) {
				job.PauseAfter = 5
				job.Do = func(context.Context, jobs.Run) error { time.Sleep(59 * time.Second); return errors.New("no") }
			})
			c.until(90 * time.Second)
			r.link.set(func(l *link) { l.hold["Runs"] = 2 * time.Second })
			c.until(2*time.Minute + 100*time.Millisecond) // the run has failed at 1m59s, and the tick of 2m is due
			replace()
			c.until(21*time.Minute + 30*time.Second)
			c.wantRows("job", "1m failed: no", "2m failed: no", "20m30s failed: no")
		})
	})
	t.Run("it is paused", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			replace := paused(c, func(*jobs.Job) {})
			c.until(13*time.Minute + 30*time.Second)
			replace()
			c.until(15*time.Minute + 30*time.Second)
			check(t, c.Resume(c.Context(), "job"))
			c.until(21 * time.Minute)
			c.wantRows("job", append(before, "13m skipped, missed 7: paused", "20m30s succeeded")...)
		})
	})
	t.Run("a run stands for the ticks before a pause", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			replace := paused(c, func(job *jobs.Job) {
				job.Do = func(ctx context.Context, run jobs.Run) error {
					if run.Tick.Sub(c.begin) == 10*time.Minute {
						return sleep(10*time.Minute)(ctx, run)
					}
					return nil
				}
			})
			c.until(15*time.Minute + 30*time.Second)
			check(t, c.Resume(c.Context(), "job"))
			c.until(17*time.Minute + 10*time.Second)
			replace()
			c.until(41 * time.Minute)
			c.wantRows("job", append(before, "10m succeeded, missed 4", "15m skipped, missed 4: paused", "17m succeeded, missed 1",
				"20m30s skipped: an earlier run has not finished", "40m30s succeeded")...)
			if runs := c.runs("job"); runs[6].began != runs[5].ended {
				t.Errorf("the tick of 17m began at %v, and the run before it ended at %v", runs[6].began, runs[5].ended)
			}
		})
	})
}

// A removed job starts nothing, and a replaced one starts what it is now, also while the ledger does not take another change.
func TestRemovedBesideAChange(t *testing.T) {
	for _, how := range []string{"removed", "replaced", "replaced by another schedule"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var old int
				changed := false
				before := jobs.Job{Name: "a", Schedule: jobs.Every(time.Second), Do: func(context.Context, jobs.Run) error {
					if changed {
						old++
					}
					return nil
				}}
				r := c.start([]jobs.Job{before})
				c.until(time.Minute - time.Second/2)
				r.link.set(func(l *link) { l.fail["Declare"] = math.MaxInt }) // as while an open transaction keeps the table locked
				check(t, r.Add(r.doing(jobs.Job{Name: "b", Schedule: jobs.Every(time.Hour)})...))
				c.until(time.Minute + time.Second/2)
				now := jobs.Job{Name: "a", Schedule: jobs.Every(time.Second)}
				switch how {
				case "removed":
					check(t, r.Remove("a"))
				case "replaced":
					check(t, r.Replace(r.doing(now)...))
				default:
					now.Schedule = jobs.Every(2 * time.Second)
					check(t, r.Replace(r.doing(now)...))
				}
				changed = true
				c.until(5 * time.Minute)
				if old > 0 {
					t.Errorf("%d runs of before began after the change", old)
				}
				r.link.set(func(l *link) { l.fail["Declare"] = 0 })
				c.until(6*time.Minute + time.Second/2)
				rows := c.records("a")
				if goesOn := rows[len(rows)-1].Tick.Equal(c.begin.Add(6 * time.Minute)); goesOn == (how == "removed") || old > 0 {
					t.Errorf("afterwards it goes on: %t", goesOn)
				}
				if gone := !c.known("a").Gone.IsZero(); gone != (how == "removed") {
					t.Errorf("the ledger has it as gone: %t", gone)
				}
			})
		})
	}
}

// A job that is removed before the ledger has answered that it is there never runs.
func TestRemovedBeforeTheLedgerAnswers(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "a", Schedule: jobs.Every(time.Hour)}})
		c.until(time.Minute)
		r.link.set(func(l *link) { l.delay["Declare"] = 2500 * time.Millisecond })
		check(t, r.Add(r.doing(jobs.Job{Name: "b", Schedule: jobs.Every(time.Second)})...))
		c.until(time.Minute + time.Second)
		check(t, r.Remove("b"))
		c.until(2 * time.Minute)
		c.wantBegan("b")
		if c.known("b").Gone.IsZero() {
			t.Error("the ledger has not heard that it is gone")
		}
	})
}

// asked is a schedule that counts how often it is asked for a tick.
type asked struct {
	jobs.Schedule
	times *atomic.Int64
}

func (s asked) Next(after time.Time) time.Time {
	s.times.Add(1)
	return s.Schedule.Next(after)
}

// Once a job is removed, nothing wakes up for its ticks any more.
func TestARemovedJobHasNoAlarm(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var times atomic.Int64
		r := c.start(append(tenMinutely("other"), jobs.Job{Name: "job", Schedule: asked{jobs.Every(time.Minute), &times}}))
		c.until(10*time.Minute + time.Second)
		check(t, r.Remove("job"))
		c.until(11*time.Minute + time.Second)
		before := times.Load()
		c.until(2 * time.Hour)
		if more := times.Load() - before; before == 0 || more > 0 {
			t.Errorf("the schedule was asked %d times, and %d times after the removal", before, more)
		}
	})
}

// A replica whose jobs change, and which stops, has nothing to warn of.
func TestChangesAreNoReasonToWarn(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		r := c.start(tenMinutely("a", "b"), log)
		c.until(15 * time.Minute)
		check(t, r.Remove("b"))
		check(t, r.Add(r.doing(tenMinutely("c")...)...))
		check(t, r.Replace(r.doing(cronJob("a", "0 * * * * *"))...))
		c.until(25 * time.Minute)
		r.stop()
		if lines := logs.All(); len(lines) > 0 {
			t.Errorf("it says %v", lines)
		}
	})
}

// A removal that the ledger is not told of is said, and the next term tells of it.
func TestRemovalThatIsNotTold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		r := c.start(tenMinutely("a", "b", "c"), log)
		c.until(15 * time.Minute)
		r.link.set(func(l *link) { l.fail["Gone"] = 1 })
		check(t, r.Remove("b"))
		c.until(16 * time.Minute)
		check(t, r.Remove("c"))
		c.until(17 * time.Minute)
		if n := logs.FilterMessageSnippet("is not told which jobs were removed").Len(); n != 1 || !c.known("b").Gone.IsZero() || c.known("c").Gone.IsZero() {
			t.Errorf("%d lines, and b is gone since %v, c since %v", n, c.known("b").Gone, c.known("c").Gone)
		}
		check(t, r.Resign(c.Context()))
		c.until(20 * time.Minute)
		if c.known("b").Gone.IsZero() {
			t.Error("the next term does not tell that b is gone")
		}
	})
}
