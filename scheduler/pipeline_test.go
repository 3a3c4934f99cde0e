package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// pipeline is three jobs, each after the one before. A fourth is after the first.
func pipeline(do func(context.Context, jobs.Run) error) []jobs.Job {
	return []jobs.Job{
		{Name: "c", Schedule: jobs.After("b"), Do: do},
		{Name: "b", Schedule: jobs.After("a"), Do: do},
		{Name: "a", Schedule: jobs.Every(time.Hour), Do: do},
		{Name: "d", Schedule: jobs.After("a"), Do: do},
	}
}

// ticksOf are the ticks and arguments of a job's runs that began.
func (c *cluster) ticksOf(job string) (all []string) {
	for _, r := range c.runs(job) {
		all = append(all, strings.TrimSpace(short(r.Tick.Sub(c.begin))+" "+string(r.Args)))
	}
	return all
}

func (c *cluster) wantTicks(job string, want ...string) {
	c.Helper()
	if got := c.ticksOf(job); !slices.Equal(got, want) {
		c.Errorf("%s ran %q, want %q; the ledger has\n%s", job, got, want, c.rows(job))
	}
}

// Each tick and each triggered run that succeeds is followed once, with its tick and
// its arguments.
func TestPipeline(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start(pipeline(sleep(time.Minute)))
		c.until(90 * time.Minute)
		c.triggerWith("a", 7)
		c.until(100 * time.Minute)
		c.triggerWith("b", 8)
		c.until(2*time.Hour + 10*time.Minute)
		c.wantTicks("a", "1h", "1h30m 7", "2h")
		c.wantTicks("b", "1h", "1h30m 7", "1h40m 8", "2h")
		c.wantTicks("c", "1h", "1h30m 7", "1h40m 8", "2h")
		c.wantTicks("d", "1h", "1h30m 7", "2h")
		c.wantBegan("c", 62*time.Minute, 92*time.Minute, 101*time.Minute, 122*time.Minute)
	})
}

// What does not succeed is not followed, and a success after retries is, once.
func TestPipelineAfterFailures(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := pipeline(nil)
		all[2].Retry = jobs.Retry{Attempts: 2}
		all[2].Do = func(_ context.Context, run jobs.Run) error {
			if run.Attempt == 1 || run.Tick.Sub(c.begin) == 2*time.Hour {
				return errors.New("no")
			}
			return nil
		}
		c.start(all)
		c.until(3*time.Hour + time.Minute)
		c.wantRows("a", "1h succeeded, attempt 2", "2h failed, attempt 2: no", "3h succeeded, attempt 2")
		c.wantTicks("b", "1h", "3h")
		c.wantTicks("c", "1h", "3h")
	})
}

// Wherever the leader dies between the success of a run and the end of what follows it,
// and whichever answers are lost, each tick is followed once.
func TestPipelineOverTakeovers(t *testing.T) {
	for name, at := range map[string]func(*link){
		"the success is not recorded":          func(l *link) { l.fail["Move"] = 1e6 },
		"the answer to the success is lost":    func(l *link) { l.lose["Move"] = 1 },
		"all answers are lost":                 func(l *link) { l.lose["Move"] = 1e6 },
		"the next does not start":              func(l *link) { l.refused, l.refusedOps = "b", "Move" },
		"the success is under way for seconds": func(l *link) { l.hold["Move"] = 3 * time.Second },
	} {
		for _, after := range []time.Duration{0, 100 * time.Millisecond, 2 * time.Second, 5 * time.Second, 65 * time.Second} {
			t.Run(fmt.Sprintf("%s, killed after %v", name, after), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					all := pipeline(sleep(time.Minute))
					for i := range all {
						all[i].Recover = jobs.RecoverRerun
					}
					first := c.watched(3, all)
					c.until(time.Hour + 59*time.Second)
					first.link.set(at)
					c.until(time.Hour + time.Minute + after)
					first.kill()
					c.until(2*time.Hour + 10*time.Minute)
					for _, job := range []string{"a", "b", "c", "d"} {
						var ticks []string
						for _, r := range c.records(job) {
							if r.State != jobs.Succeeded {
								t.Errorf("%s: the ledger has\n%s", job, c.rows(job))
							}
							ticks = append(ticks, short(r.Tick.Sub(c.begin)))
						}
						if !slices.Equal(ticks, []string{"1h", "2h"}) {
							t.Errorf("%s: the ledger has\n%s", job, c.rows(job))
						}
					}
				})
			})
		}
	}
}

// A run that follows has not begun when its leader dies before it starts: it is run
// also where interrupted runs are not run again.
func TestPipelineThatDidNotBegin(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, pipeline(sleep(time.Minute)))
		first.link.set(func(l *link) { l.refused, l.refusedOps = "b", "Move" })
		c.until(time.Hour + time.Minute + time.Second)
		if len(c.runs("b")) > 0 {
			t.Fatal("it has begun")
		}
		first.kill()
		c.until(time.Hour + 30*time.Minute)
		c.wantRows("b", "1h succeeded")
		c.wantTicks("c", "1h")
	})
}

