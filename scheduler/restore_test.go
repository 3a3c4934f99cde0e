package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// everyTick is a job whose every tick is to run: the worst one to restore.
func everyTick() []jobs.Job {
	return []jobs.Job{{Name: "all", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 1000}}}
}

// backedUp starts replicas, and returns at 20m30s what restores a backup of 10m1s.
func (c *cluster) backedUp(replicas int) (restore func()) {
	c.Helper()
	for range replicas {
		c.start(everyTick())
	}
	c.until(10*time.Minute + time.Second)
	restore = c.store.Backup()
	c.until(20*time.Minute + 30*time.Second)
	return restore
}

// wantNoneTwice fails if a tick was begun twice.
func (c *cluster) wantNoneTwice(job string) {
	c.Helper()
	seen := map[time.Time]bool{}
	for _, r := range c.runs(job) {
		if seen[r.Tick] {
			c.Errorf("%s: tick %v ran twice", job, r.Tick.Sub(c.begin))
		}
		seen[r.Tick] = true
	}
}

func (c *cluster) wantPaused(want bool) {
	c.Helper()
	snapshot, err := c.Load(c.Context())
	if err != nil || snapshot.Paused != want {
		c.Errorf("paused: %v, %v, want %v", snapshot.Paused, err, want)
	}
}

// The rows are restored within the term of the leader that wrote the missing ones.
// It comes to lead again, and nothing runs before an operator has said how to go
// on. Also where it notices at once, since something is asked of it, and a tick is due
// right then.
func TestRestoredUnderTheLeader(t *testing.T) {
	for _, skipping := range []bool{false, true} {
		for _, first := range []string{"heartbeat", "request", "claim"} { // after the restore
			t.Run(fmt.Sprintf("skipping %v, then a %s", skipping, first), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					slow := func(l *link) { l.hold["Load"] = 10 * time.Millisecond } // so a pause after a claim is later than its tick
					r := c.startOn(slow, append(everyTick(), jobs.Job{Name: "byhand", Schedule: jobs.Manual()}))
					c.until(10*time.Minute + time.Second)
					restore := c.store.Backup()
					c.until(20*time.Minute + 30*time.Second)
					switch first {
					case "request":
						c.until(21*time.Minute - 100*time.Millisecond)
					case "claim":
						c.until(21*time.Minute - time.Millisecond)
					}
					restore()
					if first == "request" {
						_, err := c.Trigger(c.Context(), "byhand")
						check(t, err)
					}
					c.until(25*time.Minute + 30*time.Second)
					c.wantNoneTwice("all")
					c.wantPaused(true)
					said := fmt.Sprint(r.Health().Leader)
					if r.State().Role != election.Leading || strings.Count(said, scheduler.ErrRestored.Error()) != 1 {
						t.Errorf("%+v, and its health says %s", r.State(), said)
					}
					resume := c.Resume
					if skipping {
						resume = c.ResumeSkipping
					}
					check(t, resume(c.Context(), ""))
					c.until(27*time.Minute + time.Second)
					if err := r.Check(); err != nil {
						t.Error(err)
					}
					tail := strings.Join(c.lines("all")[10:], "\n")
					want := "25m skipped, missed 14: paused\n26m succeeded\n27m succeeded"
					if skipping {
						c.wantNoneTwice("all")
					} else {
						var again []string
						before := 20 // the pause
						if first == "claim" {
							before = 21
						}
						for m := 11; m <= before; m++ {
							again = append(again, fmt.Sprintf("%dm succeeded", m))
						}
						want = strings.Join(again, "\n") + fmt.Sprintf("\n25m skipped, missed %d: paused\n26m succeeded\n27m succeeded", 24-before)
					}
					if tail != want {
						t.Errorf("after the backup:\n%s\nwant\n%s", tail, want)
					}
				})
			})
		}
	}
}

