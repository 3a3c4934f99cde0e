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

func (c *cluster) backfill(job string, b jobs.Backfill) jobs.Backfilled {
	c.Helper()
	done, err := c.Backfill(c.Context(), job, b)
	if err != nil {
		c.Fatal(err)
	}
	return done
}

// hours are the ticks of a backfill that ran, in hours since the begin, and when.
func (c *cluster) hours(job string, id uint64) (ticks []int, began []time.Duration) {
	for _, r := range c.runs(job) {
		if r.Trigger == id {
			ticks, began = append(ticks, int(r.Tick.Sub(c.begin)/time.Hour)), append(began, r.began)
		}
	}
	return ticks, began
}

// Each tick of the past runs once, in order, with the arguments, one after the other;
// the schedule goes on, and loses no tick.
func TestBackfill(t *testing.T) {
	for _, overlap := range jobs.Overlaps() {
		t.Run(overlap.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.start([]jobs.Job{
					{Name: "job", Schedule: jobs.Every(time.Hour), Overlap: overlap, Do: sleep(25 * time.Minute)},
					{Name: "next", Schedule: jobs.After("job")},
				})
				c.until(10*time.Hour + 30*time.Minute)
				cursor := c.known("job").Cursor
				done := c.backfill("job", jobs.Backfill{From: c.begin.Add(2 * time.Hour), To: c.begin.Add(8 * time.Hour), Args: 7})
				if len(done.Ticks) != 6 {
					t.Fatalf("%+v", done)
				}
				again := c.backfill("job", jobs.Backfill{From: c.begin.Add(2 * time.Hour), To: c.begin.Add(8 * time.Hour), ID: done.ID})
				if again.ID != done.ID || !c.known("job").Cursor.Equal(cursor) {
					t.Errorf("%+v, cursor %v", again, c.known("job").Cursor)
				}
				c.until(16*time.Hour + 45*time.Minute)
				ticks, began := c.hours("job", done.ID)
				if !slices.Equal(ticks, []int{2, 3, 4, 5, 6, 7}) {
					t.Errorf("ran %v at %v; the ledger has\n%s", ticks, began, c.rows("job"))
				}
				regular := 0
				for _, r := range c.records("job") {
					if r.State != jobs.Succeeded {
						t.Errorf("the ledger has\n%s", c.rows("job"))
					}
					if r.Trigger == 0 {
						regular++
					}
				}
				if n := len(c.runs("next")); regular != 16 || n != 22 {
					t.Errorf("%d ticks of the schedule, %d runs after; the ledger has\n%s", regular, n, c.rows("job"))
				}
				for _, r := range c.runs("job") {
					if (string(r.Args) == "7") != (r.Trigger == done.ID) {
						t.Errorf("%+v", r)
					}
				}
				most := 25 * time.Minute // that two of the job run at once
				if overlap != jobs.OverlapAllow {
					most = 0
				}
				if c.overlap("job") > most {
					t.Errorf("two at once for %v", c.overlap("job"))
				}
			})
		})
	}
}

func (c *cluster) known(job string) jobs.Known {
	c.Helper()
	s, err := c.Load(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return s.Jobs[job]
}

// A backfill keeps its distance, goes on after failures, waits while its job is paused,
// and survives takeovers.
func TestBackfillEvery(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: func(ctx context.Context, run jobs.Run) error {
			if run.Trigger > 0 && run.Tick.Sub(c.begin) == 2*time.Hour {
				return errors.New("no")
			}
			return sleep(5*time.Second)(ctx, run)
		}}}
		first := c.watched(2, all)
		c.until(20*time.Hour + 30*time.Minute)
		done := c.backfill("job", jobs.Backfill{From: c.begin, To: c.begin.Add(10*time.Hour + time.Second), Every: 10 * time.Second})
		c.until(20*time.Hour + 30*time.Minute + 25*time.Second)
		c.control(c.Pause, "job")
		c.until(20*time.Hour + 31*time.Minute)
		if ticks, began := c.hours("job", done.ID); len(ticks) != 3 || began[2]-began[1] != 10*time.Second {
			t.Errorf("ran %v at %v", ticks, began)
		}
		c.control(c.Resume, "job")
		c.until(20*time.Hour + 31*time.Minute + 22*time.Second)
		first.kill()
		c.until(20*time.Hour + 40*time.Minute)
		ticks, began := c.hours("job", done.ID)
		if !slices.Equal(ticks, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
			t.Errorf("ran %v at %v; the ledger has\n%s", ticks, began, c.rows("job"))
		}
		for i := range began[1:] {
			if began[i+1]-began[i] < 10*time.Second-time.Millisecond {
				t.Errorf("began at %v", began)
			}
		}
	})
}