// Ticks of a paused job are skipped, those that wait before the pause are held back,
// and it makes no difference whether the same replica leads.
func TestPipelineWithAPause(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %t", killed), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				first := c.watched(2, []jobs.Job{
					{Name: "a", Schedule: jobs.Every(time.Minute)},
					{Name: "b", Schedule: jobs.After("a"), Recover: jobs.RecoverRerun, Do: sleep(150 * time.Second)},
				})
				c.until(3*time.Minute + 10*time.Second) // b runs that of 1m, and those of 2m and 3m wait
				c.control(c.Pause, "b")
				c.until(5*time.Minute + 10*time.Second)
				if killed {
					first.kill()
					c.until(6*time.Minute + 10*time.Second)
				}
				c.control(c.Resume, "b")
				c.until(30 * time.Minute)
				rows := c.lines("b")
				want := []string{"1m succeeded", "2m succeeded", "3m succeeded", "4m skipped: paused", "5m skipped: paused"}
				if !slices.Equal(rows[:5], want) {
					t.Errorf("the ledger has\n%s", strings.Join(rows[:7], "\n"))
				}
			})
		})
	}
}

func (c *cluster) control(do func(context.Context, string) error, job string) {
	c.Helper()
	if err := do(c.Context(), job); err != nil {
		c.Fatal(err)
	}
}

// The line is bounded, and as many run at once as the job allows.
func TestPipelineLine(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{
			{Name: "a", Schedule: jobs.Manual()},
			{Name: "b", Schedule: jobs.After("a"), CatchUp: jobs.CatchUp{Limit: 3}, Do: sleep(time.Minute)},
			{Name: "d", Schedule: jobs.After("a"), Overlap: jobs.OverlapAllow, Limit: 2, Do: sleep(time.Minute)},
		})
		for range 6 {
			c.triggerWith("a", nil)
			time.Sleep(time.Second)
		}
		c.until(10 * time.Minute)
		skipped := 0
		for _, r := range c.records("b") {
			if r.State == jobs.Skipped && r.Error == "as many ticks as allowed wait already" {
				skipped++
			}
		}
		if ran := len(c.runs("b")); ran != 4 || skipped != 2 {
			t.Errorf("%d ran, %d were skipped; the ledger has\n%s", ran, skipped, c.rows("b"))
		}
		runs := c.runs("d")
		if len(runs) != 6 || runs[1].began-runs[0].began > 2*time.Second || runs[2].began-runs[0].began < 50*time.Second {
			t.Errorf("two at once: %+v", runs)
		}
	})
}

// Jobs that follow what is not there, or themselves, are refused, whatever the change.
func TestPipelinesAreChecked(t *testing.T) {
	inBubble(t, func(c *cluster) {
		do := func(context.Context, jobs.Run) error { return nil }
		job := func(name string, schedule jobs.Schedule) jobs.Job {
			return jobs.Job{Name: name, Schedule: schedule, Do: do}
		}
		r := c.start(nil)
		for i, step := range []struct {
			err  error
			want string
		}{
			{r.Add(job("b", jobs.After("a"))), `job "b" is due after "a", and there is no such job`},
			{r.Add(job("b", jobs.After("a")), jobs.Job{Name: "a", Schedule: jobs.Every(time.Hour), Everywhere: true, Do: do}), `job "b" is due after "a", which runs everywhere`},
			{r.Add(job("b", jobs.After("a")), job("a", jobs.After("b"))), "a after b after a"},
			{r.Add(job("b", jobs.After("a")), job("a", jobs.Every(time.Hour))), ""},
			{r.Add(job("c", jobs.After("b"))), ""},
			{r.Replace(job("a", jobs.After("c"))), "a after c after b after a"},
			{r.Remove("a"), `job "b" is due after "a"`},
			{r.Remove("a", "b", "c"), ""},
		} {
			if (step.err == nil) != (step.want == "") || step.err != nil && !strings.Contains(step.err.Error(), step.want) {
				t.Errorf("step %d: %v, want %q", i, step.err, step.want)
			}
		}
	})
}

// A job that comes while its parent runs follows that, too.
func TestPipelineThatIsAdded(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "a", Schedule: jobs.Every(time.Hour), Do: sleep(time.Minute)}})
		c.until(time.Hour + time.Second)
		if err := r.Add(jobs.Job{Name: "b", Schedule: jobs.After("a"), Do: func(_ context.Context, run jobs.Run) error { return r.run(c.Context(), run, nil) }}); err != nil {
			t.Fatal(err)
		}
		c.until(90 * time.Minute)
		c.wantRows("b", "1h succeeded")
		if err := r.Remove("b"); err != nil {
			t.Fatal(err)
		}
		c.until(3 * time.Hour)
		c.wantRows("b", "1h succeeded")
	})
}

// A tick that was claimed far in the future, under a wrong clock, and succeeded is passed
// over, and run again when it is due. Each of its successes is followed, along the chain.
func TestPipelineOfTickThatIsPassedOver(t *testing.T) {
	inBubble(t, func(c *cluster) {
		const wrong = 3 * time.Hour
		c.store.StepClock(wrong)
		r := c.startOn(wrongClock(wrong), pipeline(sleep(time.Second)))
		c.until(90 * time.Minute)
		again := c.known("a").Cursor
		c.store.StepClock(-wrong)
		r.link.set(wrongClock(0))
		c.until(6*time.Hour + time.Minute)
		want := c.ticksOf("a")
		if tick := short(again.Sub(c.begin)); len(slices.DeleteFunc(slices.Clone(want), func(x string) bool { return x != tick })) != 2 {
			t.Fatalf("a ran %q, want %s twice", want, tick)
		}
		for _, job := range []string{"b", "c", "d"} {
			c.wantTicks(job, want...)
		}
	})
}
