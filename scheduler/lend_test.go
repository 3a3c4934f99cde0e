package scheduler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// The leader plans jobs that it lacks, as the replicas that have them declare them: in a deployment, no tick of a new
// job or of an old one waits for a leader that has it.
func TestJobsThatTheLeaderLacks(t *testing.T) {
	inBubble(t, func(c *cluster) {
		of := func(names ...string) (all []jobs.Job) {
			for _, name := range names {
				all = append(all, jobs.Job{Name: name, Schedule: jobs.Every(time.Minute)})
			}
			return all
		}
		var w witness
		leader, others := c.spreadOver(2, of("both", "old"), w.option())
		c.until(70 * time.Second)
		next := c.start(append(of("both", "new"), jobs.Job{Name: "divided", Schedule: jobs.Every(time.Minute), Shards: 2, Do: sleep(time.Second)},
			jobs.Job{Name: "after", Schedule: jobs.After("new")}), scheduler.WithSpread(), w.option())
		c.until(3*time.Minute + 10*time.Second)
		c.wantRows("new", "2m succeeded", "3m succeeded")
		c.wantRows("after", "2m waiting", "3m waiting") // for a leader that has it
		c.wantRows("divided", "2m succeeded", "3m succeeded")
		for _, job := range []string{"new", "divided/shards"} {
			for _, r := range c.runs(job) {
				if r.Owner != next.Owner() {
					t.Errorf("%s ran on %s", job, r.Owner)
				}
			}
		}
		leader.stop()
		c.until(5*time.Minute + 10*time.Second)
		c.wantRows("old", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded")
		c.wantRows("new", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded")
		others[0].stop()
		c.until(7*time.Minute + 10*time.Second)
		if rows := c.lines("old"); len(rows) != 5 {
			t.Errorf("nobody has the old job: %q", rows)
		}
		if rows := c.lines("new"); len(rows) != 6 {
			t.Errorf("the new job: %q", rows)
		}
		if told := events[event.NoReplica](&w); len(told) != 0 {
			t.Errorf("told: %+v", told)
		}
		if d := next.Health().Differences; d.Any() {
			t.Errorf("differences %+v", d)
		}
	})
}

// odd is a schedule that other programs cannot read.
type odd struct{ jobs.Schedule }

func (odd) String() string { return "odd" }

// A job that the leader lacks ends when the last replica that has it removes it. One that the leader cannot plan is a
// difference, and no other is.
func TestJobsThatTheLeaderLacksEnd(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader, _ := c.spreadOver(2, nil)
		labels := jobs.Labels{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
		other := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Prefer: labels}, {Name: "odd", Schedule: odd{jobs.Every(time.Minute)}}}, scheduler.WithSpread())
		c.until(70 * time.Second)
		c.wantRows("job", "1m succeeded")
		c.wantRows("odd")
		if d := leader.Health().Differences; !slices.Equal(d.NotLed, []string{"odd"}) {
			t.Errorf("differences %+v", d)
		}
		roster, err := c.store.Roster(c.Context(), "g", jobs.Roster{})
		check(t, err)
		if r, _ := roster.Find(other.Owner()); r.List != jobs.FirstList+1 || len(r.Lent) != 1 {
			t.Errorf("it tells %+v", r) // a list that is the same keeps its number
		}
		check(t, other.Replace(other.doing(jobs.Job{Name: "job", Schedule: jobs.Every(30 * time.Second)})...))
		c.until(130 * time.Second)
		c.wantRows("job", "1m succeeded", "1m30s succeeded", "2m succeeded")
		check(t, other.Remove("job"))
		c.until(5 * time.Minute)
		if rows := c.lines("job"); len(rows) != 3 {
			t.Errorf("%q", rows)
		}
	})
}

// Of several replicas that declare such a job, the leader goes by the one that began last: that of the newer release.
func TestJobsThatTheLeaderLacksDiffer(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.spreadOver(2, nil)
		for _, every := range []time.Duration{time.Minute, 20 * time.Second, time.Minute} {
			c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(every)}}, scheduler.WithSpread())
			time.Sleep(time.Second)
		}
		last := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(30 * time.Second)}}, scheduler.WithSpread())
		c.until(70 * time.Second)
		c.wantRows("job", "30s succeeded", "1m succeeded")
		last.stop()
		c.until(130 * time.Second)
		c.wantRows("job", "30s succeeded", "1m succeeded", "2m succeeded")
	})
}

// The next leader goes on with them, also after a death.
func TestJobsThatNoLeaderHas(t *testing.T) {
	for name, leave := range map[string]func(*replica){"killed": (*replica).kill, "stopped": (*replica).stop} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				leader, _ := c.spreadOver(3, nil)
				c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}, scheduler.WithSpread(), scheduler.WithFollowerOnly())
				c.until(10*time.Minute + 10*time.Second)
				leave(leader)
				c.until(15*time.Minute + 10*time.Second)
				c.wantEach("job", time.Minute, 15*time.Minute)
				for _, r := range c.records("job") {
					if late := r.Started.Sub(r.Tick); late > 20*time.Second {
						t.Errorf("%v began %v late", r.Tick, late)
					}
				}
			})
		})
	}
}