// Wherever the leader dies, and whichever answers are lost, each tick has one run, and
// none begins twice that is not run again.
func TestBackfillOverTakeovers(t *testing.T) {
	for name, at := range map[string]func(*link){
		"nothing is recorded": func(l *link) { l.fail["Move"] = 1e6 },
		"an answer is lost":   func(l *link) { l.lose["Move"] = 1 },
		"all answers are":     func(l *link) { l.lose["Move"] = 1e6 },
	} {
		for _, after := range []time.Duration{0, 3 * time.Second, 11 * time.Second} {
			t.Run(fmt.Sprintf("%s, killed after %v", name, after), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					all := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: sleep(3 * time.Second)}}
					first := c.watched(3, all)
					c.until(10*time.Hour + 10*time.Minute)
					done := c.backfill("job", jobs.Backfill{From: c.begin, To: c.begin.Add(10 * time.Hour)})
					c.until(10*time.Hour + 10*time.Minute + 8*time.Second)
					first.link.set(at)
					time.Sleep(after)
					first.kill()
					c.until(10*time.Hour + 20*time.Minute)
					var ticks []int
					for _, r := range c.records("job") {
						if r.Trigger == done.ID {
							ticks = append(ticks, int(r.Tick.Sub(c.begin)/time.Hour))
							if !r.State.Over() {
								t.Errorf("not over: %+v", r)
							}
						}
					}
					if !slices.Equal(ticks, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
						t.Errorf("the ledger has\n%s", c.rows("job"))
					}
					began, _ := c.hours("job", done.ID)
					if slices.Sort(began); len(slices.Compact(slices.Clone(began))) != len(began) {
						t.Errorf("began %v", began)
					}
				})
			})
		}
	}
}

// To cancel a backfill ends it, whether a run of it goes on or waits.
func TestCancelBackfill(t *testing.T) {
	for _, every := range []time.Duration{0, time.Minute} {
		t.Run(every.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: sleep(3 * time.Second)}})
				c.until(10*time.Hour + 10*time.Minute)
				done := c.backfill("job", jobs.Backfill{From: c.begin, Every: every})
				time.Sleep(10 * time.Second)
				if n, err := c.CancelBackfills(c.Context(), "job"); n != 1 || err != nil {
					t.Errorf("cancelled %d, %v", n, err)
				}
				c.until(10*time.Hour + 50*time.Minute)
				ticks, _ := c.hours("job", done.ID)
				if n, err := c.CancelBackfills(c.Context(), "job"); n != 0 || err != nil {
					t.Errorf("cancelled %d, %v", n, err)
				}
				if s, _ := c.Load(t.Context()); len(s.Open) > 0 || len(ticks) > 4 || len(ticks) == 0 {
					t.Errorf("ran %v, open %v", ticks, s.Open)
				}
			})
		})
	}
}

// What cannot be backfilled is refused, with the reason.
func TestBackfillIsRefused(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{
			{Name: "second", Schedule: jobs.Every(time.Second)}, {Name: "after", Schedule: jobs.After("rate")}, {Name: "manual", Schedule: jobs.Manual()},
			{Name: "delay", Schedule: jobs.FixedDelay(time.Minute)}, {Name: "rate", Schedule: jobs.FixedRate(time.Minute)},
		})
		c.until(3 * time.Hour)
		day := jobs.Backfill{From: c.begin}
		for want, refused := range map[string]struct {
			job string
			jobs.Backfill
		}{
			"more than 10000 ticks":    {"second", day},
			"due after rate":           {"after", day},
			"only run by hand":         {"manual", day},
			"depend on when its runs":  {"delay", day},
			"no such job":              {"none", day},
			"Z: the end must be later": {"second", jobs.Backfill{From: c.begin, To: c.begin}},
			"only ticks that are past": {"second", jobs.Backfill{From: c.begin, To: c.begin.Add(24 * time.Hour)}},
			"must be from 0 to":        {"rate", jobs.Backfill{From: c.begin, Every: -1}},
			"not the ID of a backfill": {"rate", jobs.Backfill{From: c.begin, ID: 7}},
		} {
			if _, err := c.Backfill(c.Context(), refused.job, refused.Backfill); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", refused.job, err, want)
			}
		}
		if done, err := c.PlanBackfill(c.Context(), "rate", day); err != nil || len(done.Ticks) != 180 {
			t.Errorf("%d ticks, %v", len(done.Ticks), err)
		}
	})
}

