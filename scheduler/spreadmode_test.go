package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// Replicas of another mode do not lead, and say what to do. A group is switched while it is at work: no run is cancelled,
// doubled or lost, also without a drain.
func TestSpreadMode(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(4, time.Minute, sleep(20*time.Second))
		for range 2 {
			c.start(all)
		}
		c.until(61 * time.Second)
		for range 2 {
			c.start(all, scheduler.WithSpread())
		}
		wantLeader := func(at time.Duration, spread bool) {
			t.Helper()
			c.until(at)
			for i, r := range c.replicas {
				if leads := r.leads(); leads && (i >= 2) != spread {
					t.Errorf("replica %d leads", i)
				}
			}
			c.leader()
		}
		wantLeader(3*time.Minute, false)
		check(t, c.store.SetSpread(t.Context(), "g", true))
		wantLeader(5*time.Minute, true)
		check(t, c.store.SetSpread(t.Context(), "g", false))
		wantLeader(7*time.Minute+30*time.Second, false) // without a drain, a replica that leaves cancels its runs
		c.replicas[0].stop()
		c.replicas[1].stop()
		c.until(10 * time.Minute)
		for _, r := range c.replicas[2:] {
			if err := r.Check(); !errors.Is(err, scheduler.ErrMode) {
				t.Errorf("a replica of the other mode: %v", err)
			}
		}
		check(t, c.store.SetSpread(t.Context(), "g", true))
		wantLeader(12*time.Minute, true)
		for i := range 4 {
			name := fmt.Sprint("job-", i)
			c.wantEach(name, time.Minute, 11*time.Minute)
			for _, r := range c.records(name) {
				if r.State != jobs.Succeeded && !r.Tick.Equal(c.begin.Add(12*time.Minute)) || r.Attempt > 1 {
					t.Errorf("%+v", r)
				}
			}
		}
	})
}

// Replicas that have died in a spread group hold up no leader of the other mode for longer than their sessions' TTL.
func TestSpreadModeAfterDeaths(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(2, time.Minute, sleep(30*time.Second))
		c.spreadOver(2, all)
		c.until(65 * time.Second)
		for _, r := range c.replicas {
			r.kill()
		}
		check(t, c.store.SetSpread(t.Context(), "g", false))
		r := c.start(all)
		c.until(10 * time.Minute)
		if err := r.Check(); err != nil || !r.leads() {
			t.Errorf("%+v: %v", r.State(), err)
		}
		for _, job := range all {
			if rows := c.lines(job.Name); len(rows) < 9 || !strings.HasPrefix(rows[0], "1m interrupted") || rows[7] != "8m succeeded" {
				t.Errorf("%s: %q", job.Name, rows)
			}
		}
	})
}

// A switch back does not wait for runs that have not begun.
func TestSpreadModeWhileRunsWait(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{
			{Name: "a", Schedule: jobs.Cron("0 * * * * *"), Do: sleep(20 * time.Second)},
			{Name: "b", Schedule: jobs.Cron("1 * * * * *"), Do: sleep(20 * time.Second)},
			{Name: "c", Schedule: jobs.Cron("2 * * * * *"), Do: sleep(5 * time.Second)},
		}
		c.spreadOver(2, all, scheduler.WithMaxRuns(1))
		plain := c.start(all)
		c.until(3*time.Minute + 4*time.Second) // c waits for a slot
		check(t, c.store.SetSpread(t.Context(), "g", false))
		time.Sleep(200 * time.Millisecond)
		for _, r := range c.replicas[:2] {
			check(t, r.Remove("c"))
		}
		c.until(5 * time.Minute)
		if !plain.leads() {
			t.Errorf("%+v", plain.State())
		}
		c.until(6*time.Minute + 30*time.Second)
		for _, job := range all {
			for _, r := range c.records(job.Name) {
				if r.State != jobs.Succeeded {
					t.Errorf("%+v", r)
				}
			}
		}
	})
}

