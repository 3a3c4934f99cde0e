package scheduler_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

const year = 365 * 24 * time.Hour

// byWorker is for tests that step the database's clock by more than the two may
// differ, and look at what does not depend on it.
var byWorker = scheduler.WithClock(scheduler.WorkerClock)

func hourly() []jobs.Job {
	return []jobs.Job{{Name: "hourly", Schedule: jobs.Cron("0 0 * * * *")}}
}

// wrongClock sets the wall clock of a replica's machine.
func wrongClock(by time.Duration) func(*link) { return func(l *link) { l.wrong = by } }

// Ticks are judged by the database's clock: by all replicas at one instant,
// however wrong their own clocks are within the limit.
func TestTicksAreTheDatabases(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"fast": 5 * time.Minute, "slow": -5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := []jobs.Job{
					{Name: "hourly", Schedule: jobs.Cron("0 0 * * * *")},
					{Name: "rate", Schedule: jobs.FixedRate(time.Hour)},
					{Name: "delay", Schedule: jobs.FixedDelay(time.Hour)},
				}
				logs, log := observed()
				c.startOn(wrongClock(wrong), declared, log)
				c.until(3*time.Hour + time.Second)
				c.wantRows("hourly", "1h succeeded", "2h succeeded", "3h succeeded")
				c.wantRows("rate", "0s succeeded", "1h succeeded", "2h succeeded", "3h succeeded")
				for _, r := range c.runs("hourly") {
					if late := r.began - r.Tick.Sub(c.begin); late.Abs() > time.Millisecond {
						t.Errorf("the tick %v began %v late", r.Tick, late)
					}
				}
				if n := logs.FilterMessage("the database's clock and this machine's differ").Len(); n != 1 {
					t.Errorf("%d lines say that the clocks differ: %v", n, logs.All())
				}
				if skew, ok := c.replicas[0].Skew(); !ok || (skew.Ahead+wrong).Abs() > time.Millisecond {
					t.Errorf("skew %v, %v", skew, ok)
				}
			})
		})
	}
}

// While the database's clock is a year ahead no replica leads, and each reports
// it. Once the clock is right again, missed ticks go through the misfire policy,
// and no instant that it stamped meanwhile keeps a job from running.
func TestDatabaseAYearAhead(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		c.store.StepClock(year)
		r := c.start(hourly(), log)
		c.until(90 * time.Minute)
		if role := r.State().Role; role != election.Following {
			t.Errorf("%v with a database a year ahead", role)
		}
		if err := r.Check(); !errors.Is(err, scheduler.ErrSkew) {
			t.Errorf("Check: %v, want ErrSkew", err)
		}
		c.store.StepClock(-year)
		c.until(3*time.Hour + time.Second)
		c.wantRows("hourly", "2h succeeded", "3h succeeded")
		if n := logs.FilterMessageSnippet("differ too much").Len(); n != 1 {
			t.Errorf("%d lines say that the clocks disagree", n)
		}
		check(t, r.Check())
	})
}

// A leader that finds the clocks to disagree starts nothing more and resigns; the
// ticks of the meantime are missed and not lost.
func TestDatabaseStepsAwayFromALeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		r := c.start(hourly(), log)
		c.until(90 * time.Minute)
		c.store.StepClock(year)
		c.until(150 * time.Minute)
		c.wantRows("hourly", "1h succeeded")
		if lines := logs.FilterMessage("the leading function failed").All(); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), scheduler.ErrSkew.Error()) {
			t.Errorf("these lines say why the term has ended: %v", lines)
		}
		if role := r.State().Role; role != election.Following {
			t.Errorf("%v with a database a year ahead", role)
		}
		c.store.StepClock(-year)
		c.until(3*time.Hour + time.Second)
		c.wantRows("hourly", "1h succeeded", "2h succeeded", "3h succeeded")
	})
}

// A replica whose clock is a year fast does not lead, and one whose clock is
// right does.
func TestReplicaAYearFast(t *testing.T) {
	inBubble(t, func(c *cluster) {
		fast := c.startOn(wrongClock(year), hourly())
		right := c.start(hourly())
		c.until(2*time.Hour + time.Second)
		if fast, right := fast.State().Role, right.State().Role; fast != election.Following || right != election.Leading {
			t.Errorf("fast: %v, right: %v", fast, right)
		}
		c.wantRows("hourly", "1h succeeded", "2h succeeded")
	})
}