// The group is resumed while the replica that has just paused it waits for an answer: that counts.
func TestResumedAtOnce(t *testing.T) {
	for name, slow := range map[string]func(*link){
		"the answer to the pause is late": func(l *link) { l.delay["Pause"] = time.Second },
		"the next reading is late":        func(l *link) { l.hold["Load"] = 500 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.startOn(slow, everyTick())
				c.until(10*time.Minute + time.Second)
				restore := c.store.Backup()
				c.until(20*time.Minute + 30*time.Second)
				restore()
				for at := 20*time.Minute + 30*time.Second; at < 21*time.Minute; at += 10 * time.Millisecond {
					c.until(at)
					snapshot, err := c.Load(c.Context())
					check(t, err)
					if snapshot.Paused {
						check(t, c.Resume(c.Context(), ""))
						break
					}
				}
				c.until(25*time.Minute + 30*time.Second)
				c.wantPaused(false)
			})
		})
	}
}

// The rows are restored under a leader that claims more ticks before its next
// heartbeat notices: these ticks hide the missing ones before them.
func TestRestoredBetweenTwoHeartbeats(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := everyTick()
				job[0].Schedule = jobs.Every(every)
				c.start(job)
				c.start(job)
				c.until(2*every + time.Millisecond)
				restore := c.store.Backup()
				c.until(40*time.Second - 100*time.Millisecond)
				restore()
				c.until(2 * time.Minute)
				c.wantPaused(true)
				c.wantNoneTwice("all")
			})
		})
	}
}

// A replica that has only led since the restore knows that the group was paused for it: a second restore takes the pause away.
func TestRestoredTwiceUnderTheNextLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		restore := c.backedUp(1)
		first := c.replicas[0]
		again := func() {
			restore()
			c.store.Restart()
		}
		again()
		c.until(20*time.Minute + 36*time.Second)
		c.wantPaused(true)
		first.kill()
		next := c.start(everyTick())
		c.until(21*time.Minute + 20*time.Second)
		if !next.leads() {
			t.Fatalf("%+v", next.State())
		}
		again()
		c.until(23 * time.Minute)
		c.wantPaused(true)
		c.wantNoneTwice("all")
		if err := next.Check(); !errors.Is(err, scheduler.ErrRestored) {
			t.Errorf("%v", err)
		}
		check(t, c.ResumeSkipping(c.Context(), ""))
		c.until(25 * time.Minute)
		c.wantPaused(false)
		c.wantNoneTwice("all")
	})
}

// A second restore takes the pause away, on the same running server, before or after another term has begun.
func TestRestoredTwiceOnOneServer(t *testing.T) {
	for _, gap := range []time.Duration{time.Second, 5 * time.Second, 8 * time.Second, 12 * time.Second, 20 * time.Second, time.Minute} {
		t.Run(gap.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				restore := c.backedUp(2)
				restore()
				c.until(20*time.Minute + 30*time.Second + gap)
				restore()
				c.until(25 * time.Minute)
				c.wantPaused(true)
				c.wantNoneTwice("all")
			})
		})
	}
}

// One backup is restored again and again, on a server that goes on or is started anew, among changes of leader: until
// the group is resumed, no tick runs twice.
func TestRestoresAtRandom(t *testing.T) {
	for _, seed := range rounds.Seeds(t, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				random := rand.New(rand.NewPCG(seed, 2))
				pass := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
				count := 2 + random.IntN(2)
				for range count {
					c.start(everyTick())
				}
				c.until(5 * time.Minute)
				pass(time.Minute)
				restore := c.store.Backup()
				for range 2 * count { // each has seen more
					time.Sleep(90 * time.Second)
					check(t, c.leader().Resign(c.Context()))
				}
				time.Sleep(2 * time.Minute)
				anew := random.IntN(2) == 0
				for range 1 + random.IntN(3) {
					if random.IntN(3) == 0 {
						for _, r := range c.replicas {
							if r.leads() {
								_ = r.Resign(c.Context()) // it may not lead any more by now
								break
							}
						}
						pass(3 * time.Second)
					}
					restore()
					if anew {
						c.store.Restart()
					}
					pass([]time.Duration{time.Second, 20 * time.Second, 90 * time.Second}[random.IntN(3)])
				}
				time.Sleep(3 * time.Minute)
				c.wantPaused(true)
				c.wantNoneTwice("all")
				if c.Failed() {
					c.Logf("CRONLEASE_SEED=%d", seed)
				}
			})
		})
	}
}