// Once the runs that a switch has waited for are over, a replica of the new mode leads soon, however long the TTL is.
func TestSpreadModeHandsOverSoon(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(2, time.Minute, sleep(20*time.Second))
		options := []scheduler.Option{scheduler.WithTiming(lease.Timing{TTL: time.Minute})}
		c.spreadOver(2, all, options...)
		plain := c.start(all, options...)
		c.until(3*time.Minute + 5*time.Second)
		check(t, c.store.SetSpread(t.Context(), "g", false))
		c.until(3*time.Minute + 19*time.Second)
		if plain.leads() {
			t.Error("it leads while runs go on")
		}
		c.until(3*time.Minute + 22*time.Second)
		if !plain.leads() {
			t.Errorf("%+v: %v", plain.State(), plain.Check())
		}
	})
}

// When the leader dies while a switch waits for runs, a replica of the time before leads until they are over, and no tick is lost.
func TestSpreadModeWithoutItsLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := append(several(2, time.Minute, sleep(time.Second)), jobs.Job{Name: "long", Schedule: jobs.Every(time.Hour), Do: sleep(20 * time.Minute)})
		for i := range all[:2] {
			all[i].Misfire = jobs.MisfireAll
		}
		leader, _ := c.spreadOver(3, all)
		plain := c.start(all)
		c.until(time.Hour + 30*time.Second)
		long := c.runs("long")[0].Owner
		if long == leader.Owner() {
			check(t, leader.Resign(c.Context()))
			time.Sleep(time.Second)
			leader = c.leader()
		}
		check(t, c.store.SetSpread(t.Context(), "g", false))
		time.Sleep(time.Second)
		leader.kill()
		c.until(time.Hour + 2*time.Minute)
		if next := c.leader(); next == nil || next == plain {
			t.Fatal("nobody of the time before leads")
		}
		c.until(time.Hour + 25*time.Minute)
		if !plain.leads() {
			t.Errorf("%+v: %v", plain.State(), plain.Check())
		}
		for i := range 2 {
			c.wantEach(fmt.Sprint("job-", i), time.Minute, time.Hour+24*time.Minute)
		}
		if rows := c.records("long"); len(rows) != 1 || rows[0].State != jobs.Succeeded || rows[0].Attempt != 1 {
			t.Errorf("%+v", rows)
		}
	})
}

// A switch that is taken back stops nothing, and what was due meanwhile starts.
func TestSpreadModeTakenBack(t *testing.T) {
	test := func(spread bool) func(*testing.T) {
		return func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				all := append(several(2, time.Minute, sleep(time.Second)), jobs.Job{Name: "long", Schedule: jobs.Every(time.Hour), Do: sleep(50 * time.Minute)})
				for range 2 {
					if spread {
						c.start(all, scheduler.WithSpread())
					} else {
						c.start(all)
					}
				}
				c.until(time.Hour + 30*time.Second)
				token := c.leader().State().Token
				check(t, c.store.SetSpread(t.Context(), "g", !spread))
				time.Sleep(40 * time.Second)
				if n := len(c.runs("job-0")); n != 60 {
					t.Errorf("%d runs before the switch was taken back", n)
				}
				check(t, c.store.SetSpread(t.Context(), "g", spread))
				if now := c.leader().State().Token; now != token {
					t.Errorf("the leader has changed: %d, %d", token, now)
				}
				c.until(time.Hour + 20*time.Minute + time.Second)
				if n := len(c.runs("job-0")); n != 80 {
					t.Errorf("%d runs", n)
				}
				if long := c.records("long"); len(long) != 1 || long[0].State != jobs.Running || long[0].Attempt != 1 {
					t.Errorf("%+v", long)
				}
			})
		}
	}
	t.Run("to spread", test(false))
	t.Run("from spread", test(true))
}

