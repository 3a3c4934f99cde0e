package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// failOver makes another server answer, which is as restore leaves it, but for the rows of
// the lease: as if the holder's heartbeats had come as far as that server, and its claims had not.
func (c *cluster) failOver(restore func()) {
	c.Helper()
	var row store.Lease
	var fence store.Fence
	c.store.Update("g", func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
		row, fence = *l, *f
		return l, f
	})
	restore()
	c.store.Restart()
	c.store.Update("g", func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return &row, &fence })
}

// noteLost keeps what a replica says to be lost.
func noteLost(lost *[]event.WritesLost) scheduler.Option {
	return scheduler.WithEvents(func(e event.Event) {
		if e, ok := e.(event.WritesLost); ok {
			*lost = append(*lost, e)
		}
	})
}

// A leader is cut off while a failover loses its last ticks, and back once another one has decided about them again: it tells of them.
func TestLostWhileCutOff(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var lost []event.WritesLost
		list := []jobs.Job{{Name: "all", Schedule: jobs.Every(time.Second), Misfire: jobs.MisfireAll}}
		first := c.start(list, noteLost(&lost))
		c.start(list, noteLost(&lost))
		c.until(60*time.Second + 100*time.Millisecond)
		restore := c.store.Backup()
		c.until(75 * time.Second)
		first.link.set(func(l *link) { l.cut = true })
		restore()
		c.store.Restart()
		c.until(110 * time.Second)
		first.link.set(func(l *link) { l.cut = false })
		c.until(10 * time.Minute)
		c.wantEach("all", time.Second, 9*time.Minute)
		if len(lost) != 1 || lost[0].Jobs != 1 || lost[0].Job != "all" || lost[0].Had.Sub(c.begin) < 70*time.Second || !lost[0].Has.After(lost[0].Had) {
			t.Errorf("told: %+v", lost)
		}
	})
}

// wantEach fails unless each tick of a job has a row, from the first up to an instant.
func (c *cluster) wantEach(job string, every, until time.Duration) {
	c.Helper()
	has := map[time.Duration]bool{}
	for _, r := range c.records(job) {
		for tick, left := r.Tick, r.Missed; left >= 0; tick, left = tick.Add(-every), left-1 {
			has[tick.Sub(c.begin)] = true
		}
	}
	var lacks []time.Duration
	for at := every; at <= until; at += every {
		if !has[at] {
			lacks = append(lacks, at)
		}
	}
	if len(lacks) > 0 {
		c.Errorf("%s: no row tells of the ticks %v\n%s", job, lacks, c.rows(job))
	}
}

// lossy are jobs that a failover can take something from: short runs, runs that wait for
// others, and runs that are to be done again.
func lossy(every time.Duration) []jobs.Job {
	long := func(ctx context.Context, _ jobs.Run) error {
		select {
		case <-time.After(every + every/2):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	all := jobs.Job{Schedule: jobs.Every(every), Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 1000}}
	short, queue, rerun := all, all, all
	short.Name, queue.Name, rerun.Name = "short", "queue", "rerun"
	queue.Overlap, queue.Do = jobs.OverlapQueue, long
	rerun.Overlap, rerun.Do, rerun.Recover = jobs.OverlapAllow, long, jobs.RecoverRerun
	return []jobs.Job{short, queue, rerun}
}

// What a failover has lost is decided again, whether the lost writes include a heartbeat or
// not: the leader, which survives, claims nothing on the other server that would hide it.
func TestFailoverHidesNoTick(t *testing.T) {
	for _, beats := range []bool{false, true} {
		for _, lag := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
			t.Run(fmt.Sprintf("heartbeats lost %v, %v", beats, lag), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					const every = 2 * time.Second
					var lost []event.WritesLost
					c.start(lossy(every), noteLost(&lost))
					c.start(lossy(every))
					c.until(time.Minute + 1800*time.Millisecond)
					restore := c.store.Backup()
					c.until(time.Minute + 1800*time.Millisecond + lag)
					if beats {
						restore()
						c.store.Restart()
					} else {
						c.failOver(restore)
					}
					c.until(3 * time.Minute)
					for _, job := range lossy(every) {
						c.wantEach(job.Name, every, 2*time.Minute+50*time.Second)
					}
					for _, job := range []string{"short", "rerun"} {
						for _, r := range c.records(job) {
							if r.State != jobs.Succeeded && r.State != jobs.Running {
								c.Errorf("%s: tick %v is %v: %s", job, r.Tick.Sub(c.begin), r.State, r.Error)
							}
						}
					}
					c.wantPaused(false)
					if len(lost) != 1 || lost[0].Jobs == 0 {
						t.Errorf("it was told %+v times", lost)
					}
				})
			})
		}
	}
}

