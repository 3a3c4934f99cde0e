package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// crowd are jobs of every minute, of which some are refused.
func crowd(refused int) []jobs.Job {
	var all []jobs.Job
	for i := range 300 {
		name := fmt.Sprint("job-", i)
		if i%7 == 3 && i/7 < refused {
			name = fmt.Sprint("refused-", i)
		}
		all = append(all, jobs.Job{Name: name, Schedule: jobs.Every(time.Minute)})
	}
	return all
}

const asideLine = "does not take a row"

// Jobs whose claims the database refuses hold up no others. Each is named once in
// the log and in the health, and goes on once the database accepts its rows.
func TestRefusedClaims(t *testing.T) {
	for _, refused := range []int{1, 5, 40} {
		t.Run(fmt.Sprint(refused), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				core, log := observer.New(zap.InfoLevel)
				r := c.start(crowd(refused), scheduler.WithLogger(zap.New(core)))
				r.link.set(func(l *link) { l.refused, l.refusedOps = "refused-", "Claim" })
				c.until(4*time.Minute + 30*time.Second)
				latest := time.Duration(0)
				for i := range 300 {
					runs := c.runs(fmt.Sprint("job-", i))
					if len(runs) == 0 {
						continue
					}
					if len(runs) != 4 {
						t.Errorf("job-%d ran %d times", i, len(runs))
					}
					for at, run := range runs {
						latest = max(latest, run.began-time.Duration(at+1)*time.Minute)
						if late := run.began - time.Duration(at+1)*time.Minute; at > 0 && late > 0 {
							t.Errorf("job-%d began %v late although the others are known", i, late)
						}
					}
				}
				if latest > 2*time.Second {
					t.Errorf("another job began %v late", latest)
				}
				if n := len(c.runs("refused-3")); n > 0 {
					t.Errorf("the refused job ran %d times", n)
				}
				if n := log.FilterMessageSnippet(asideLine).Len(); n != refused {
					t.Errorf("%d lines for %d jobs", n, refused)
				}
				if h := r.Health(); !errors.Is(h.Leader, scheduler.ErrNotFiring) || !errors.Is(h.Leader, errRefused) || h.Database != nil || h.Stuck != nil {
					t.Errorf("health %+v", h)
				}
				r.link.set(func(l *link) { l.refused = "" })
				c.until(4*time.Minute + 50*time.Second)
				if h := r.Health(); h.Err() != nil {
					t.Errorf("health %+v", h)
				}
				c.wantRows("refused-3", "1m succeeded", "4m skipped, missed 2: "+busy)
			})
		})
	}
}

// The same for outcomes: the refused job's next ticks delay no others.
func TestRefusedMoves(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, log := observer.New(zap.InfoLevel)
		r := c.start(crowd(3), scheduler.WithLogger(zap.New(core)))
		r.link.set(func(l *link) { l.refused, l.refusedOps = "refused-", "Move" })
		c.until(4*time.Minute + 30*time.Second)
		c.wantRows("job-0", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded")
		c.wantRows("refused-3", "1m running", "2m running", "3m running", "4m running")
		if n := log.FilterMessageSnippet(asideLine).Len(); n != 3 {
			t.Errorf("%d lines for 3 jobs", n)
		}
		if h := r.Health(); h.Err() != nil {
			t.Errorf("health %+v", h)
		}
		r.link.set(func(l *link) { l.refused = "" })
		c.until(4*time.Minute + 55*time.Second)
		c.wantRows("refused-3", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded")
		if n := log.FilterMessageSnippet("takes the rows of this job again").Len(); n != 3 {
			t.Errorf("%d jobs go on", n)
		}
	})
}

