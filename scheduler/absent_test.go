package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

func tenMinutely(names ...string) []jobs.Job {
	var all []jobs.Job
	for _, name := range names {
		all = append(all, jobs.Job{Name: name, Schedule: jobs.Every(10 * time.Minute), Do: func(context.Context, jobs.Run) error { return nil }})
	}
	return all
}

// A rolling deployment brings job b, is taken back and made again: leaders with and
// without b alternate, and b loses no tick.
func TestRollingDeploymentBackAndForth(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start(tenMinutely("a", "b"))
		for n := range 6 {
			c.until(time.Duration(n)*25*time.Minute + 22*time.Minute)
			old := c.leader()
			next := tenMinutely("a", "b")
			if n%2 == 0 {
				next = tenMinutely("a")
			}
			r := c.start(next)
			old.stop()
			synctest.Wait()
			if c.leader() != r {
				c.Fatal("the new replica does not lead")
			}
		}
		c.until(3*time.Hour + time.Minute)
		for _, job := range []string{"a", "b"} {
			want := c.begin.Truncate(10 * time.Minute)
			for _, r := range c.records(job) {
				for range 1 + r.Missed {
					want = want.Add(10 * time.Minute)
				}
				if !r.Tick.Equal(want) || r.State != jobs.Succeeded {
					c.Errorf("%s: tick %v is %v, missed %d: want %v", job, r.Tick.Sub(c.begin), r.State, r.Missed, want.Sub(c.begin))
				}
			}
			if last := c.begin.Truncate(10 * time.Minute).Add(3 * time.Hour); !want.Equal(last) {
				c.Errorf("%s: the last tick is %v, want %v", job, want, last)
			}
		}
	})
}

// A job that was removed and comes back after a day starts from now. Its ticks of the
// day are one row, whichever term deals with them.
func TestJobComesBackAfterADay(t *testing.T) {
	inBubble(t, func(c *cluster) {
		with := tenMinutely("a", "b")
		with[1].Misfire, with[1].CatchUp = jobs.MisfireAll, jobs.CatchUp{Limit: 100}
		first := c.start(with)
		c.until(25 * time.Minute)
		second := c.start(tenMinutely("a"))
		first.stop()
		c.until(time.Hour)
		if gone := c.known("b").Gone; gone.Sub(c.begin) != 25*time.Minute {
			c.Errorf("b is gone since %v, want 25m", gone.Sub(c.begin))
		}
		c.until(24*time.Hour + 25*time.Minute)
		skips := map[store.ClaimID]int{}
		third := c.startOn(func(l *link) {
			l.fail["Declare"] = 3
			l.late = func(_ store.Holder, id store.ClaimID, claims []store.Claim) bool {
				if claims[0].Error != "not declared" {
					return false
				}
				skips[id]++
				return skips[id] == 1 && len(skips) == 1
			}
		}, with)
		second.stop()
		c.until(24*time.Hour + 31*time.Minute)
		// The first claim gets no answer, and may be carried out late: the next one has its number.
		if len(skips) != 1 || slices.Max(slices.Collect(maps.Values(skips))) != 2 {
			c.Errorf("the ticks of the absence are claimed under these numbers, so often: %v", skips)
		}
		if third != c.leader() || !c.known("b").Gone.IsZero() {
			c.Errorf("b is gone since %v", c.known("b").Gone)
		}
		c.wantRows("b", "10m succeeded", "20m succeeded", "24h20m skipped, missed 143: not declared", "24h30m succeeded")
	})
}

// The same under another schedule: the ticks of the absence are those of the schedule
// before.
func TestJobComesBackUnderAnotherSchedule(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.start(tenMinutely("b"))
		c.until(25 * time.Minute)
		first.stop()
		second := c.start(nil)
		c.until(5*time.Hour + 25*time.Minute)
		changed := tenMinutely("b")
		changed[0].Schedule, changed[0].Misfire, changed[0].CatchUp = jobs.Every(time.Minute), jobs.MisfireAll, jobs.CatchUp{Limit: 100}
		c.start(changed)
		second.stop()
		c.until(5*time.Hour + 26*time.Minute + time.Second)
		c.wantRows("b", "10m succeeded", "20m succeeded", "5h20m skipped, missed 29: not declared", "5h26m succeeded")
	})
}