// A job that one release divides, and another one does not, goes on when the last replica of the release that divides it has died: its
// run is over as failed, and the next ones run.
func TestJobsThatTheLeaderLacksAreDividedNoMore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		of := func(shards int) []jobs.Job {
			return []jobs.Job{{Name: "job", Schedule: jobs.Every(10 * time.Second), Shards: shards, Misfire: jobs.MisfireAll, Recover: jobs.RecoverRerun, Do: sleep(4 * time.Second)}}
		}
		c.spreadOver(2, nil)
		for range 2 {
			c.start(of(0), scheduler.WithSpread(), scheduler.WithFollowerOnly())
		}
		time.Sleep(time.Second)
		divides := c.start(of(2), scheduler.WithSpread(), scheduler.WithFollowerOnly())
		c.until(72 * time.Second)
		divides.kill()
		c.until(10*time.Minute + 8*time.Second)
		rows := c.records("job")
		if last := rows[len(rows)-1]; last.Tick.Before(c.begin.Add(9*time.Minute)) || !last.State.Over() {
			t.Errorf("the last one: %+v", last)
		}
		for _, r := range rows[:len(rows)-1] {
			if !r.State.Over() {
				t.Errorf("%+v", r)
			}
		}
	})
}

// A leader that removes a job, or one that lacks it, learns of it at once from the replicas that have it.
func TestJobsThatTheLeaderLacksGoOn(t *testing.T) {
	inBubble(t, func(c *cluster) {
		both := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Second)}, {Name: "kept", Schedule: jobs.Every(time.Second)}}
		leader, _ := c.spreadOver(2, both)
		c.start(both, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		c.until(5 * time.Minute)
		check(t, leader.Remove("job"))
		c.until(8 * time.Minute)
		check(t, c.replicas[1].Remove("job"))
		check(t, leader.Add(leader.doing(both[0])...))
		c.until(11 * time.Minute)
		leader.kill()
		c.until(14 * time.Minute)
		var last, at time.Duration
		for _, r := range c.runs("job") {
			most := 4 * time.Second
			if last > 11*time.Minute-2*time.Second && last < 11*time.Minute+time.Second {
				most += noHeartbeat // the death is seen
			}
			if at = r.began; at-last > most {
				t.Errorf("from %v to %v it did not run", last, at)
			}
			last = at
		}
		if last < 14*time.Minute-4*time.Second {
			t.Errorf("it ran at %v the last time", last)
		}
	})
}

// Two releases that want one name for a job and for shards do not keep the leader from other changes, and a pool has the leader's numbers.
func TestJobsThatTheLeaderLacksClash(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader, _ := c.spreadOver(2, []jobs.Job{{Name: "own", Schedule: jobs.Every(time.Minute), Pool: jobs.Pool{Name: "p", Limit: 1}, Do: sleep(20 * time.Second)}})
		c.start([]jobs.Job{{Name: "a", Schedule: jobs.Every(time.Minute), Shards: 2}}, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		c.start([]jobs.Job{
			{Name: "a/shards", Schedule: jobs.Every(time.Minute)},
			{Name: "long", Schedule: jobs.Cron(strings.Repeat("1,", 2000) + "1 * * * *")},
			{Name: "of-pool", Schedule: jobs.Every(time.Minute), Pool: jobs.Pool{Name: "p", Limit: 5}, Do: sleep(20 * time.Second)},
		}, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		c.until(5 * time.Minute)
		check(t, leader.Add(leader.doing(jobs.Job{Name: "new", Schedule: jobs.Every(time.Minute)})...))
		c.until(10*time.Minute + 30*time.Second)
		for name, least := range map[string]int{"own": 8, "new": 4, "a/shards": 8, "of-pool": 8} {
			if n := len(c.runs(name)); n < least {
				t.Errorf("%d runs of %s", n, name)
			}
		}
		if d := leader.Health().Differences; !slices.Contains(d.NotLed, "long") {
			t.Errorf("%+v", d)
		}
	})
}

// Replicas that are at work tell of jobs that the leader lacks as soon as those that are not.
func TestJobsThatTheLeaderLacksOfBusyReplicas(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{
			{Name: "job", Schedule: jobs.Every(time.Second)},
			{Name: "long", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapAllow, Limit: 6, Do: sleep(3 * time.Hour)},
		}
		leader, _ := c.spreadOver(1, all)
		for range 2 {
			c.start(all, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		}
		c.until(20*time.Minute + 300*time.Millisecond)
		check(t, leader.Remove("job"))
		c.until(25 * time.Minute)
		missed := 0
		for _, r := range c.records("job") {
			missed += r.Missed
		}
		if missed > 5 {
			t.Errorf("%d ticks were missed", missed)
		}
	})
}

// When the leader has a pool no more, the numbers count of those that have it.
func TestPoolOfJobsThatTheLeaderLacks(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader, _ := c.spreadOver(1, []jobs.Job{{Name: "own", Schedule: jobs.Every(time.Minute), Pool: jobs.Pool{Name: "p", Limit: 5}, Do: sleep(time.Second)}})
		c.start([]jobs.Job{
			{Name: "job", Schedule: jobs.Every(10 * time.Second), Overlap: jobs.OverlapAllow, Pool: jobs.Pool{Name: "p", Limit: 1}, Do: sleep(45 * time.Second)},
		}, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		most := func(from, to time.Duration) (most int) {
			for at := from; at < to; at += time.Second {
				n := 0
				for _, r := range c.runs("job") {
					if r.began <= at && at < endOf(r, nil) {
						n++
					}
				}
				most = max(most, n)
			}
			return most
		}
		c.until(3 * time.Minute)
		check(t, leader.Remove("own"))
		c.until(10 * time.Minute)
		if before, after := most(time.Minute, 3*time.Minute), most(5*time.Minute, 9*time.Minute); before != 5 || after != 1 {
			t.Errorf("%d runs at a time with the leader's pool, and then %d: want 5 and 1", before, after)
		}
	})
}
