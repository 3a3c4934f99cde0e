package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// sharded is a job whose runs are divided into four.
func sharded(do func(context.Context, jobs.Run) error) jobs.Job {
	return jobs.Job{Name: "report", Schedule: jobs.Every(time.Minute), Shards: 4, Recover: jobs.RecoverRerun, Do: do}
}

// inBothModes runs a test with three replicas where the leader runs all, and where runs are spread.
func inBothModes(t *testing.T, declared []jobs.Job, test func(c *cluster, leader *replica, others []*replica)) {
	t.Helper()
	for _, spread := range []bool{false, true} {
		t.Run(fmt.Sprint("spread=", spread), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				if spread {
					leader, others := c.spreadOver(3, declared)
					test(c, leader, others)
					return
				}
				leader, others := c.start(declared), []*replica{c.start(declared), c.start(declared)}
				time.Sleep(100 * time.Millisecond)
				test(c, leader, others)
			})
		})
	}
}

// parts are the shards that ran of a tick, in order.
func (c *cluster) parts(tick time.Duration) (all []string) {
	for _, r := range c.runs("report/shards") {
		if r.Tick.Sub(c.begin) == tick {
			all = append(all, fmt.Sprintf("%d of %d", r.Shard, r.Shards))
		}
	}
	slices.Sort(all)
	return all
}

func (c *cluster) wantParts(tick time.Duration) {
	c.Helper()
	if got, want := c.parts(tick), []string{"0 of 4", "1 of 4", "2 of 4", "3 of 4"}; !slices.Equal(got, want) {
		c.Errorf("at %v: shards %v, want %v", tick, got, want)
	}
}

// Each shard runs once, at the same time as the others, also in one slot less than there are, and the run ends with the last one.
func TestShards(t *testing.T) {
	after := jobs.Job{Name: "after", Schedule: jobs.After("report")}
	inBothModes(t, []jobs.Job{sharded(func(_ context.Context, run jobs.Run) error {
		time.Sleep(time.Duration(10+run.Shard) * time.Second)
		return nil
	}), after}, func(c *cluster, _ *replica, _ []*replica) {
		c.until(time.Minute + 12*time.Second)
		c.wantRows("report", "1m running")
		c.wantRows("after")
		c.until(2*time.Minute + 30*time.Second)
		c.wantRows("report", "1m succeeded", "2m succeeded")
		for _, tick := range []time.Duration{time.Minute, 2 * time.Minute} {
			c.wantParts(tick)
		}
		if by := c.by(); len(c.leader().Running()) != 0 {
			c.Errorf("runs: %v", by)
		}
		began := c.runs("after")
		if len(began) != 2 || began[0].began < 73*time.Second || began[0].began > 75*time.Second {
			c.Errorf("after: %+v", began)
		}
	})
}

// A change of leader, whichever way, loses no shard and starts none twice, and the run ends once.
func TestShardsOverATakeover(t *testing.T) {
	for name, leave := range map[string]func(*replica){"killed": (*replica).kill, "stopped": (*replica).stop} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				leader, _ := c.spreadOver(3, []jobs.Job{sharded(sleep(30 * time.Second))})
				c.until(70 * time.Second)
				leave(leader)
				c.until(115 * time.Second)
				c.wantRows("report", "1m succeeded, attempt 2")
				for _, r := range c.runs("report/shards") {
					if r.Owner != leader.Owner() && r.cause != nil {
						t.Errorf("a shard of another replica: %+v", r)
					}
				}
				rows := c.lines("report/shards")
				slices.Sort(rows)
				if !slices.Equal(rows, []string{"1m succeeded", "1m succeeded", "1m succeeded", "1m succeeded, attempt 2"}) { // one was the leader's
					t.Errorf("shards: %q", rows)
				}
			})
		})
	}
}

// A shard that fails has attempts of its own. The run fails when one has none left, and is told of once.
func TestShardFails(t *testing.T) {
	tells := jobs.Job{Name: "tells", Schedule: jobs.OnFailure()}
	job := sharded(func(_ context.Context, run jobs.Run) error {
		if run.Shard == 2 {
			return errors.New("no luck")
		}
		return nil
	})
	job.Retry = jobs.Retry{Attempts: 3, Initial: time.Second, Jitter: 1e-9}
	inBothModes(t, []jobs.Job{job, tells}, func(c *cluster, _ *replica, _ []*replica) {
		c.until(100 * time.Second)
		c.wantRows("report", "1m failed: 1 of 4 shards have not succeeded: shard 2: failed: no luck")
		if n := len(c.runs("report/shards")); n != 6 {
			c.Errorf("%d attempts, want 6", n)
		}
		if n := len(c.records("tells")); n != 1 {
			c.Errorf("%d notices, want 1", n)
		}
	})
}