// After a switch, the runs that replicas had go on under the term of the leader that runs all jobs: with its token, and not with that
// of their last assignment. Such runs are not taken for those of a replica, when that leader dies.
func TestSpreadModeTokens(t *testing.T) {
	inBubble(t, func(c *cluster) {
		failing := jobs.Job{Name: "a", Schedule: jobs.Every(time.Hour), Retry: jobs.Retry{Attempts: 9, Initial: time.Minute, Max: time.Minute}, Recover: jobs.RecoverRerun, Do: func(ctx context.Context, _ jobs.Run) error {
			time.Sleep(10 * time.Second)
			return errors.New("no luck")
		}}
		c.spreadOver(2, []jobs.Job{failing})
		plain := c.start([]jobs.Job{failing})
		other := c.start([]jobs.Job{failing})
		c.until(time.Hour + 20*time.Second) // it waits for its second attempt
		check(t, c.store.SetSpread(t.Context(), "g", false))
		c.until(time.Hour + 5*time.Minute + 58*time.Second) // in the middle of an attempt
		if other.leads() {
			plain, other = other, plain
		}
		if token := plain.State().Token; !plain.leads() {
			t.Fatalf("%+v", plain.State())
		} else if runs := c.runs("a"); len(runs) < 5 || runs[0].Token > token || runs[4].Token != token {
			t.Errorf("token %d: %+v", token, runs)
		}
		plain.kill()
		killed := time.Hour + 5*time.Minute + 58*time.Second
		c.until(killed + lease15 + time.Second)
		if !other.leads() {
			t.Errorf("%+v: %v", other.State(), other.Check())
		}
		check(t, c.store.SetSpread(t.Context(), "g", true))
		c.until(time.Hour + 12*time.Minute)
		runs := c.runs("a")
		if n := len(runs); n != 9 || runs[n-1].Token <= other.State().Token {
			t.Errorf("%+v", runs)
		}
		for i, r := range runs[1:] {
			if r.Token < runs[i].Token {
				t.Errorf("the tokens go back: %+v", runs)
			}
		}
	})
}

// Once a group is spread again, the fencing tokens of its runs are above those of the time when it was before, also where the
// database's clock was set back, and a leader that runs all jobs had an attempt of a run in between.
func TestSpreadModeTokensAfterAWhile(t *testing.T) {
	inBubble(t, func(c *cluster) {
		failing := jobs.Job{Name: "a", Schedule: jobs.Every(time.Hour), Retry: jobs.Retry{Attempts: 20, Initial: time.Minute, Max: time.Minute}, Do: func(context.Context, jobs.Run) error {
			return errors.New("no luck")
		}}
		c.spreadOver(2, []jobs.Job{failing}, scheduler.WithClock(scheduler.WorkerClock))
		c.start([]jobs.Job{failing}, scheduler.WithClock(scheduler.WorkerClock))
		c.until(time.Hour + 30*time.Second)
		c.store.StepClock(-30 * time.Minute)
		c.until(time.Hour + 3*time.Minute)
		check(t, c.store.SetSpread(t.Context(), "g", false))
		c.until(time.Hour + 6*time.Minute)
		check(t, c.store.SetSpread(t.Context(), "g", true))
		c.until(time.Hour + 12*time.Minute)
		var newest uint64 // of the replicas
		spread, plain := 0, 0
		for _, r := range c.runs("a") {
			switch {
			case r.Owner == c.replicas[2].Owner():
				plain++
			case r.Token <= newest:
				t.Errorf("%+v, after one under %d", r, newest)
			default:
				newest = r.Token
				spread++
			}
		}
		if plain < 2 || spread < 6 {
			t.Errorf("%d attempts of a leader that runs everything, and %d others", plain, spread)
		}
	})
}

// A replica that did not lead because of its mode finds out soon that it may.
func TestSpreadModeIsSeenSoon(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(2, time.Minute, sleep(time.Second))
		for range 2 {
			c.start(all)
		}
		c.until(30*time.Minute + 20*time.Second) // readings have become rare
		check(t, c.store.SetSpread(t.Context(), "g", true))
		c.until(30*time.Minute + 25*time.Second)
		check(t, c.store.SetSpread(t.Context(), "g", false))
		c.until(30*time.Minute + 50*time.Second)
		for _, r := range c.replicas {
			if err := r.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A replica that is started in the wrong mode says so in its log, once, and says when it may lead.
func TestSpreadModeIsLogged(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(1, time.Minute, sleep(time.Second))
		c.start(all).stop()
		core, said := observer.New(zapcore.InfoLevel)
		c.start(all, scheduler.WithSpread(), scheduler.WithLogger(zap.New(core)))
		c.until(5 * time.Minute)
		if lines := said.FilterMessage("this replica does not lead").All(); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), "start this replica without WithSpread") {
			t.Errorf("%+v", lines)
		}
		check(t, c.SetSpread(t.Context(), true))
		c.until(7 * time.Minute)
		if n := said.FilterMessage("the group has the mode of this replica, which may lead again").Len(); n != 1 {
			t.Errorf("it said %d times that it may lead", n)
		}
		c.leader()
	})
}