// What a replica has seen of a restore that was answered is over: a later pause of an operator is no restore to it, and may be lost.
func TestPauseAfterARestoreIsNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		restore := c.backedUp(2)
		restore()
		c.store.Restart()
		c.until(22 * time.Minute)
		check(t, c.ResumeSkipping(c.Context(), ""))
		c.until(50*time.Minute + 10*time.Second)
		failOver := c.store.Backup()
		c.until(50*time.Minute + 20*time.Second)
		check(t, c.Pause(c.Context(), ""))
		check(t, c.leader().Resign(c.Context()))
		c.until(50*time.Minute + 30*time.Second)
		for _, r := range c.replicas {
			if err := r.Check(); errors.Is(err, scheduler.ErrRestored) {
				t.Errorf("while an operator has paused it: %v", err)
			}
		}
		failOver()
		c.store.Restart()
		c.until(53*time.Minute + time.Second)
		c.wantPaused(false)
		for _, r := range c.replicas {
			check(t, r.Check())
		}
	})
}

// A pause of an operator is no restore: on a server that has lost it, as the bound allows, the group goes on.
func TestLostPauseIsNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(everyTick())
		c.until(10*time.Minute + 10*time.Second)
		restore := c.store.Backup()
		check(t, c.Pause(c.Context(), ""))
		c.until(10*time.Minute + 20*time.Second)
		restore()
		c.store.Restart()
		c.until(13*time.Minute + time.Second)
		c.wantPaused(false)
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	})
}

// The leader has only just begun to lead, and leads again after the restore: its predecessor, which knows more, looks as soon as it sees
// that the lease has gone back.
func TestRestoredUnderAYoungTerm(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first, second := c.start(everyTick()), c.start(everyTick())
		if second.leads() {
			first, second = second, first
		}
		c.until(10*time.Minute + time.Second)
		restore := c.store.Backup()
		c.until(20*time.Minute + 30*time.Second)
		first.link.set(func(l *link) { l.fail["Acquire"] = 1e6 })
		check(t, first.Resign(c.Context()))
		c.until(20*time.Minute + 38*time.Second)
		if !second.leads() {
			t.Fatalf("%+v", second.State())
		}
		restore()
		c.store.Restart()
		c.until(22 * time.Minute)
		c.wantPaused(true)
		c.wantNoneTwice("all")
	})
}

// The same on a server that was started anew, which the leader notices with its next
// look at the ledger: the ticks that it claimed there do not hide the missing ones.
func TestRestoredOnAnotherServer(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := everyTick()
		job[0].Schedule = jobs.Every(time.Second)
		c.until(500 * time.Millisecond) // the looks are between the ticks
		c.start(job)
		c.until(2600 * time.Millisecond)
		restore := c.store.Backup()
		c.until(5*time.Minute + 1600*time.Millisecond)
		c.store.Restart()
		restore()
		c.until(10 * time.Minute)
		c.wantPaused(true)
		c.wantNoneTwice("all")
	})
}

// A server that is started anew, as it was, right before the restore does not make
// the replicas forget what was there.
func TestRestoredAfterRestart(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start(everyTick())
		c.until(10*time.Minute + time.Second)
		restore := c.store.Backup()
		c.until(20*time.Minute + 5*time.Second)
		c.store.Restart()
		c.until(20*time.Minute + 30*time.Second)
		restore()
		c.store.Restart()
		c.until(25 * time.Minute)
		c.wantPaused(true)
		c.wantNoneTwice("all")
	})
}

// A second crash of a server that keeps nothing loses the pause with the rest: the group is paused again,
// until an operator has said how to go on.
func TestRestoredTwice(t *testing.T) {
	inBubble(t, func(c *cluster) {
		restore := c.backedUp(2)
		for range 3 {
			restore()
			c.store.Restart()
			c.until(time.Since(c.begin) + time.Minute)
			c.wantPaused(true)
		}
		c.wantNoneTwice("all")
		check(t, c.ResumeSkipping(c.Context(), ""))
		c.until(time.Since(c.begin) + 5*time.Minute)
		c.wantPaused(false)
		c.wantNoneTwice("all")
	})
}