// To cancel the run is to cancel its shards: the next tick begins when all have ended. So it is where nobody leads at the time.
func TestShardsAreCancelled(t *testing.T) {
	slow := func(ctx context.Context, _ jobs.Run) error {
		<-ctx.Done()
		time.Sleep(5 * time.Second)
		return ctx.Err()
	}
	for name, before := range map[string]func(*replica){"led": func(*replica) {}, "not led": (*replica).kill} {
		t.Run(name, func(t *testing.T) {
			inBothModes(t, []jobs.Job{sharded(slow)}, func(c *cluster, leader *replica, _ []*replica) {
				c.until(70 * time.Second)
				before(leader)
				check(c.T, c.Cancel(c.Context(), jobs.Key{Job: "report", Tick: c.begin.Add(time.Minute)}))
				c.until(110 * time.Second)
				c.wantRows("report", "1m cancelled: jobs: cancelled on request")
				for _, r := range c.records("report/shards") {
					if r.State != jobs.Cancelled && r.State != jobs.Interrupted {
						c.Errorf("a shard: %+v", r)
					}
				}
			})
		})
	}
}

// A manual run has its arguments in each shard, and the shards of two runs at the same time are not mixed up.
func TestShardsOfATrigger(t *testing.T) {
	job := sharded(func(_ context.Context, run jobs.Run) error {
		args, err := jobs.ArgsOf[string](run)
		if run.Trigger == 0 || err != nil || args != "" && args != "x" {
			return fmt.Errorf("%q, %w", args, err)
		}
		return nil
	})
	job.Schedule, job.Overlap = jobs.Manual(), jobs.OverlapAllow
	inBothModes(t, []jobs.Job{job}, func(c *cluster, _ *replica, _ []*replica) {
		c.until(10 * time.Second)
		for _, args := range []any{nil, "x"} {
			_, err := c.TriggerWith(c.Context(), "report", args)
			check(c.T, err)
		}
		_, err := c.Trigger(c.Context(), "report/shards")
		check(c.T, err)
		c.until(20 * time.Second)
		for _, r := range c.records("report") {
			if r.State != jobs.Succeeded {
				c.Errorf("%+v", r)
			}
		}
		failed := 0
		for _, r := range c.records("report/shards") {
			if r.State == jobs.Failed && strings.Contains(r.Error, "trigger that one") {
				failed++
			} else if r.State != jobs.Succeeded {
				c.Errorf("%+v", r)
			}
		}
		if n := len(c.records("report/shards")); n != 9 || failed != 1 {
			c.Errorf("%d runs of shards, %d failed", n, failed)
		}
	})
}

// A leader whose term ends right when a run begins with its shards leaves the one behind it to the next leader, too: under
// queue, the shards of one do not run beside those of the other.
func TestShardsOfAQueue(t *testing.T) {
	for _, spread := range []bool{false, true} {
		for blocked := 15 * time.Second; blocked < 20*time.Second; blocked += 500 * time.Millisecond {
			t.Run(fmt.Sprintf("spread=%v, blocked for %v", spread, blocked), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					job := sharded(sleep(time.Minute))
					job.Schedule, job.Overlap = jobs.Manual(), jobs.OverlapQueue
					var options []scheduler.Option
					if spread {
						options = append(options, scheduler.WithSpread())
					}
					begins := sync.OnceFunc(func() { time.Sleep(blocked) })
					log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.InfoLevel),
						zap.Hooks(func(e zapcore.Entry) error {
							if e.Message == "run started" {
								begins()
							}
							return nil
						}))
					c.start([]jobs.Job{job}, append(options, scheduler.WithLogger(log))...)
					c.until(5 * time.Second)
					c.start([]jobs.Job{job}, options...)
					c.until(10 * time.Second)
					for range 2 {
						_, err := c.Trigger(c.Context(), "report")
						check(t, err)
					}
					c.until(10 * time.Minute)
					parts := c.runs("report/shards")
					for _, a := range parts {
						for _, b := range parts {
							if a.Trigger-uint64(a.Shard) != b.Trigger-uint64(b.Shard) && a.began < b.ended && b.began < a.ended {
								t.Fatalf("%+v ran beside %+v", a, b)
							}
						}
					}
				})
			})
		}
	}
}