// After an outage all are written together again.
func TestOutageSetsNothingAside(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, log := observer.New(zap.InfoLevel)
		r := c.start(crowd(0), scheduler.WithLogger(zap.New(core)))
		c.until(59 * time.Second)
		r.link.set(func(l *link) { l.fail = map[string]int{"Claim": 1e9} })
		c.until(5*time.Minute + 30*time.Second)
		before := 0
		r.link.set(func(l *link) { l.fail, before = map[string]int{}, l.sent["Claim"] })
		if before > 1200 {
			t.Errorf("%d statements in an outage of 270 s", before)
		}
		c.until(5*time.Minute + 33*time.Second)
		for i := range 300 {
			c.wantRows(fmt.Sprint("job-", i), "1m succeeded", "5m skipped, missed 3: "+busy)
		}
		r.link.set(func(l *link) {
			if n := l.sent["Claim"] - before; n > 40 {
				t.Errorf("%d statements for 300 claims", n)
			}
		})
		if n := log.FilterMessageSnippet(asideLine).Len(); n > 0 {
			t.Errorf("%d jobs were set aside", n)
		}
	})
}

// A server at the limit of its memory refuses some statements and takes others. No row is to blame.
func TestFullServerSetsNothingAside(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, log := observer.New(zap.InfoLevel)
		var declared []jobs.Job
		for i := range 10 {
			declared = append(declared, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Second), Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow})
		}
		r := c.start(declared, scheduler.WithLogger(zap.New(core)))
		c.until(5*time.Second + 500*time.Millisecond)
		r.link.set(func(l *link) { l.full = true })
		c.until(65*time.Second + 500*time.Millisecond)
		r.link.set(func(l *link) { l.full = false })
		c.until(70*time.Second + 500*time.Millisecond)
		for i := range 10 {
			if n := len(c.runs(fmt.Sprint("job-", i))); n != 70 {
				t.Errorf("job-%d ran %d times, want 70", i, n)
			}
		}
		if n := log.FilterMessageSnippet(asideLine).Len(); n > 0 {
			t.Errorf("%d jobs were set aside", n)
		}
		if n := log.FilterLevelExact(zap.WarnLevel).Len(); n > 15 {
			t.Errorf("%d warnings in a minute", n)
		}
	})
}

// A term with a refused job ends without waiting for it.
func TestRefusedJobAtTheEnd(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(crowd(2))
		r.link.set(func(l *link) { l.refused, l.refusedOps = "refused-", "Claim" })
		c.until(90 * time.Second)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopped after %v", took)
		}
	})
}

// A row that the database does not take keeps no other end of its job from being written.
func TestRefusedRowOfRunsThatOverlap(t *testing.T) {
	const runs = 50
	for _, others := range []bool{true, false} {
		for _, at := range []int{0, 1, 20, runs - 1} { // 1 is the first of those that go together
			t.Run(fmt.Sprintf("number %d, other jobs %t", at, others), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					declared := []jobs.Job{
						{Name: "tell", Schedule: jobs.OnFailure().OnRecovery().AtMost(0, 0)},
						{Name: "a", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, Do: func(ctx context.Context, run jobs.Run) error {
							ends := c.begin.Add(time.Minute + time.Duration(run.Trigger)*time.Millisecond)
							if err := sleep(time.Until(ends))(ctx, run); err != nil || run.Trigger%2 == 0 {
								return err
							}
							return errNo
						}},
					}
					if others {
						declared = append(declared, jobs.Job{Name: "other", Schedule: jobs.Every(time.Second), History: jobs.History{Keep: 3}})
					}
					r := c.start(declared)
					var keys []jobs.Key
					for range runs {
						key, err := c.Trigger(c.Context(), "a")
						if err != nil {
							t.Fatal(err)
						}
						keys = append(keys, key)
					}
					c.until(59 * time.Second)
					r.link.set(func(l *link) {
						l.refusedKey = keys[at]
						l.hold["Move"] = 100 * time.Millisecond // so that the others wait for the first
					})
					c.until(80 * time.Second)
					open := func() (n int) {
						for _, r := range c.records("a") {
							if !r.State.Over() {
								n++
							}
						}
						return n
					}
					// Without other jobs, nothing says that a row is to blame that goes alone.
					if n := open(); n != 1 && others {
						t.Errorf("%d are not written", n)
					}
					began := time.Now()
					r.stop()
					if took := time.Since(began); others && took > time.Second {
						t.Errorf("stopped after %v", took)
					}
					if n := open(); n != 1 {
						t.Errorf("%d are not written at the end", n)
					}
				})
			})
		}
	}
}