// The leader dies with the restore, and its successor has never led: it knows
// from the term that it saw as a follower.
func TestRestoredUnderAFollower(t *testing.T) {
	for name, slow := range map[string]struct{ second, third map[string]time.Duration }{
		"soon read":              {},
		"a large ledger":         {third: map[string]time.Duration{"Load": 10 * time.Second}},
		"a term that opens late": {second: map[string]time.Duration{"Declare": 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				first := c.start(everyTick())
				c.until(5*time.Minute + time.Second)
				restore := c.store.Backup()
				first.stop()
				second := c.startOn(func(l *link) { maps.Copy(l.hold, slow.second) }, everyTick())
				third := c.startOn(func(l *link) { maps.Copy(l.hold, slow.third) }, everyTick())
				c.until(20*time.Minute + 30*time.Second)
				second.kill()
				restore()
				third.link.set(func(l *link) { clear(l.hold) })
				c.until(25 * time.Minute)
				if third.State().Role != election.Leading {
					t.Fatalf("%+v", third.State())
				}
				c.wantPaused(true)
				c.wantNoneTwice("all")
			})
		})
	}
}

// Two replicas notice the restore: the second does not undo the operator's decision.
func TestRestoreIsAnsweredOnce(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader := c.start(everyTick())
		other := c.start(everyTick())
		c.until(10*time.Minute + time.Second)
		restore := c.store.Backup()
		leader.stop()
		c.until(11 * time.Minute)
		leader = c.start(everyTick())
		c.until(20*time.Minute + 30*time.Second)
		restore()
		c.until(22 * time.Minute)
		c.wantPaused(true)
		check(t, c.ResumeSkipping(c.Context(), ""))
		c.until(25 * time.Minute)
		for _, r := range []*replica{other, leader} { // each of them leads once
			_ = r.Resign(c.Context())
			synctest.Wait()
			c.until(time.Since(c.begin) + 2*time.Minute)
		}
		c.wantPaused(false)
		c.wantNoneTwice("all")
	})
}

// An open run of the backup may have ended since: it is not run again, whatever
// its job's Recover says.
func TestRestoredOpenRuns(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "long", Schedule: jobs.Every(time.Hour), Recover: jobs.RecoverRerun, Do: func(context.Context, jobs.Run) error {
			time.Sleep(2 * time.Minute)
			return nil
		}}
		c.start([]jobs.Job{job})
		c.until(time.Hour + time.Minute)
		restore := c.store.Backup()
		c.until(2*time.Hour + 30*time.Minute)
		restore()
		c.until(2*time.Hour + 40*time.Minute)
		c.wantRows("long", "1h cancelled: *")
		c.wantNoneTwice("long")
	})
}

// A failover that loses less than a minute pauses nothing, and one that loses
// more does.
func TestFailoverLosesCommits(t *testing.T) {
	for _, lost := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		t.Run(lost.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := everyTick()
				job[0].Schedule = jobs.Every(5 * time.Second)
				c.start(job)
				c.until(30 * time.Minute)
				restore := c.store.Backup()
				c.until(30*time.Minute + lost)
				c.store.Restart()
				restore()
				c.until(time.Hour)
				c.wantPaused(lost > time.Minute)
			})
		})
	}
}

// A failover that loses a claim and no heartbeat pauses nothing. It ends the term, which rests on that claim, and
// the next one runs the tick.
func TestFailoverLosesNoHeartbeat(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := everyTick()
		job[0].Schedule = jobs.Every(10 * time.Minute)
		r := c.start(job)
		c.until(10*time.Minute - time.Second)
		token := c.holder(r).Token
		restore := c.store.Backup()
		c.until(10*time.Minute + time.Second)
		c.failOver(restore)
		c.until(16 * time.Minute)
		c.wantPaused(false)
		c.wantRows("all", "10m succeeded")
		if ran := c.runs("all"); len(ran) != 2 || ran[0].Token != token || ran[1].Token <= token {
			t.Errorf("the runs are %+v, the first of them under %d", ran, token)
		}
	})
}

// Rewinding the lease rows alone does not count as a restore.
func TestRewoundLeaseIsNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start(everyTick())
		c.start(everyTick())
		c.until(10*time.Minute + time.Second)
		c.store.Update("g", func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			l.Token, l.Heartbeat, f.Token = l.Token-10, 1, f.Token-10
			return l, f
		})
		c.until(20 * time.Minute)
		c.wantPaused(false)
		c.wantNoneTwice("all")
	})
}