// A switch of the mode waits for the shards that run, and the next leader starts the others.
func TestShardsOverASwitch(t *testing.T) {
	for _, to := range []bool{false, true} {
		t.Run(fmt.Sprint("spread=", to), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := []jobs.Job{sharded(sleep(20 * time.Second))}
				options := [2][]scheduler.Option{{scheduler.WithMaxRuns(1)}, {scheduler.WithMaxRuns(1), scheduler.WithSpread()}}
				from := options[0]
				if !to {
					from = options[1]
				}
				c.start(declared, from...)
				c.start(declared, from...)
				c.until(65 * time.Second)
				next := options[0]
				if to {
					next = options[1]
				}
				c.start(declared, next...)
				check(c.T, c.SetSpread(c.Context(), to))
				c.until(59*time.Second + 2*time.Minute)
				if rows := c.lines("report"); len(rows) == 0 || rows[0] != "1m succeeded, attempt 2" {
					t.Errorf("rows: %q", rows)
				}
				c.wantParts(time.Minute)
			})
		})
	}
}

func TestShardsAreDeclared(t *testing.T) {
	t.Parallel()
	s, err := scheduler.New(memdb.New(), "g")
	check(t, err)
	report := sharded(func(context.Context, jobs.Run) error { return nil })
	for want, add := range map[string][]jobs.Job{
		`job "report/shards": its name is that of the shards of job "report"`: {{Name: "report/shards", Schedule: jobs.Manual(), Do: report.Do}, report},
		`job "report/shards" is declared twice`:                               {report, {Name: "report/shards", Schedule: jobs.Manual(), Do: report.Do}},
		"Shards 129: must be from 1 to 128":                                   {{Name: "a", Schedule: jobs.Manual(), Do: report.Do, Shards: 129}},
		"at most 121 bytes":                                                   {{Name: strings.Repeat("a", 122), Schedule: jobs.Manual(), Do: report.Do, Shards: 2}},
		"overlap replace does not apply":                                      {{Name: "a", Schedule: jobs.Every(time.Second), Do: report.Do, Shards: 2, Overlap: jobs.OverlapReplace}},
		"ConcurrencyKey does not apply":                                       {{Name: "a", Schedule: jobs.Manual(), Do: report.Do, Shards: 2, Overlap: jobs.OverlapAllow, ConcurrencyKey: "k"}},
		"Sticky does not apply":                                               {{Name: "a", Schedule: jobs.Manual(), Do: report.Do, Shards: 2, Sticky: true}},
		"tells of other jobs":                                                 {{Name: "a", Schedule: jobs.OnFailure(), Do: report.Do, Shards: 2}},
		"runs everywhere":                                                     {{Name: "a", Schedule: jobs.Every(time.Second), Do: report.Do, Shards: 2, Everywhere: true}},
	} {
		if err := s.Add(add...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	check(t, s.Add(report))
	if job, _ := s.Job("report"); job.Shards != 4 || job.Recover != report.Recover || job.Schedule != report.Schedule {
		t.Errorf("it is declared as %+v", job)
	}
	if err := s.Add(jobs.Job{Name: "report/shards", Schedule: jobs.Manual(), Do: report.Do}); err == nil {
		t.Error("the name of the shards was taken twice")
	}
}

// A run that goes on over a change of leader keeps the room of its job, whatever else waits: no other starts its shards beside it.
func TestShardsKeepTheRoom(t *testing.T) {
	for _, overlap := range []jobs.Overlap{jobs.OverlapQueue, jobs.OverlapForbid} {
		for how, leave := range map[string]func(*replica){"killed": (*replica).kill, "stopped": (*replica).stop} {
			for _, spread := range []bool{false, true} {
				t.Run(fmt.Sprint(overlap, how, spread), func(t *testing.T) {
					inBubble(t, func(c *cluster) {
						job := sharded(sleep(5 * time.Minute))
						job.Schedule, job.Overlap = jobs.Every(10*time.Minute), overlap
						var options []scheduler.Option
						if spread {
							options = append(options, scheduler.WithSpread())
						}
						leader := c.start([]jobs.Job{job}, options...)
						c.start([]jobs.Job{job}, options...)
						c.until(26 * time.Minute)
						_, err := c.Backfill(c.Context(), "report", jobs.Backfill{From: c.begin.Add(time.Minute), To: c.begin.Add(11 * time.Minute)})
						check(t, err)
						c.until(30*time.Minute + 10*time.Second) // a tick waits for it
						leave(leader)
						killed := map[string]time.Duration{leader.Owner(): time.Since(c.begin)}
						c.until(45 * time.Minute)
						runs := c.runs("report/shards")
						for _, r := range runs {
							for _, o := range runs {
								if o.Tick != r.Tick && o.began < r.began && r.began < endOf(o, killed) {
									t.Errorf("%+v began during %+v", r, o)
								}
							}
						}
						if rows := c.lines("report"); len(rows) < 4 {
							t.Errorf("rows: %q", rows)
						}
					})
				})
			}
		}
	}
}

// During a deployment that gives a job shards, a replica that divides its runs gets none that the leader does not divide.
func TestShardsInANewRelease(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := sharded(func(_ context.Context, run jobs.Run) error {
			time.Sleep(time.Second)
			if run.Shards == 0 {
				return errors.New("not divided")
			}
			return nil
		})
		before := job
		before.Shards, before.Do = 0, sleep(time.Second)
		leader := c.start([]jobs.Job{before}, scheduler.WithSpread())
		c.start([]jobs.Job{job}, scheduler.WithSpread())
		c.until(4*time.Minute + 30*time.Second)
		c.wantRows("report", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded")
		leader.stop()
		c.until(6*time.Minute + 30*time.Second)
		c.wantRows("report", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded", "6m succeeded")
		c.wantParts(5 * time.Minute)
	})
}

// A leader whose release divides a job no more ends the shards that other replicas have of a run, and waits for them:
// the job's next run does not begin beside one.
func TestShardsOfAnotherRelease(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := sharded(func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		leader := c.start([]jobs.Job{job}, scheduler.WithSpread())
		slow := job
		slow.Do = func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			time.Sleep(40 * time.Second)
			return context.Cause(ctx)
		}
		c.start([]jobs.Job{slow}, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		before := job
		before.Shards, before.Do = 0, sleep(time.Second)
		c.start([]jobs.Job{before}, scheduler.WithSpread())
		c.until(time.Minute + 50*time.Second)
		leader.kill()
		c.until(3*time.Minute + 30*time.Second)
		c.wantRows("report", "1m failed, attempt 2: 2 of the 4 shards of report have not ended, and the job has none any more",
			"2m skipped: an earlier run has not finished", "3m succeeded") // the killed replica's two stay as they are
		for _, r := range c.runs("report") {
			for _, s := range c.runs("report/shards") {
				if r.Shards == 0 && r.began < s.ended && s.began < r.began {
					t.Errorf("%+v began during %+v", r, s)
				}
			}
		}
	})
}

// A job that gets shards divides the next attempt at a run that has begun; one that loses them ends the run whose shards wait.
func TestShardsComeAndGo(t *testing.T) {
	t.Run("come", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			job := sharded(func(_ context.Context, run jobs.Run) error {
				if run.Shards == 0 {
					return errors.New("no luck")
				}
				return nil
			})
			job.Retry, job.Shards = jobs.Retry{Attempts: 3, Initial: 20 * time.Second, Jitter: 1e-9}, 0
			r := c.start([]jobs.Job{job})
			c.until(70 * time.Second)
			job.Shards = 4
			check(t, r.Replace(r.doing(job)...))
			c.until(110 * time.Second)
			c.wantRows("report", "1m succeeded, attempt 2")
			c.wantParts(time.Minute)
		})
	})
	t.Run("go", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			job := sharded(failing(100))
			job.Retry = jobs.Retry{Attempts: 3, Initial: 20 * time.Second, Jitter: 1e-9}
			r := c.start([]jobs.Job{job})
			c.until(70 * time.Second)
			job.Shards, job.Do = 0, sleep(0)
			check(t, r.Replace(r.doing(job)...))
			c.until(130 * time.Second)
			c.wantRows("report", "1m failed: 4 of the 4 shards of report have not ended, and the job has none any more", "2m succeeded")
		})
	})
}