// A job is removed from and added to a scheduler that runs.
func TestJobIsRemovedAndAddedAgain(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(tenMinutely("a", "b"))
		c.until(25 * time.Minute)
		if err := r.Remove("b"); err != nil {
			c.Fatal(err)
		}
		c.until(30 * time.Minute)
		if gone := c.known("b").Gone; gone.Sub(c.begin) != 25*time.Minute {
			c.Errorf("b is gone since %v, want 25m", gone.Sub(c.begin))
		}
		c.until(55 * time.Minute)
		if err := r.Add(tenMinutely("b")...); err != nil {
			c.Fatal(err)
		}
		c.until(61 * time.Minute)
		c.wantRows("b", "10m succeeded", "20m succeeded", "50m succeeded, missed 2", "1h succeeded")
		if err := r.Remove("b"); err != nil {
			c.Fatal(err)
		}
		c.until(3*time.Hour + 5*time.Minute)
		if err := r.Add(tenMinutely("b")...); err != nil {
			c.Fatal(err)
		}
		c.until(3*time.Hour + 11*time.Minute)
		c.wantRows("b", "10m succeeded", "20m succeeded", "50m succeeded, missed 2", "1h succeeded",
			"3h skipped, missed 11: not declared", "3h10m succeeded")
	})
}

// What waited when a job went away is closed when it comes back after a day; what was
// asked for meanwhile, when a follower had the job, runs. A statement that fails meanwhile is sent again.
func TestRunsOfAJobThatComesBack(t *testing.T) {
	for _, fails := range []string{"none", "Move", "Claim", "Declare", "Gone"} {
		t.Run(fails+" fails", func(t *testing.T) { testRunsOfAJobThatComesBack(t, fails) })
	}
}

func testRunsOfAJobThatComesBack(t *testing.T, failing string) {
	t.Helper()
	inBubble(t, func(c *cluster) {
		with := tenMinutely("b")
		with[0].Retry = jobs.Retry{Attempts: 3, Initial: 24 * time.Hour, Max: 24 * time.Hour}
		fails := true
		with[0].Do = func(context.Context, jobs.Run) error {
			if fails {
				return errors.New("no")
			}
			return nil
		}
		with[0].Overlap = jobs.OverlapAllow
		first := c.start(with)
		c.until(11 * time.Minute)
		second := c.start(nil)
		first.stop()
		c.until(5 * time.Hour)
		third := c.startOn(func(l *link) { l.fail[failing] = 1 }, with)
		key, err := c.Trigger(c.Context(), "b")
		if err != nil {
			c.Fatal(err)
		}
		fails = false
		c.until(6 * time.Hour)
		second.stop()
		c.until(6*time.Hour + 5*time.Second)
		if third != c.leader() {
			c.Fatal("the replica with b does not lead")
		}
		c.wantRows("b", "10m cancelled: not declared", fmt.Sprintf("%s succeeded", short(key.Tick.Sub(c.begin))), "6h skipped, missed 34: not declared")
	})
}

// A run that its replica's death has cut off is closed when its job comes back after a day, and counts as a failure.
func TestInterruptedRunOfAJobThatComesBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		with := tenMinutely("b")
		with[0].Do = lasting(time.Hour)
		first := c.start(with)
		c.until(11 * time.Minute)
		first.kill()
		second := c.start(nil)
		c.until(5 * time.Hour)
		if c.known("b").Failing {
			t.Error("the job fails, before anybody has dealt with its run")
		}
		c.start(with)
		second.stop()
		c.until(5*time.Hour + 5*time.Second)
		c.wantRows("b", "10m interrupted: not finished by "+first.Owner()+", and then not declared", "5h skipped, missed 28: not declared")
		if !c.known("b").Failing {
			t.Error("the job does not fail, although its last run was interrupted")
		}
	})
}

// For a job that comes back and has left nothing behind, no further statement is sent.
func TestJobComesBackToNothing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		with := []jobs.Job{{Name: "b", Schedule: jobs.Manual()}}
		first := c.start(with)
		c.until(25 * time.Minute)
		second := c.start(nil)
		first.stop()
		c.until(5 * time.Hour)
		third := c.start(with)
		second.stop()
		c.until(5*time.Hour + 5*time.Second)
		if n := third.link.count("Move") + third.link.count("Claim"); n > 0 || !c.known("b").Gone.IsZero() || third != c.leader() {
			t.Errorf("%d statements, and b is gone since %v", n, c.known("b").Gone)
		}
	})
}