// The group stays paused when the pause, or the reading after it, fails at first; and once it is resumed, nothing pauses it again.
func TestRestoredWhileStatementsFail(t *testing.T) {
	for _, fails := range []string{"Pause", "Load", "Load after the pause"} {
		t.Run(fails, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				restore := c.backedUp(1)
				first := c.replicas[0]
				first.kill()
				restore()
				c.until(21 * time.Minute)
				second := c.start(everyTick())
				c.until(25 * time.Minute)
				c.wantPaused(false) // it never saw the ticks that are gone
				c.until(30*time.Minute + 30*time.Second)
				restore()
				second.link.set(func(l *link) { l.fail[fails], l.hold["Pause"] = 2, time.Second })
				if fails == "Load after the pause" {
					for second.link.count("Pause") == 0 {
						time.Sleep(100 * time.Millisecond)
					}
					second.link.set(func(l *link) { l.fail["Load"] = 1 })
				}
				c.until(31 * time.Minute)
				c.wantPaused(true)
				restore()
				c.store.Restart()
				c.until(35 * time.Minute)
				c.wantPaused(true)
				check(t, c.Resume(c.Context(), ""))
				c.until(40*time.Minute + time.Second)
				c.wantPaused(false)
				if lines := c.lines("all"); lines[len(lines)-1] != "40m succeeded" {
					t.Errorf("the last row is %s", lines[len(lines)-1])
				}
			})
		})
	}
}

// A restore while the only replica, or the former leader, stands back after it has resigned is noticed like any other.
func TestRestoredWhileStandingBack(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		for _, after := range []time.Duration{time.Millisecond, 20 * time.Millisecond, time.Second, 8 * time.Second} {
			t.Run(fmt.Sprint(replicas, " ", after), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					for range replicas {
						c.start(everyTick())
					}
					c.until(10*time.Minute + time.Second)
					restore := c.store.Backup()
					c.until(20*time.Minute + 30*time.Second)
					check(t, c.leader().Resign(c.Context()))
					time.Sleep(after)
					restore()
					c.store.Restart()
					c.until(25 * time.Minute)
					c.wantPaused(true)
					c.wantNoneTwice("all")
				})
			})
		}
	}
}

// A pause that was resumed before a restore, however that was done and whatever it was for, does not answer for the restore.
func TestRestoreAfterAResume(t *testing.T) {
	for name, resume := range map[string]func(c *cluster) error{
		"resumed":          func(c *cluster) error { return c.Resume(c.Context(), "") },
		"resumed skipping": func(c *cluster) error { return c.ResumeSkipping(c.Context(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.start(everyTick())
				c.start(everyTick())
				c.until(5*time.Minute + time.Second)
				check(t, c.Pause(c.Context(), ""))
				c.until(6*time.Minute + time.Second)
				check(t, resume(c))
				for _, after := range []time.Duration{time.Hour, 3 * time.Hour} { // the second one after the answer to the first
					c.until(after + time.Second)
					restore := c.store.Backup()
					c.until(after + 10*time.Minute + 30*time.Second)
					restore()
					c.until(after + 15*time.Minute)
					c.wantPaused(true)
					check(t, resume(c))
					if name == "resumed skipping" {
						c.wantNoneTwice("all")
					}
				}
			})
		})
	}
}

// The operator's answer counts, however far the database's clock was set back since the group was paused.
func TestResumedUnderAClockThatWasSetBack(t *testing.T) {
	for name, resume := range map[string]func(c *cluster) error{
		"resumed":          func(c *cluster) error { return c.Resume(c.Context(), "") },
		"resumed skipping": func(c *cluster) error { return c.ResumeSkipping(c.Context(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.start(everyTick())
				c.until(10*time.Minute + time.Second)
				restore := c.store.Backup()
				c.until(20*time.Minute + 30*time.Second)
				restore()
				c.until(25*time.Minute + time.Second)
				c.wantPaused(true)
				c.store.StepClock(-time.Minute * 10)
				c.until(25*time.Minute + 10*time.Second)
				check(t, resume(c))
				c.until(50 * time.Minute)
				c.wantPaused(false)
			})
		})
	}
}