// A tick whose end a failover lost does not run again after a later one that replaces it.
func TestFailoverOfAReplacedTick(t *testing.T) {
	for _, before := range []time.Duration{0, 100 * time.Millisecond, 2 * time.Second} {
		for _, slow := range []time.Duration{0, 2 * time.Millisecond} {
			t.Run(fmt.Sprint(before, slow), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapReplace, Recover: jobs.RecoverRerun, Do: sleep(20 * time.Second)}})
					r.link.set(func(l *link) { l.delay["Claim"], l.delay["Move"], l.delay["Load"] = slow, slow, slow })
					c.until(10*time.Minute + 19*time.Second)
					restore := c.store.Backup() // its end is not there yet
					c.until(11*time.Minute - before - time.Millisecond)
					c.failOver(restore)
					c.until(12*time.Minute - time.Second)
					lines := c.lines("job")
					want := []string{"10m cancelled: " + jobs.ErrReplacedByTick.Error(), "11m succeeded"}
					if last := lines[len(lines)-2:]; !slices.Equal(last, want) {
						t.Errorf("the ledger has %q, want %q", last, want)
					}
				})
			})
		}
	}
}

// The ticks of a job that was added in the moments that a failover loses, up to when it is added anew, do not run: that is told.
func TestFailoverLosesAJobThatWasAdded(t *testing.T) {
	for _, beats := range []bool{false, true} {
		for _, knows := range []int{1, 2} { // replicas that have the job when the next term begins
			t.Run(fmt.Sprintf("heartbeats lost %v, %d replicas", beats, knows), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					old := jobs.Job{Name: "old", Schedule: jobs.Every(24 * time.Hour)}
					added := jobs.Job{Name: "added", Schedule: jobs.At(c.begin.Add(2 * time.Hour)), Misfire: jobs.MisfireAll}
					var lost []event.WritesLost
					events := noteLost(&lost)
					replicas := []*replica{c.start([]jobs.Job{old}, events), c.start([]jobs.Job{old}, events)}
					c.until(2*time.Hour - 1500*time.Millisecond)
					restore := c.store.Backup()
					c.until(2*time.Hour - time.Second)
					for _, r := range replicas[:knows] {
						check(c.T, r.Add(r.doing(added)...))
					}
					c.until(2*time.Hour - 500*time.Millisecond)
					if beats {
						restore()
						c.store.Restart()
					} else {
						c.failOver(restore)
					}
					c.until(3 * time.Hour)
					if ran := len(c.runs("added")); ran != 1 && (len(lost) != 1 || lost[0].Added != 1 || lost[0].Job != "added") || ran == 1 && len(lost) > 0 {
						t.Errorf("ran %d times, told %+v", ran, lost)
					}
				})
			})
		}
	}
}