// The history of a job that no replica has is pruned as the default says, but not
// while a replica has it.
func TestHistoryOfRemovedJobsIsPruned(t *testing.T) {
	for _, follower := range []bool{false, true} {
		t.Run(fmt.Sprintf("follower has it: %t", follower), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := tenMinutely("b")
				job[0].Schedule = jobs.Every(time.Hour)
				first := c.start(job)
				c.until(10*time.Hour + time.Minute)
				first.stop()
				c.until(40 * 24 * time.Hour)
				c.start(nil)
				if follower {
					c.start(job)
				}
				c.until(41*24*time.Hour - time.Hour)
				if n := len(c.records("b")); n != 10 {
					c.Errorf("there are %d rows within the first day, want 10", n)
				}
				c.until(42*24*time.Hour + time.Hour)
				want := 1 // the cursor
				if follower {
					want = 10
				}
				if n := len(c.records("b")); n != want {
					c.Errorf("there are %d rows after two days, want %d", n, want)
				}
			})
		})
	}
}

// differences are the lines of a log about differences: the level, and the names.
func differences(log *observer.ObservedLogs) []string {
	var lines []string
	for _, line := range log.All() {
		fields := line.ContextMap()
		switch {
		case strings.Contains(line.Message, "do two services share the group"):
			lines = append(lines, fmt.Sprintf("%v %v %v", line.Level, fields["jobs"], fields["rescheduled"]))
		case strings.Contains(line.Message, "the leader has the jobs of this replica"):
			lines = append(lines, "same")
		}
	}
	return lines
}

// Two services share a group by mistake: both say so once, and so does their health.
func TestTwoServicesInOneGroup(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leaderCore, leaderLog := observer.New(zap.InfoLevel)
		followerCore, followerLog := observer.New(zap.InfoLevel)
		leader := c.start(tenMinutely("a", "shared"), scheduler.WithLogger(zap.New(leaderCore)), scheduler.WithVersion("v1"))
		other := tenMinutely("b", "shared")
		other[1].Schedule = jobs.Every(time.Hour)
		follower := c.start(other, scheduler.WithLogger(zap.New(followerCore)), scheduler.WithVersion("v2"))
		c.until(24 * time.Hour)
		for what, log := range map[string]*observer.ObservedLogs{"leader": leaderLog, "follower": followerLog} {
			if got := differences(log); !slices.Equal(got, []string{"warn [b] [shared]"}) {
				c.Errorf("the %s says %q", what, got)
			}
		}
		for _, r := range []*replica{leader, follower} {
			h := r.Health()
			if d := h.Differences; !slices.Equal(d.NotLed, []string{"b"}) || !slices.Equal(d.Rescheduled, []string{"shared"}) || h.Err() != nil {
				c.Errorf("health: %+v, %v", d, h.Err())
			}
		}
		// Another difference is said, too, and its end.
		if err := follower.Add(tenMinutely("c")...); err != nil {
			c.Fatal(err)
		}
		c.until(24*time.Hour + 5*time.Minute)
		leader.stop()
		c.until(24*time.Hour + 10*time.Minute)
		got := differences(followerLog)
		// It may lead before the row of the one that stops is deleted.
		got = slices.DeleteFunc(got, func(line string) bool { return line == "warn [a] [shared]" })
		if !slices.Equal(got, []string{"warn [b] [shared]", "warn [b c] [shared]", "same"}) {
			c.Errorf("the follower says %q", got)
		}
		if got := differences(leaderLog); !slices.Equal(got, []string{"warn [b] [shared]", "warn [b c] [shared]"}) {
			c.Errorf("the leader says %q", got)
		}
	})
}

// A replica that has died ages out, and its row is deleted later; one that stops takes
// its row along.
func TestDeadReplicaAgesOut(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(tenMinutely("a"))
		dead := c.start(tenMinutely("b"))
		stopped := c.start(tenMinutely("c"))
		counts := func(live, all int) {
			c.Helper()
			roster, err := c.Roster(c.Context())
			if err != nil || len(roster.Live()) != live || len(roster.Replicas) != all {
				c.Errorf("at %v: %d replicas are live of %d, want %d of %d (%v)", time.Since(c.begin), len(roster.Live()), len(roster.Replicas), live, all, err)
			}
		}
		c.until(time.Hour)
		counts(3, 3)
		dead.kill()
		stopped.stop()
		counts(1, 2) // its connection has ended, its row has not
		c.until(time.Hour + 11*time.Minute)
		counts(1, 2)
		if d := r.Health().Differences; len(d.NotLed) > 0 && time.Since(c.begin) > time.Hour+15*time.Minute {
			c.Errorf("a dead replica counts: %v", d)
		}
		c.until(2 * time.Hour)
		counts(1, 1)
	})
}