// Ticks of the future that a wrong clock claimed are passed over, and run when
// they are due.
func TestClaimedByAFastReplica(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.start(hourly(), byWorker)
		c.until(150 * time.Minute)
		first.stop()
		fast := c.startOn(wrongClock(48*time.Hour), hourly(), byWorker)
		c.until(151 * time.Minute)
		fast.stop()
		logs, log := observed()
		last := c.start(hourly(), log)
		c.until(5*time.Hour + time.Second)
		if n := logs.FilterMessageSnippet("passed over").Len(); n != 1 {
			t.Errorf("%d lines say that ticks are passed over", n)
		}
		c.until(51*time.Hour + time.Second)
		last.stop()
		records := c.records("hourly")
		manual, scheduled := 0, 0
		for i, r := range records {
			switch {
			case r.Trigger != 0:
				manual++
			case i > 0 && r.State == jobs.Succeeded && r.Missed == 0:
				scheduled++
			}
		}
		if manual != 1 || scheduled != 50 {
			t.Errorf("%d ticks passed over, %d run after the first, want 1 and 50:\n%s", manual, scheduled, c.rows("hourly"))
		}
	})
}

// The same whether the job is there from the begin of the term or comes later; but for a tick that is no further ahead than
// the clocks may differ.
func TestClaimedALittleAhead(t *testing.T) {
	for ahead, passed := range map[time.Duration]int{scheduler.DefaultMaxSkew: 0, scheduler.DefaultMaxSkew + time.Second: 1} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, later: %t", ahead, later), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					fast := c.startOn(wrongClock(ahead), hourly(), byWorker)
					c.until(time.Hour - ahead)
					fast.stop()
					logs, log := observed()
					var declared []jobs.Job
					if !later {
						declared = hourly()
					}
					r := c.start(declared, log)
					if later {
						check(t, r.Add(r.doing(hourly()...)...))
						synctest.Wait()
					}
					if n := logs.FilterMessageSnippet("passed over").Len(); n != passed {
						t.Errorf("%d lines say that ticks are passed over, want %d", n, passed)
					}
					c.until(2*time.Hour + time.Second)
					if n := len(c.runs("hourly")); n != 2+passed {
						t.Errorf("%d runs, want %d", n, 2+passed)
					}
				})
			})
		}
	}
}

// A leader whose clock is set back starts a new term, which passes over what was
// claimed in between.
func TestClockSetBackUnderALeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.store.StepClock(year)
		r := c.startOn(wrongClock(year), hourly())
		c.until(90 * time.Minute)
		c.store.StepClock(-year)
		r.link.set(wrongClock(0))
		c.until(3*time.Hour + time.Second)
		var ticks []time.Duration
		for _, r := range c.runs("hourly") {
			ticks = append(ticks, r.Tick.Sub(c.begin))
		}
		want := []time.Duration{year + time.Hour, 2 * time.Hour, 3 * time.Hour}
		if len(ticks) != 3 || ticks[0] != want[0] || ticks[1] != want[1] || ticks[2] != want[2] {
			t.Errorf("ran %v, want %v", ticks, want)
		}
	})
}

// By the worker's clock, nothing that the database stamps silences or starts a
// tick.
func TestWorkerClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": year, "behind": -year, "a little ahead": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				// No age: what a clock has stamped that was a year behind is old.
				kept := jobs.History{Keep: 1000}
				declared := func(cron string) []jobs.Job {
					return []jobs.Job{
						{Name: "hourly", Schedule: jobs.Cron(cron), Misfire: jobs.MisfireAll, History: kept},
						{Name: "delay", Schedule: jobs.FixedDelay(20 * time.Minute), History: kept},
						{Name: "rate", Schedule: jobs.FixedRate(time.Hour), Misfire: jobs.MisfireAll, History: kept},
					}
				}
				c.store.StepClock(ahead)
				first := c.start(declared("0 0 * * * *"), byWorker)
				c.until(50 * time.Minute)
				first.stop()
				second := c.start(declared("0 0 * * * ?"), byWorker)
				c.until(2*time.Hour + time.Minute)
				second.stop()
				c.store.StepClock(-ahead)
				c.start(declared("0 0 * ? * *"), byWorker)
				c.until(4*time.Hour + 5*time.Minute)
				c.wantRows("hourly", "1h succeeded", "2h succeeded", "3h succeeded", "4h succeeded")
				if n := len(c.runs("delay")); n != 13 {
					t.Errorf("the fixed delay ran %d times:\n%s", n, c.rows("delay"))
				}
				// Its anchor is the database's: one that lies in the future is set to
				// now when the clock is right again.
				if n := len(c.runs("rate")); n < 4 || n > 6 {
					t.Errorf("the fixed rate ran %d times:\n%s", n, c.rows("rate"))
				}
			})
		})
	}
}