// A job has one run of a backfill at a time, however many it allows and however many
// backfills there are.
func TestTwoBackfills(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Overlap: jobs.OverlapAllow, Do: sleep(time.Minute)}})
		c.until(3*time.Hour + 10*time.Minute)
		one := c.backfill("job", jobs.Backfill{From: c.begin})
		other := c.backfill("job", jobs.Backfill{From: c.begin})
		c.until(3*time.Hour + 30*time.Minute)
		for _, id := range []uint64{one.ID, other.ID} {
			if ticks, began := c.hours("job", id); !slices.Equal(ticks, []int{0, 1, 2, 3}) {
				t.Errorf("ran %v at %v", ticks, began)
			}
		}
		if c.overlap("job") > 0 {
			t.Errorf("two at once for %v", c.overlap("job"))
		}
	})
}

// A job with a backfill is removed while a run of it goes on, and comes back before that
// has ended. Whatever is asked of the leader meanwhile, the backfill goes on.
func TestBackfillOfJobThatComesBack(t *testing.T) {
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprint("something is asked meanwhile: ", asked), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Do: lasting(50 * time.Minute)}
				r := c.start([]jobs.Job{job, {Name: "other", Schedule: jobs.Every(24 * time.Hour)}})
				c.until(5*time.Hour + 5*time.Minute)
				done := c.backfill("job", jobs.Backfill{From: c.begin.Add(2 * time.Hour), To: c.begin.Add(4 * time.Hour)})
				c.until(5*time.Hour + 6*time.Minute)
				check(t, r.Remove("job"))
				c.until(5*time.Hour + 7*time.Minute)
				if asked {
					check(t, c.Pause(t.Context(), "other"))
				}
				c.until(5*time.Hour + 8*time.Minute)
				check(t, r.Add(r.doing(job)...))
				c.until(9 * time.Hour)
				if ticks, began := c.hours("job", done.ID); !slices.Equal(ticks, []int{2, 3}) {
					t.Errorf("ran %v at %v; the ledger has\n%s", ticks, began, c.rows("job"))
				}
			})
		})
	}
}

// A request that is repeated with its ID changes nothing, also when the first runs, or
// all of them, have been pruned. Soon after the request none of them has.
func TestBackfillRequestedAgain(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapAllow, History: jobs.History{Keep: 2}, Do: sleep(2 * time.Second)}})
		c.until(5*time.Hour + 30*time.Second)
		from, to := c.begin.Add(2*time.Minute), c.begin.Add(12*time.Minute)
		// 240 runs in eight minutes: more than after which a leader prunes.
		short := c.backfill("job", jobs.Backfill{From: from, To: c.begin.Add(242 * time.Minute)})
		long := c.backfill("job", jobs.Backfill{From: from, To: to, Every: 20 * time.Minute})
		again := func(d jobs.Backfilled) error {
			_, err := c.Backfill(c.Context(), "job", jobs.Backfill{ID: d.ID, From: from, To: to})
			return err
		}
		isOf := func(d jobs.Backfilled) func(jobs.Record) bool {
			return func(r jobs.Record) bool { return r.Trigger == d.ID && r.State.Over() && r.Tick.Equal(from) }
		}
		c.until(5*time.Hour + 9*time.Minute + 30*time.Second)
		check(t, again(short))
		if !slices.ContainsFunc(c.records("job"), isOf(short)) {
			t.Errorf("its runs were pruned; the ledger has\n%s", c.rows("job"))
		}
		c.until(7*time.Hour + 30*time.Minute)
		check(t, again(long))
		if slices.ContainsFunc(c.records("job"), isOf(long)) {
			t.Errorf("its first run is still there; the ledger has\n%s", c.rows("job"))
		}
		c.until(12 * time.Hour)
		for _, d := range []jobs.Backfilled{short, long} {
			if err := again(d); err == nil || !strings.Contains(err.Error(), "may have been pruned") {
				t.Errorf("got %v", err)
			}
		}
		c.until(13 * time.Hour)
		for d, want := range map[uint64]int{short.ID: 240, long.ID: 10} {
			if ticks, _ := c.hours("job", d); len(ticks) != want {
				t.Errorf("ran %d ticks, want %d", len(ticks), want)
			}
		}
	})
}