// A claim whose answer comes from the server of before, after another one has taken its place,
// is claimed again there.
func TestFailoverLosesClaimUnderWay(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := everyTick()
		job[0].Schedule = jobs.Every(10 * time.Second)
		r := c.start(job)
		token := c.holder(r).Token
		c.until(time.Minute - time.Second)
		restore := c.store.Backup()
		r.link.set(func(l *link) { l.delay["Claim"] = 2 * time.Second })
		c.until(time.Minute + time.Second)
		c.failOver(restore)
		_, err := c.Trigger(c.Context(), "all") // the leader reads the ledger
		check(t, err)
		c.until(time.Minute + 1500*time.Millisecond)
		r.link.set(func(l *link) { l.delay["Claim"] = 0 })
		c.until(5 * time.Minute)
		c.wantEach("all", 10*time.Second, 5*time.Minute-10*time.Second)
		if now := c.holder(r).Token; now != token {
			t.Errorf("the term has ended: %v", r.State().Cause)
		}
	})
}

// A failover that loses nothing ends no term, whatever goes on and waits.
func TestFailoverLosesNothing(t *testing.T) {
	for _, at := range []time.Duration{0, 100 * time.Millisecond, 900 * time.Millisecond, 1999 * time.Millisecond} {
		t.Run(at.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				all := append(lossy(2*time.Second), followed()...)
				r := c.start(all)
				token := c.holder(r).Token
				for i := range 20 {
					c.until(time.Duration(i)*6*time.Second + at)
					c.store.Restart()
				}
				c.until(3 * time.Minute)
				if now := c.holder(r).Token; now != token {
					t.Errorf("the term has ended: %v", r.State().Cause)
				}
				for _, job := range lossy(2 * time.Second) {
					c.wantEach(job.Name, 2*time.Second, 3*time.Minute-2*time.Second)
					c.wantNoneTwice(job.Name)
				}
			})
		})
	}
}

// A run whose end and whose next start a failover has lost, and one whose start it has lost and whose end was not written yet,
// are decided again in the same term.
func TestFailoverLosesWhatWasWritten(t *testing.T) {
	for name, test := range map[string]struct {
		lost  time.Duration // into the run, the last that the failover keeps
		away  time.Duration
		until time.Duration
		want  string
	}{
		"the end of an attempt, while the next one starts":    {9500 * time.Millisecond, 11 * time.Second, 14 * time.Second, "1h interrupted: not in hand of its holder"},
		"the start of an attempt, which ends before it tells": {11 * time.Second, 13 * time.Second, 16 * time.Second, "1h succeeded, attempt 2"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Retry: exact(3, 2*time.Second)}
				job.Do = func(_ context.Context, run jobs.Run) error {
					if run.Attempt > 1 {
						time.Sleep(3 * time.Second)
						return nil
					}
					time.Sleep(10 * time.Second)
					return fmt.Errorf("attempt %d", run.Attempt)
				}
				r := c.start([]jobs.Job{job})
				token := c.holder(r).Token
				c.until(time.Hour + test.lost)
				restore := c.store.Backup()
				c.until(time.Hour + test.away)
				r.link.set(func(l *link) { l.away = c.begin.Add(time.Hour + test.until + time.Second) })
				c.until(time.Hour + test.until)
				c.failOver(restore)
				c.until(time.Hour + time.Minute)
				if c.holder(r).Token != token {
					t.Errorf("the term has ended: %v", r.State().Cause)
				}
				c.wantRows("job", test.want)
			})
		})
	}
}

// Nor does a cluster whose nodes all take writes: the claims that are answered while its ledger is read on another node are
// there.
func TestLedgerReadOnOtherNodes(t *testing.T) {
	for _, slow := range []time.Duration{0, 300 * time.Millisecond, 1300 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var lost []event.WritesLost
				all := append(lossy(2*time.Second), followed()...)
				for i := range 20 {
					all = append(all, jobs.Job{Name: fmt.Sprint("each-", i), Schedule: jobs.Every(time.Second)})
				}
				r := c.start(all, noteLost(&lost))
				token := c.holder(r).Token
				r.link.set(func(l *link) {
					l.nodes = 3
					l.delay["Load"], l.delay["Claim"] = slow, slow/3
				})
				for i := range 60 {
					c.until(time.Duration(i+1) * 1700 * time.Millisecond)
					check(t, c.Pause(t.Context(), "each-0"))
					check(t, c.Resume(t.Context(), "each-0"))
				}
				c.until(3 * time.Minute)
				if now := c.holder(r).Token; now != token {
					t.Errorf("the term has ended: %v", r.State().Cause)
				}
				if len(lost) > 0 {
					t.Errorf("said to be lost: %+v", lost)
				}
				c.wantEach("each-1", time.Second, 3*time.Minute-2*time.Second)
			})
		})
	}
}