// The lines about a shard say which one it is.
func TestShardsInTheLog(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, said := observer.New(zapcore.InfoLevel)
		c.start([]jobs.Job{sharded(sleep(time.Second))}, scheduler.WithLogger(zap.New(core)))
		c.until(70 * time.Second)
		var shards []any
		for _, line := range said.FilterMessage("run succeeded").All() {
			if line.ContextMap()["job"] == "report/shards" {
				shards = append(shards, line.ContextMap()["shard"])
			}
		}
		if text := fmt.Sprint(shards); len(shards) != 4 || !strings.Contains(text, "0") || !strings.Contains(text, "3") {
			t.Errorf("shards %v", shards)
		}
	})
}

// A release or a reload divides a job, or has it run everywhere, while a replica runs it as a whole: that run goes on, nothing of its tick
// starts beside it, and the job goes on with its shards however it ends.
func TestShardsComeBesideARun(t *testing.T) {
	of := func(shards int, interrupted jobs.Recover) []jobs.Job {
		return []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Shards: shards, Recover: interrupted, Do: sleep(40 * time.Second)}}
	}
	reload := func(c *cluster, jobs []jobs.Job) {
		for _, r := range c.replicas {
			check(c.T, r.Replace(r.doing(jobs...)...))
		}
	}
	for name, change := range map[string]func(c *cluster, old []*replica, to []jobs.Job){
		"the leader dies":     func(_ *cluster, old []*replica, _ []jobs.Job) { old[0].kill() },
		"the leader stops":    func(_ *cluster, old []*replica, _ []jobs.Job) { old[0].stop() },
		"the leader resigns":  func(c *cluster, old []*replica, _ []jobs.Job) { check(c.T, old[0].Resign(c.Context())); old[0].stop() },
		"reload":              func(c *cluster, _ []*replica, to []jobs.Job) { reload(c, to) },
		"reload, and it dies": func(c *cluster, old []*replica, to []jobs.Job) { reload(c, to); time.Sleep(time.Second); old[1].kill() },
		"reload, and it stops": func(c *cluster, old []*replica, to []jobs.Job) {
			reload(c, to)
			time.Sleep(time.Second)
			old[1].stop()
		},
	} {
		for _, interrupted := range []jobs.Recover{jobs.RecoverSkip, jobs.RecoverRerun} {
			t.Run(fmt.Sprintf("%s, %v", name, interrupted), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					first := []*replica{c.start(of(0, interrupted), scheduler.WithSpread())}
					time.Sleep(time.Second)
					first = append(first, c.start(of(0, interrupted), scheduler.WithSpread(), scheduler.WithFollowerOnly()))
					if !strings.HasPrefix(name, "reload") {
						c.start(of(2, interrupted), scheduler.WithSpread())
						c.start(of(2, interrupted), scheduler.WithSpread())
					}
					c.until(65 * time.Second)
					if runs := c.runs("job"); len(runs) != 1 || runs[0].Owner != first[1].Owner() {
						t.Fatal("it runs on another replica than the one that is ended")
					}
					change(c, first, of(2, interrupted))
					if strings.HasPrefix(name, "reload") {
						c.start(of(2, interrupted), scheduler.WithSpread())
					}
					c.until(10*time.Minute + 50*time.Second)
					whole := c.runs("job")
					if len(whole) != 1 {
						t.Errorf("%d runs that are not divided, want 1: %+v", len(whole), whole)
					}
					for _, part := range c.runs("job/shards") {
						if part.Tick.Equal(whole[0].Tick) && (part.began < endOf(whole[0], nil) || interrupted == jobs.RecoverSkip) {
							t.Errorf("%+v began beside %+v", part, whole[0])
						}
					}
					rows := c.records("job")
					for _, r := range rows[2:] { // one tick may be skipped until the session of a replica that has died is over
						if r.State != jobs.Succeeded && r.State != jobs.Running {
							t.Errorf("%+v", r)
						}
					}
					if len(rows) < 8 {
						t.Errorf("%d ticks, want 8 or more: %v", len(rows), c.lines("job"))
					}
				})
			})
		}
	}
}
