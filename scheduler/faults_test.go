package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// followed are jobs of every minute whose ticks the tests of faults follow.
func followed() []jobs.Job {
	return []jobs.Job{
		{Name: "all", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, Recover: jobs.RecoverRerun, Do: sleep(time.Second)},
		{Name: "once", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapQueue, Do: sleep(time.Second)},
		{Name: "delay", Schedule: jobs.FixedDelay(time.Minute), Do: sleep(time.Second)},
		{Name: "retried", Schedule: jobs.Every(time.Minute), Retry: exact(2, time.Second), Recover: jobs.RecoverRerun, Do: func(_ context.Context, run jobs.Run) error {
			if run.Attempt == 1 {
				return errWork
			}
			return nil
		}},
	}
}

// Statements that fail, and replies that are lost, delay a run and neither
// double nor lose it.
func TestLostStatementsAndReplies(t *testing.T) {
	for _, op := range []string{"Claim", "Move", "Declare", "Load", "Changes", "Prune"} {
		for _, kind := range []string{"fail", "lose"} {
			t.Run(op+"/"+kind, func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					r := c.start(followed())
					for c.until(30 * time.Second); time.Since(c.begin) < 10*time.Minute; time.Sleep(7 * time.Second) {
						r.link.set(func(l *link) {
							if kind == "fail" {
								l.fail[op] = 3
							} else {
								l.lose[op] = 3
							}
						})
					}
					c.until(10*time.Minute + 30*time.Second)
					for _, job := range []string{"all", "once", "retried"} {
						c.wantOnce(job, jobs.Every(time.Minute), 10*time.Minute)
					}
					if n := len(c.runs("delay")); n < 9 {
						t.Errorf("delay ran %d times", n)
					}
				})
			})
		}
	}
}

// The database is away for minutes, in the middle of claims, starts and ends:
// one replica alone leads on afterwards, and no tick is lost or doubled.
func TestDatabaseAway(t *testing.T) {
	for _, at := range []time.Duration{0, time.Millisecond, time.Second + time.Millisecond, 30 * time.Second} {
		for _, away := range []time.Duration{2 * time.Second, 12 * time.Second, 5 * time.Minute} {
			t.Run(at.String()+" "+away.String(), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					r := c.start(followed())
					for op, d := range map[string]time.Duration{"Claim": 2 * time.Millisecond, "Move": 2 * time.Millisecond} {
						r.link.set(func(l *link) { l.delay[op] = d })
					}
					c.until(3*time.Minute + at)
					r.link.set(func(l *link) { l.away = time.Now().Add(away) })
					c.until(15*time.Minute + 30*time.Second)
					c.wantOnce("all", jobs.Every(time.Minute), 15*time.Minute)
					c.wantOnce("once", jobs.Every(time.Minute), 15*time.Minute)
					c.wantOnce("retried", jobs.Every(time.Minute), 15*time.Minute)
				})
			})
		}
	}
}

// Whatever the database does at the end of a term, the term ends.
func TestEndOfTermWithoutADatabase(t *testing.T) {
	for name, spoil := range map[string]func(*link){
		"away": func(l *link) { l.cut = true },
		"slow": func(l *link) {
			l.delay = map[string]time.Duration{"Claim": time.Hour, "Move": time.Hour, "Changes": time.Hour}
		},
		"unclear": func(l *link) { l.lose = map[string]int{"Claim": 1e9, "Move": 1e9} },
	} {
		for _, at := range []time.Duration{59900 * time.Millisecond, 60*time.Second - 1, 60*time.Second + 1, 61 * time.Second} {
			t.Run(name+" "+at.String(), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					r := c.start(followed())
					c.until(at)
					r.link.set(spoil)
					c.until(at + 200*time.Millisecond)
					begin := time.Now()
					r.stop()
					if took := time.Since(begin); took > 10*time.Second {
						t.Errorf("stopped after %v", took)
					}
					c.start(followed())
					c.until(5 * time.Minute)
					c.wantOnce("all", jobs.Every(time.Minute), 4*time.Minute)
					c.wantOnce("retried", jobs.Every(time.Minute), 4*time.Minute)
				})
			})
		}
	}
}

// A job has one claim under way at a time, however long it takes; ticks that became
// due meanwhile are then claimed at once.
func TestClaimsOfAJobAreInOrder(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Second), Overlap: jobs.OverlapAllow}})
		r.link.set(func(l *link) { l.hold["Claim"] = 2500 * time.Millisecond })
		c.until(1100 * time.Millisecond)
		r.link.set(func(l *link) { clear(l.hold) })
		c.until(5 * time.Second)
		c.wantRows("job", "1s succeeded", "3s succeeded, missed 1", "4s succeeded", "5s succeeded")
		c.wantBegan("job", 3500*time.Millisecond, 3500*time.Millisecond, 4*time.Second, 5*time.Second)
	})
}

// Claims that were not sent when the term ends are not sent any more.
func TestNothingIsClaimedAfterTheTerm(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var declared []jobs.Job
		for i := range 3000 {
			declared = append(declared, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Minute)})
		}
		r := c.start(declared)
		r.link.set(func(l *link) { l.hold["Claim"] = time.Second })
		c.until(time.Minute + 100*time.Millisecond)
		r.stop()
		records, err := c.Runs(t.Context(), jobs.Filter{Limit: 5000})
		if err != nil || len(records) == 0 || len(records) > 1500 {
			t.Errorf("%d rows, %v", len(records), err)
		}
		for _, record := range records {
			if record.State != jobs.Waiting {
				t.Fatalf("%+v", record)
			}
		}
	})
}