// A run that waits for a retry and a manual one are rows that a failover can lose, too.
func TestFailoverLosesRunsInHand(t *testing.T) {
	inBubble(t, func(c *cluster) {
		failing := jobs.Job{Name: "failing", Schedule: jobs.Every(time.Hour), Misfire: jobs.MisfireAll, Retry: jobs.Retry{Attempts: 3, Initial: 10 * time.Second, Jitter: 0.01}}
		failing.Do = func(_ context.Context, run jobs.Run) error {
			if run.Attempt < 3 {
				return fmt.Errorf("attempt %d", run.Attempt)
			}
			return nil
		}
		r := c.start([]jobs.Job{failing})
		token := c.holder(r).Token
		c.until(time.Hour + 5*time.Second)
		restore := c.store.Backup()
		c.until(time.Hour + 12*time.Second) // the second attempt is recorded as failed
		c.failOver(restore)
		c.until(time.Hour + time.Minute)
		if now := c.holder(r).Token; now == token {
			t.Error("the term goes on, though the ledger lacks an attempt")
		}
		c.wantRows("failing", "1h succeeded, attempt 3")
		attempts := make([]int, 0, 4)
		for _, run := range c.runs("failing") {
			attempts = append(attempts, run.Attempt)
		}
		if !slices.Equal(attempts, []int{1, 2, 2, 3}) {
			t.Errorf("attempts %v", attempts)
		}
	})
}

// So is the start of a run that goes on: where it is lost, its job would start it again. One that is under way is not known
// to be there, and is sent again.
func TestFailoverLosesAStart(t *testing.T) {
	for _, under := range []bool{false, true} {
		t.Run(fmt.Sprintf("under way: %t", under), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Retry: jobs.Retry{Attempts: 2, Initial: 10 * time.Second, Jitter: 0.01}}
				job.Do = func(ctx context.Context, run jobs.Run) error {
					if run.Attempt == 1 {
						return errWork
					}
					return lasting(time.Minute)(ctx, run)
				}
				r := c.start([]jobs.Job{job})
				token := c.holder(r).Token
				c.until(time.Hour + 5*time.Second)
				restore := c.store.Backup()
				if under {
					r.link.set(func(l *link) { l.delay["Move"] = 4 * time.Second })
				}
				c.until(time.Hour + 12*time.Second) // the second attempt has started, or the answer to its start is to come
				c.failOver(restore)
				r.link.set(func(l *link) { l.delay["Move"] = 0 })
				_, err := c.Trigger(c.Context(), "job") // the leader reads the ledger
				check(t, err)
				c.until(time.Hour + 10*time.Minute)
				if goesOn := c.holder(r).Token == token; goesOn != under {
					t.Errorf("the term goes on: %t, want %t", goesOn, under)
				}
				if r := c.records("job")[0]; r.State != jobs.Succeeded {
					t.Errorf("the tick is %+v", r)
				}
			})
		})
	}
}

// An outcome that is under way when the leader stops, or comes later, is written wherever the run's row is then.
func TestFailoverWhileItStops(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "job", Schedule: jobs.Every(time.Hour), Do: lasting(time.Minute)},
			{Name: "long", Schedule: jobs.Every(time.Hour), Do: lasting(time.Hour)},
		})
		c.until(time.Hour + 30*time.Second)
		r.link.set(func(l *link) { l.hold["Move"] = time.Second })
		c.until(time.Hour + time.Minute + 500*time.Millisecond) // the outcome is on its way
		c.store.Restart()
		r.stop()
		c.wantRows("job", "1h succeeded")
		c.wantRows("long", "1h cancelled: election: stopped: *")
	})
}