// By the worker's clock, no tick is lost when the database's is set back, also to before
// it knew the job, and no replica leads for a while.
func TestDatabaseSetBackBeforeAGap(t *testing.T) {
	hourly := func(cron string) []jobs.Job {
		return []jobs.Job{{Name: "hourly", Schedule: jobs.Cron(cron), Misfire: jobs.MisfireAll, History: jobs.History{Keep: 1000}}}
	}
	for _, step := range []time.Duration{-year, -3 * time.Hour, -2 * time.Hour, time.Hour} {
		for _, next := range []string{"0 0 * * * *", "0 0 * * * ?"} { // the second one is another schedule to the ledger
			for _, renewed := range []bool{false, true} {
				for _, changes := range []bool{false, true} { // to this schedule, before the gap
					t.Run(fmt.Sprintf("%v, then %s, after a heartbeat %v, changed before %v", step, next, renewed, changes), func(t *testing.T) {
						inBubble(t, func(c *cluster) {
							want := []string{"1h succeeded", "2h succeeded", "3h succeeded", "4h succeeded", "5h succeeded"}
							if changes {
								before := c.start(hourly("0 30 * * * *"), byWorker)
								c.until(40 * time.Minute)
								before.stop()
								want = append([]string{"30m succeeded"}, want...)
							}
							first := c.start(hourly("0 0 * * * *"), byWorker)
							c.until(90 * time.Minute)
							if !renewed {
								first.stop()
							}
							c.store.StepClock(step)
							c.until(91 * time.Minute)
							if renewed {
								first.stop()
							}
							c.until(250 * time.Minute)
							c.start(hourly(next), byWorker)
							c.until(5*time.Hour + time.Second)
							c.wantRows("hourly", want...)
						})
					})
				}
			}
		}
	}
}

// By the worker's clock, no tick is lost where the database's clock was ahead when the job was declared, or when its
// schedule was changed, and is set right before a gap: whether the next leader comes before the wrong instant or after
// it.
func TestDatabaseAheadBeforeAGap(t *testing.T) {
	for name, schedule := range map[string]jobs.Schedule{"cron": jobs.Cron("0 0 * * * *"), "rate": jobs.FixedRate(time.Hour), "at": jobs.At(year2000(2 * time.Hour))} {
		for _, ahead := range []time.Duration{3 * time.Hour, 9 * time.Hour} {
			for _, changes := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " by ", ahead, ", changed ", changes), func(t *testing.T) {
					inBubble(t, func(c *cluster) {
						of := func(s jobs.Schedule) []jobs.Job {
							return []jobs.Job{{Name: "job", Schedule: s, Misfire: jobs.MisfireAll, History: jobs.History{Keep: 1000}}}
						}
						c.store.StepClock(ahead)
						if changes {
							before := c.start(of(jobs.Cron("0 0 0 1 1 *")), byWorker)
							c.until(time.Millisecond)
							before.stop()
						}
						first := c.start(of(schedule), byWorker)
						c.until(90 * time.Minute)
						first.stop()
						c.store.StepClock(-ahead)
						c.until(250 * time.Minute)
						c.start(of(schedule), byWorker)
						c.until(5*time.Hour + time.Second)
						var ticks []time.Duration
						for _, r := range c.records("job") {
							if r.State != jobs.Succeeded || r.Missed != 0 {
								t.Errorf("%+v", r)
							}
							ticks = append(ticks, r.Tick.Sub(c.begin).Truncate(time.Second))
						}
						want := []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 5 * time.Hour}
						switch name {
						case "rate":
							want = append([]time.Duration{0}, want...)
						case "at":
							want = want[1:2]
						}
						if !slices.Equal(ticks, want) {
							t.Errorf("ticks %v, want %v", ticks, want)
						}
					})
				})
			}
		}
	}
}

// year2000 is an instant of a bubble.
func year2000(after time.Duration) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(after)
}

// By the worker's clock, a changed schedule has no ticks from before the change, wherever the database's clock is.
func TestChangedBesideAnotherClock(t *testing.T) {
	for _, skew := range []time.Duration{0, -2 * time.Hour, 2 * time.Hour, -year} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(skew, restart), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					of := func(cron string) jobs.Job {
						return jobs.Job{Name: "job", Schedule: jobs.Cron(cron), Misfire: jobs.MisfireAll, History: jobs.History{Keep: 1000}}
					}
					c.store.StepClock(skew)
					r := c.start([]jobs.Job{of("0 0 * * * *")}, byWorker)
					c.until(115 * time.Minute)
					if restart {
						r.stop()
						c.start([]jobs.Job{of("0 */10 * * * *")}, byWorker)
					} else {
						check(t, r.Set(r.doing(of("0 */10 * * * *"))...))
					}
					c.until(130*time.Minute + time.Second)
					c.wantRows("job", "1h succeeded", "2h succeeded", "2h10m succeeded")
				})
			})
		}
	}
}