// The list is told in two statements every three and a half minutes, at once when the
// jobs change, and again where the rows were lost.
func TestRosterAtRest(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start(tenMinutely("a"))
		follower := c.start(tenMinutely("a"))
		c.until(time.Minute)
		count := func() (n int) {
			follower.link.set(func(l *link) { n = l.sent["Refresh"] + l.sent["Roster"] + l.sent["Enlist"] + l.sent["Strike"] })
			return n
		}
		before := count()
		c.until(time.Minute + 10*time.Hour)
		if n := count() - before; n > 36*10 {
			c.Errorf("%d statements in 10 h: more than one in 100 s", n)
		}
		if err := follower.Add(tenMinutely("b")...); err != nil {
			c.Fatal(err)
		}
		synctest.Wait()
		roster, err := c.Roster(c.Context())
		if own, _ := roster.Find(follower.Owner()); err != nil || len(own.Jobs) != 2 {
			c.Errorf("after Add the list has %d jobs (%v)", len(own.Jobs), err)
		}
		if err := c.store.Strike(c.Context(), "g", follower.Owner(), 0); err != nil {
			c.Fatal(err)
		}
		c.until(10*time.Hour + 10*time.Minute)
		if roster, err = c.Roster(c.Context()); err != nil || len(roster.Live()) != 2 {
			c.Errorf("after the row was deleted: %d replicas (%v)", len(roster.Live()), err)
		}
	})
}

// Where the table cannot be used, one line says so after a while, and jobs run.
func TestRosterThatFails(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, log := observer.New(zap.InfoLevel)
		r := c.startOn(func(l *link) { l.fail["Enlist"] = 1e6 }, tenMinutely("a"), scheduler.WithLogger(zap.New(core)))
		c.until(10 * time.Hour)
		if n := log.FilterMessageSnippet("cannot tell the others").Len(); n != 1 {
			c.Errorf("%d lines, want one", n)
		}
		if n := len(c.records("a")); n != 60 || r.Health().Err() != nil {
			c.Errorf("%d runs in 10 h, health %v", n, r.Health().Err())
		}
		r.link.set(func(l *link) { l.fail["Enlist"] = 0 })
		c.until(11 * time.Hour)
		if n := log.FilterMessageSnippet("tells the others again").Len(); n != 1 {
			c.Errorf("%d lines that it works again, want one", n)
		}
	})
}

// The statement that a removed job is gone is carried out late, when the job has come back. The leader notices that
// before it looks like an absence, so that a tick is not skipped that is due while no replica leads.
func TestLateGone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		daily := func() []jobs.Job { return []jobs.Job{{Name: "daily", Schedule: jobs.Cron("0 0 2 * * *")}} }
		logs, log := observed()
		first := c.start(daily(), log)
		c.until(3 * time.Hour)
		check(t, first.Remove("daily"))
		c.until(3*time.Hour + time.Minute)
		check(t, first.Add(first.doing(daily()...)...))
		gone := func() {
			check(t, c.store.Gone(t.Context(), store.Holder{Group: "g", Owner: first.Owner(), Token: first.State().Token}, []string{"daily"}))
		}
		for _, late := range []time.Duration{time.Second, time.Hour, 5 * time.Hour} {
			c.until(3*time.Hour + time.Minute + late)
			if late == time.Hour {
				first.link.set(func(l *link) { l.fail["Declare"] = 1 })
			}
			gone()
			c.until(3*time.Hour + 32*time.Minute + late)
			if at := c.known("daily").Gone; !at.IsZero() {
				t.Errorf("%v late: the leader has the job, and it is gone since %v", late, at)
			}
		}
		if n := logs.FilterMessageSnippet("does not take that back yet").Len(); n != 1 {
			t.Errorf("%d lines say that the ledger does not take it back, want one, of the statement that failed", n)
		}
		c.until(26*time.Hour - 10*time.Second)
		first.stop()
		c.until(26*time.Hour + 10*time.Second)
		c.start(daily())
		c.until(27 * time.Hour)
		c.wantRows("daily", "2h succeeded", "26h succeeded")
	})
}