// A replica has no statement under way any more once it has stopped.
func TestStopWaitsForStatements(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(followed())
		r.link.set(func(l *link) { l.stubborn = 3 * time.Second })
		c.until(65500 * time.Millisecond)
		r.stop()
		r.link.set(func(l *link) {
			if l.underWay > 0 {
				t.Errorf("%d statements are under way", l.underWay)
			}
		})
	})
}

// A claim whose answer comes after the term, or after the start deadline, starts
// nothing.
func TestLateAnswerToAClaim(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "late", Schedule: jobs.At(c.begin.Add(time.Minute)), CatchUp: jobs.CatchUp{Deadline: time.Second}},
			{Name: "over", Schedule: jobs.At(c.begin.Add(2 * time.Minute)), Recover: jobs.RecoverRerun},
		})
		r.link.set(func(l *link) { l.delay["Claim"] = 1100 * time.Millisecond })
		c.until(119 * time.Second)
		c.wantRows("late", "1m skipped: too late to start")
		c.until(2*time.Minute + 500*time.Millisecond)
		r.stop()
		c.wantRows("over", "2m waiting")
		if len(c.ran) > 0 {
			t.Errorf("ran %+v", c.ran)
		}
	})
}

// wantOnce reports ticks of a job, up to so long after the begin, that have no
// row and are not counted, and those that ran twice in one attempt.
func (c *cluster) wantOnce(job string, schedule jobs.Schedule, until time.Duration) {
	c.Helper()
	stood := map[time.Time]int{} // how often a tick has a row, or is counted
	for _, r := range c.records(job) {
		tick := r.Tick
		for range r.Missed + 1 {
			stood[tick]++
			tick = schedule.(jobs.Backward).Prev(tick)
		}
	}
	for tick := schedule.Next(c.begin); !tick.After(c.begin.Add(until)); tick = schedule.Next(tick) {
		if stood[tick] != 1 {
			c.Errorf("%s: the tick of %v stands in %d rows", job, tick.Sub(c.begin), stood[tick])
		}
	}
	type attempt struct {
		jobs.Key
		n int
	}
	began := map[attempt]int{}
	for _, r := range c.runs(job) {
		a := attempt{r.Key(), r.Attempt}
		if began[a]++; began[a] == 2 {
			c.Errorf("%s: attempt %d of %v ran twice", job, r.Attempt, r.Tick.Sub(c.begin))
		}
	}
}

// One line tells of all outcomes that could not be written, however many statements were to write them.
func TestUnwrittenOutcomesAreOneLine(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		var declared []jobs.Job
		for n := range 6 {
			declared = append(declared, jobs.Job{Name: fmt.Sprint("job", n), Schedule: jobs.Every(time.Hour), Do: lasting(time.Duration(n+1) * 700 * time.Millisecond)})
		}
		r := c.start(declared, log)
		c.until(time.Hour + 100*time.Millisecond)
		r.link.set(func(l *link) { l.hold["Move"] = time.Hour })
		c.until(time.Hour + 10*time.Second)
		r.link.set(func(l *link) { l.cut = true })
		c.until(time.Hour + 5*time.Minute)
		lines := logs.FilterMessageSnippet("outcomes could not be written").All()
		if len(lines) != 1 || lines[0].ContextMap()["runs"] != int64(6) {
			t.Errorf("want one line of 6 runs: %v", lines)
		}
	})
}

// It does not wait for a run that ignores its end.
func TestUnwrittenOutcomeIsTold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		free := make(chan struct{})
		r := c.start([]jobs.Job{
			{Name: "job", Schedule: jobs.Every(time.Hour), Do: lasting(time.Second)},
			{Name: "deaf", Schedule: jobs.Every(time.Hour), Do: deaf(free)},
		}, log)
		c.until(time.Hour + 100*time.Millisecond)
		r.link.set(func(l *link) { l.cut = true })
		c.until(time.Hour + 5*time.Minute)
		if n := logs.FilterMessageSnippet("outcomes could not be written").Len(); n != 1 {
			t.Errorf("%d lines, want one", n)
		}
		close(free)
		c.until(time.Hour + 6*time.Minute)
	})
}

// An outcome that the ledger refuses is said: another replica has the run.
func TestRefusedOutcomeIsTold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: lasting(10 * time.Second)}}, log)
		c.until(65 * time.Second)
		r.link.set(func(l *link) { l.gone = jobs.Key{Job: "job", Tick: c.begin.Add(time.Minute).UTC()} })
		c.until(150 * time.Second)
		if n := logs.FilterMessageSnippet("refused the run's outcome").Len(); n != 1 {
			t.Errorf("%d lines, want one", n)
		}
	})
}

// The outcomes of runs wait while ticks are being claimed, so that starts go first, but not for long.
func TestStartsGoFirst(t *testing.T) {
	inBubble(t, func(c *cluster) {
		const ends = 15 * time.Second
		declared := []jobs.Job{{Name: "job", Schedule: jobs.At(c.begin.Add(10 * time.Second)), Do: lasting(ends - 10*time.Second)}}
		for i := range 40 { // as long as these come, a claim is under way
			at := c.begin.Add(ends - time.Second + time.Duration(i)*100*time.Millisecond)
			declared = append(declared, jobs.Job{Name: fmt.Sprint("other-", i), Schedule: jobs.At(at), Do: lasting(time.Hour)})
		}
		r := c.start(declared)
		c.until(11 * time.Second)
		r.link.set(func(l *link) { l.delay["Claim"] = 250 * time.Millisecond })
		c.until(ends + 150*time.Millisecond)
		c.wantRows("job", "10s running")
		c.until(ends + 350*time.Millisecond)
		c.wantRows("job", "10s succeeded")
	})
}