// By the worker's clock, a release that changes a schedule loses no tick of the time between the two, also where the
// clocks differ by less than a second.
func TestReleaseBesideASmallSkew(t *testing.T) {
	for _, skew := range []time.Duration{0, 900 * time.Millisecond, -900 * time.Millisecond, 1100 * time.Millisecond} {
		for name, leave := range map[string]func(*replica){"killed": (*replica).kill, "stopped": (*replica).stop} {
			t.Run(fmt.Sprint(skew, name), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					of := func(cron string) []jobs.Job {
						return []jobs.Job{{Name: "job", Schedule: jobs.Cron(cron), Misfire: jobs.MisfireAll}}
					}
					c.store.StepClock(skew)
					r := c.start(of("0 0 0 * * *"), byWorker)
					c.until(2*time.Hour - 300*time.Millisecond)
					leave(r)
					c.until(2*time.Hour + time.Minute)
					c.start(of("0 */10 * * * *"), byWorker)
					c.until(2*time.Hour + 10*time.Minute + time.Second)
					c.wantRows("job", "2h succeeded", "2h10m succeeded")
				})
			})
		}
	}
}

// Whatever becomes of the database's clock, and whichever replica leads, each tick has one row: under either clock, as
// long as the clocks agree to max_skew where that counts.
func TestRandomStepsOfTheDatabase(t *testing.T) {
	for _, seed := range rounds.Seeds(t, 40) {
		for _, by := range []scheduler.Clock{scheduler.WorkerClock, scheduler.DatabaseClock} {
			t.Run(fmt.Sprint(seed, by), func(t *testing.T) {
				inBubble(t, func(c *cluster) { c.randomSteps(rand.New(rand.NewPCG(seed, 0)), by) })
			})
		}
	}
}

func (c *cluster) randomSteps(r *rand.Rand, by scheduler.Clock) {
	const every = time.Minute
	declared := []jobs.Job{
		{Name: "cron", Schedule: jobs.Cron("0 * * * * *"), Misfire: jobs.MisfireAll, History: jobs.History{Keep: 100_000}},
		{Name: "rate", Schedule: jobs.FixedRate(every), Misfire: jobs.MisfireAll, History: jobs.History{Keep: 100_000}},
	}
	var off, at time.Duration
	step := func() {
		to := time.Duration(r.IntN(9*60)) * time.Second
		if by == scheduler.WorkerClock {
			to = time.Duration(r.IntN(6*60)-3*60) * every
		}
		c.store.StepClock(to - off)
		off = to
	}
	var up []*replica
	start := func() { up = append(up, c.start(declared, scheduler.WithClock(by))) }
	if r.IntN(2) == 0 {
		step()
	}
	for start(); len(c.replicas) < 6; {
		at += time.Duration(1+r.IntN(100)) * 5 * time.Second
		c.until(at)
		switch i := r.IntN(max(1, len(up))); r.IntN(4) {
		case 0:
			step()
		case 1:
			start()
		default:
			if len(up) == 0 {
				start()
				continue
			}
			if r.IntN(2) == 0 {
				up[i].kill()
			} else {
				up[i].stop()
			}
			up = slices.Delete(up, i, i+1)
		}
	}
	c.until(at + 40*time.Minute)
	for _, job := range declared {
		var last time.Time
		for _, x := range c.records(job.Name) {
			if gap := x.Tick.Sub(last); x.Trigger != 0 || !last.IsZero() && gap != time.Duration(x.Missed+1)*every {
				c.Errorf("%s: %v after %v, missed %d", job.Name, x.Tick.Sub(c.begin), last.Sub(c.begin), x.Missed)
			}
			last = x.Tick
		}
		if ago := at + 40*time.Minute - last.Sub(c.begin); ago > 12*time.Minute {
			c.Errorf("%s: its newest tick is %v old", job.Name, ago)
		}
	}
}