// Once a row that was set aside is taken, what it says of its job counts only if no later end
// is written.
func TestRefusedRowSaysNothingLate(t *testing.T) {
	for _, later := range []bool{true, false} {
		t.Run(fmt.Sprint(later), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				r := c.start([]jobs.Job{
					{Name: "tell", Schedule: jobs.OnFailure().OnRecovery()},
					{Name: "a", Schedule: jobs.Every(time.Minute), Do: c.failing(time.Minute)},
					{Name: "other", Schedule: jobs.Every(time.Second), History: jobs.History{Keep: 3}},
				})
				r.link.set(func(l *link) { l.refusedKey = jobs.Key{Job: "a", Tick: c.begin.Add(time.Minute).UTC()} })
				c.until(90 * time.Second)
				if later {
					c.until(150 * time.Second)
					c.wantNotices("tell", "recovery of a 2m")
				}
				r.link.set(func(l *link) { l.refusedKey = jobs.Key{} })
				c.until(time.Since(c.begin) + 10*time.Second)
				r.kill()
				c.start([]jobs.Job{
					{Name: "tell", Schedule: jobs.OnFailure().OnRecovery()},
					{Name: "a", Schedule: jobs.Every(time.Minute)},
				})
				c.until(10 * time.Minute)
				c.wantNotices("tell", "failure of a 1m", "recovery of a 2m")
			})
		})
	}
}

// A row that the database does not take keeps no slot of the replica: neither the claim of a tick nor the start of
// a run that waited.
func TestRefusedRowKeepsNoSlot(t *testing.T) {
	for _, op := range []string{"Claim", "Move"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				runs, most := 0, 0
				work := func(_ context.Context, run jobs.Run) error {
					runs++
					most = max(most, runs)
					time.Sleep(20 * time.Second)
					runs--
					return nil
				}
				every := func(name string) jobs.Job {
					return jobs.Job{Name: name, Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, Do: work}
				}
				r := c.start([]jobs.Job{every("a"), every("refused-b"), every("c")}, scheduler.WithMaxRuns(1), scheduler.WithDrain(time.Hour))
				r.link.set(func(l *link) { l.refused, l.refusedOps = "refused-", op })
				c.until(3*time.Minute + 55*time.Second)
				for _, job := range []string{"a", "c"} {
					c.wantRows(job, "1m succeeded", "2m succeeded", "3m succeeded")
				}
				r.link.set(func(l *link) { l.refused = "" })
				c.until(6*time.Minute + 10*time.Second)
				if n := len(c.runs("refused-b")); n == 0 || most > 1 {
					t.Errorf("the refused job ran %d times, and %d at a time", n, most)
				}
				r.link.set(func(l *link) { l.refused = "refused-" })
				c.until(9*time.Minute + 59*time.Second)
				began := time.Now()
				r.stop()
				if took := time.Since(began); took > 25*time.Second {
					t.Errorf("stopped after %v", took)
				}
			})
		})
	}
}

// The deadline of a tick that waited holds until it starts, also if the answer to its start is long in coming.
func TestDeadlineOfAStartWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "a", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapQueue, CatchUp: jobs.CatchUp{Deadline: 20 * time.Second}, Do: sleep(70 * time.Second)},
		})
		c.until(2*time.Minute + 5*time.Second) // the first run ends at 2m10s, and the tick of 2m waits
		r.link.set(func(l *link) { l.fail["Move"] = 1e9 })
		c.until(2*time.Minute + 30*time.Second)
		r.link.set(func(l *link) { l.fail["Move"] = 0 })
		c.until(2*time.Minute + 50*time.Second)
		c.wantRows("a", "1m succeeded", "2m skipped: too late to start")
	})
}