// A retry that waits for its time holds up no backfill: of a job that fails again and again, one always waits.
func TestBackfillBesideRetries(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Overlap: jobs.OverlapAllow, Retry: exact(2, 90*time.Minute), Do: failing(1000)}})
		c.until(10*time.Hour + 5*time.Minute)
		done := c.backfill("job", jobs.Backfill{From: c.begin.Add(2 * time.Hour), To: c.begin.Add(6 * time.Hour)})
		c.until(17*time.Hour + 5*time.Minute)
		if ticks, began := c.hours("job", done.ID); !slices.Equal(ticks, []int{2, 2, 3, 3, 4, 4, 5, 5}) {
			t.Errorf("ran %v at %v; the ledger has\n%s", ticks, began, c.rows("job"))
		}
	})
}

// A tick that is due while a run of a backfill has the job locked waits for it: it is not skipped.
func TestBackfillAndLockAtLeastFor(t *testing.T) {
	for _, overlap := range jobs.Overlaps() {
		t.Run(overlap.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: overlap, LockAtLeastFor: 45 * time.Second, Do: sleep(time.Second)}})
				c.until(10*time.Minute + 50*time.Second)
				c.backfill("job", jobs.Backfill{From: c.begin.Add(2 * time.Minute), To: c.begin.Add(3 * time.Minute)})
				c.until(11*time.Minute + 50*time.Second)
				for _, r := range c.records("job") {
					if r.State != jobs.Succeeded {
						t.Errorf("the tick of %v is %v: %s", r.Tick.Sub(c.begin), r.State, r.Error)
					}
				}
			})
		})
	}
}

// What is due of the schedule goes before a backfill also where a term finds both: a run that was interrupted or handed on,
// and a tick that nobody has claimed yet.
func TestBackfillBehindWhatATermFinds(t *testing.T) {
	for _, overlap := range []jobs.Overlap{jobs.OverlapForbid, jobs.OverlapQueue, jobs.OverlapReplace} {
		for name, end := range map[string]func(*replica){"stopped": (*replica).stop, "killed": (*replica).kill} {
			t.Run(fmt.Sprint(overlap, ", ", name), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					job := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Overlap: overlap, Recover: jobs.RecoverRerun, Do: sleep(40 * time.Minute)}}
					first := c.start(job)
					c.start(job)
					c.until(4*time.Hour + time.Minute) // the tick of 4h runs
					done := c.backfill("job", jobs.Backfill{From: c.begin.Add(30 * time.Minute), To: c.begin.Add(150 * time.Minute)})
					c.until(4*time.Hour + 2*time.Minute)
					end(first)
					c.until(4*time.Hour + 50*time.Minute)
					if began := c.runs("job")[4].began; c.runs("job")[4].Trigger != 0 || began > 4*time.Hour+2*time.Minute+ttl {
						t.Errorf("the tick of 4h began again at %v; the ledger has\n%s", began, c.rows("job"))
					}
					if _, began := c.hours("job", done.ID); len(began) != 1 || began[0] != c.runs("job")[4].ended {
						t.Errorf("the backfill began at %v; the ledger has\n%s", began, c.rows("job"))
					}
				})
			})
		}
	}
	t.Run("a missed tick", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			job := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: sleep(10 * time.Minute)}}
			first := c.start(job)
			c.until(4*time.Hour + time.Minute)
			done := c.backfill("job", jobs.Backfill{From: c.begin.Add(30 * time.Minute), To: c.begin.Add(150 * time.Minute), Every: 48 * time.Minute})
			c.until(4*time.Hour + 55*time.Minute) // its second run is due at 4h58m
			first.stop()
			c.until(5*time.Hour + time.Minute)
			c.start(job)
			c.until(5*time.Hour + 30*time.Minute)
			c.wantRows("job", "1h succeeded", "1h succeeded", "2h succeeded", "2h succeeded", "3h succeeded", "4h succeeded", "5h succeeded")
			if _, began := c.hours("job", done.ID); !slices.Equal(began, []time.Duration{4*time.Hour + 10*time.Minute, 5*time.Hour + 11*time.Minute}) {
				t.Errorf("the backfill began at %v", began)
			}
		})
	})
}