// A fixed rate keeps its ticks when the database's clock is set back to before the schedule began.
func TestRateOfAClockThatWasSetBack(t *testing.T) {
	for _, initial := range []time.Duration{0, 7 * time.Second} {
		t.Run(initial.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := []jobs.Job{{Name: "job", Schedule: jobs.FixedRate(time.Minute).InitialDelay(initial), Misfire: jobs.MisfireAll}}
				c.store.StepClock(8 * time.Minute)
				r := c.start(job)
				c.until(90 * time.Second)
				r.stop()
				c.store.StepClock(-8*time.Minute + 13*time.Second)
				c.start(job)
				c.until(20 * time.Minute)
				var before time.Time
				for _, r := range c.records("job") {
					if !before.IsZero() && r.Tick.Sub(before)%time.Minute != 0 {
						t.Errorf("%v comes after %v", r.Tick, before)
					}
					before = r.Tick
				}
			})
		})
	}
}

// By the worker's clock, a pause that is over does not come again when the database's
// clock is set back.
func TestPauseOfAClockThatWasSetBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.start(hourly(), byWorker)
		c.until(150 * time.Minute)
		check(t, c.Pause(t.Context(), "hourly"))
		c.until(210 * time.Minute)
		check(t, c.Resume(t.Context(), "hourly"))
		c.until(220 * time.Minute)
		first.stop()
		c.store.StepClock(-80 * time.Minute)
		c.start(hourly(), byWorker)
		c.until(6*time.Hour + time.Second)
		c.wantRows("hourly", "1h succeeded", "2h succeeded", "3h skipped: paused", "4h succeeded", "5h succeeded", "6h succeeded")
	})
}

func TestClockOptions(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]scheduler.Option{
		"WithMaxSkew(1ms): must be at least 1s": scheduler.WithMaxSkew(time.Millisecond),
		"WithMaxSkew(-1s): must be at least 1s": scheduler.WithMaxSkew(-time.Second),
		"WithClock(7): not known":               scheduler.WithClock(7),
		"WithVersion(\"vvv":                     scheduler.WithVersion(strings.Repeat("v", store.MaxName+1)),
	} {
		if _, err := scheduler.New(newLink(nil), "g", option); err == nil || !strings.HasPrefix(err.Error(), "scheduler: "+name) {
			t.Errorf("error %v, want %s", err, name)
		}
	}
	if _, err := scheduler.New(newLink(nil), "g", scheduler.WithMaxSkew(time.Second), scheduler.WithVersion(strings.Repeat("v", store.MaxName))); err != nil {
		t.Errorf("the least skew, and the longest version: %v", err)
	}
	for _, clock := range []scheduler.Clock{scheduler.DatabaseClock, scheduler.WorkerClock} {
		if parsed, err := scheduler.ParseClock(clock.String()); err != nil || parsed != clock {
			t.Errorf("%v is parsed as %v (%v)", clock, parsed, err)
		}
	}
	if _, err := scheduler.ParseClock("sundial"); err == nil {
		t.Error("an unknown clock is parsed")
	}
}

// After the clock was ahead for a while, one line of each leader says until when jobs start nothing.
func TestClockThatWasAhead(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "often", Schedule: jobs.Every(5 * time.Second)}}
		logs, log := observed()
		first := c.start(declared, log)
		c.until(time.Minute)
		c.store.StepClock(5 * time.Minute)
		c.until(90 * time.Second)
		c.store.StepClock(-5 * time.Minute)
		ahead := func(n int) {
			t.Helper()
			lines := logs.FilterMessageSnippet("was ahead").All()
			if len(lines) != n {
				t.Fatalf("%d lines, want %d: %v", len(lines), n, logs.All())
			}
			if n == 0 {
				return
			}
			says := lines[n-1].ContextMap()
			if until, _ := says["until"].(time.Time); says["jobs"] != int64(1) || until.Sub(c.begin) < 6*time.Minute || until.Sub(c.begin) > 7*time.Minute {
				t.Errorf("%v", says)
			}
		}
		ahead(0)
		c.until(4 * time.Minute)
		ahead(1)
		first.stop()
		c.start(declared, log)
		c.until(5 * time.Minute)
		ahead(2)
		runs := len(c.runs("often"))
		c.until(6*time.Minute + 30*time.Second)
		if more := len(c.runs("often")); more != runs {
			t.Errorf("%d runs before the clock was there again", more-runs)
		}
		c.until(8 * time.Minute)
		ahead(2)
		if len(c.runs("often")) == runs {
			t.Error("no job runs any more")
		}
	})
}

// observed are the lines that a replica logs.
func observed() (*observer.ObservedLogs, scheduler.Option) {
	core, logs := observer.New(zap.WarnLevel)
	return logs, scheduler.WithLogger(zap.New(core))
}

// clocks are those of the machine that the replica lives on.
func (l *link) clocks() clocks.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return clocks.Instant{Mono: now, Wall: now.Round(0).Add(l.wrong)}
}
