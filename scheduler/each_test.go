package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// everywhere is a job that runs on each replica.
func everywhere(do func(context.Context, jobs.Run) error) jobs.Job {
	return jobs.Job{Name: "report", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: do}
}

// on are the replicas that a tick ran on, once for each attempt.
func (c *cluster) on(tick time.Duration) (owners []string) {
	for _, r := range c.runs("report/shards") {
		if r.Tick.Sub(c.begin) == tick {
			owners = append(owners, r.Owner)
		}
	}
	slices.Sort(owners)
	return owners
}

func (c *cluster) wantOn(tick time.Duration, replicas ...*replica) {
	c.Helper()
	var want []string
	for _, r := range replicas {
		want = append(want, r.Owner())
	}
	slices.Sort(want)
	if got := c.on(tick); !slices.Equal(got, want) {
		c.Errorf("at %v: ran on %v, want %v", tick, got, want)
	}
}

// Where runs are spread, a job that runs everywhere has a row for each replica, and can be triggered, followed, paused and
// cancelled. A part that fails is tried again where it has failed.
func TestEachReplica(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := everywhere(func(_ context.Context, run jobs.Run) error {
			if run.Attempt == 1 && run.Shard == 1 {
				return errors.New("no luck")
			}
			return nil
		})
		job.Retry = exact(2, time.Second)
		leader, others := c.spreadOver(3, []jobs.Job{job, {Name: "after", Schedule: jobs.After("report")}})
		if local := leader.Everywhere(); len(local) != 0 {
			t.Errorf("it runs %v by itself", local)
		}
		c.until(time.Minute + 10*time.Second)
		c.wantRows("report", "1m succeeded")
		rows := c.lines("report/shards")
		slices.Sort(rows)
		if want := []string{"1m succeeded", "1m succeeded", "1m succeeded, attempt 2"}; !slices.Equal(rows, want) {
			t.Errorf("parts: %q", rows)
		}
		got := c.on(time.Minute)
		if owners := slices.Compact(slices.Clone(got)); len(got) != 4 || len(owners) != 3 {
			t.Errorf("it ran on %v", got)
		}
		if n := len(c.runs("after")); n != 1 {
			t.Errorf("%d runs follow it", n)
		}
		_, err := c.Trigger(c.Context(), "report")
		check(t, err)
		check(t, c.Pause(c.Context(), "report"))
		c.until(2*time.Minute + 10*time.Second)
		if n := len(c.runs("report/shards")); n != 8 { // with that which was triggered
			t.Errorf("%d attempts", n)
		}
		others[0].stop()
		check(t, c.Resume(c.Context(), "report"))
		c.until(3*time.Minute + 10*time.Second)
		if got := slices.Compact(c.on(3 * time.Minute)); len(got) != 2 || slices.Contains(got, others[0].Owner()) {
			t.Errorf("it ran on %v, and %s had stopped", got, others[0].Owner())
		}
	})
}

// A part whose replica is gone before it begins, or leaves, is skipped, and the run succeeds. One that the replica was
// running is interrupted.
func TestEachReplicaThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		leave func(*replica)
		whole string
		parts []string
	}{
		"stopped": {(*replica).stop, "1m succeeded", []string{"1m skipped: gone", "1m succeeded", "1m succeeded"}},
		"killed":  {(*replica).kill, "1m succeeded", []string{"1m skipped: gone", "1m succeeded", "1m succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				busy := jobs.Job{Name: "busy", Schedule: jobs.At(c.begin.Add(50 * time.Second)), Do: lasting(30 * time.Second), On: jobs.Labels{"is": "busy"}}
				declared := []jobs.Job{everywhere(sleep(time.Second)), busy}
				leader := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1))
				other := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1))
				gone := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1), scheduler.WithLabels(jobs.Labels{"is": "busy"}))
				c.until(70 * time.Second)
				c.wantOn(time.Minute, leader, other)
				c.wantRows("report", "1m running")
				test.leave(gone)
				c.until(115 * time.Second)
				c.wantOn(time.Minute, leader, other)
				c.wantRows("report", test.whole)
				rows := c.lines("report/shards")
				for i, row := range rows {
					rows[i] = strings.ReplaceAll(row, gone.Owner()+" is gone, or does not have the job any more", "gone")
				}
				slices.Sort(rows)
				if !slices.Equal(rows, test.parts) {
					t.Errorf("parts: %q, want %q", rows, test.parts)
				}
			})
		})
	}
}

// A leader that has not read yet what a replica tells of itself leaves that one its part.
func TestEachReplicaThatTheLeaderDoesNotKnowYet(t *testing.T) {
	inBubble(t, func(c *cluster) {
		busy := jobs.Job{Name: "busy", Schedule: jobs.At(c.begin.Add(50 * time.Second)), Do: lasting(30 * time.Second), On: jobs.Labels{"is": "busy"}}
		declared := []jobs.Job{everywhere(sleep(time.Second)), busy}
		leader := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1))
		next := c.startOn(func(l *link) { l.fail["Roster"] = 1e6 }, declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1))
		late := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1), scheduler.WithLabels(jobs.Labels{"is": "busy"}))
		c.until(65 * time.Second)
		c.wantOn(time.Minute, leader, next)
		leader.kill()
		c.until(75 * time.Second)
		if !next.leads() {
			t.Errorf("%+v", next.State())
		}
		c.wantRows("report", "1m running, attempt 2")
		next.link.set(func(l *link) { l.fail["Roster"] = 0 })
		c.until(115 * time.Second)
		c.wantOn(time.Minute, leader, next, late)
		c.wantRows("report", "1m succeeded, attempt 2")
	})
}

// A change of leader, whichever way, loses no part and runs none twice.
func TestEachReplicaOverATakeover(t *testing.T) {
	for name, leave := range map[string]func(*replica){"killed": (*replica).kill, "stopped": (*replica).stop} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				leader, others := c.spreadOver(3, []jobs.Job{everywhere(sleep(30 * time.Second))})
				c.until(70 * time.Second)
				leave(leader)
				c.until(115 * time.Second)
				c.wantOn(time.Minute, leader, others[0], others[1])
				rows := c.lines("report/shards")
				for i, row := range rows {
					rows[i], _, _ = strings.Cut(row, ":")
				}
				slices.Sort(rows)
				if len(rows) != 3 || rows[1] != "1m succeeded" || rows[2] != "1m succeeded" {
					t.Errorf("parts: %q", rows)
				}
				c.until(2*time.Minute + 40*time.Second)
				c.wantOn(2*time.Minute, others...)
			})
		})
	}
}

// A part waits for a replica that is busy, also where the database does not hear of that one for a moment. Nobody is
// told that no replica can have it, which is for others.
func TestEachReplicaThatIsBusy(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		declared := []jobs.Job{everywhere(sleep(time.Second)), {Name: "busy", Schedule: jobs.At(c.begin.Add(50 * time.Second)), Do: sleep(40 * time.Second), On: jobs.Labels{"is": "busy"}}}
		leader, others := c.spreadOver(2, declared, w.option())
		busy := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1), scheduler.WithLabels(jobs.Labels{"is": "busy"}))
		c.until(65 * time.Second)
		c.wantOn(time.Minute, leader, others[0])
		busy.link.set(func(l *link) { l.away = time.Now().Add(2 * time.Second) })
		c.until(110 * time.Second)
		c.wantOn(time.Minute, leader, others[0], busy)
		c.wantRows("report", "1m succeeded")
		if told := events[event.NoReplica](&w); len(told) != 0 {
			t.Errorf("told: %+v", told)
		}
	})
}

// A release or a reload gives a job that ran everywhere a number of shards: the parts of runs that have begun stay with their
// replicas, and those of a replica that is gone, or of a group whose leader runs everything now, are left out.
func TestEachReplicaBecomesShards(t *testing.T) {
	shards := jobs.Job{Name: "report", Schedule: jobs.Every(time.Minute), Shards: 2, Do: sleep(time.Second)}
	for name, change := range map[string]func(c *cluster, old jobs.Job, first []*replica, busy *replica) (on []*replica){
		"reload": func(c *cluster, old jobs.Job, first []*replica, busy *replica) []*replica {
			for _, r := range c.replicas {
				check(c.T, r.Replace(r.doing(shards, old)...))
			}
			return []*replica{first[0], first[1], busy}
		},
		"the busy replica dies": func(c *cluster, old jobs.Job, first []*replica, busy *replica) []*replica {
			for _, r := range c.replicas {
				check(c.T, r.Replace(r.doing(shards, old)...))
			}
			busy.kill()
			return first
		},
		"the leader runs everything": func(c *cluster, old jobs.Job, first []*replica, busy *replica) []*replica {
			check(c.T, c.store.SetSpread(c.Context(), "g", false))
			for _, r := range c.replicas {
				r.kill()
			}
			c.start([]jobs.Job{shards})
			return first
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := []jobs.Job{everywhere(sleep(time.Second)), {Name: "busy", Schedule: jobs.At(c.begin.Add(50 * time.Second)), Do: sleep(40 * time.Second), On: jobs.Labels{"is": "busy"}}}
				leader, others := c.spreadOver(2, declared)
				busy := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1), scheduler.WithLabels(jobs.Labels{"is": "busy"}))
				c.until(65 * time.Second)
				c.wantOn(time.Minute, leader, others[0])
				on := change(c, declared[1], []*replica{leader, others[0]}, busy)
				c.until(175 * time.Second)
				c.wantOn(time.Minute, on...)
				if rows := c.lines("report"); rows[0] != "1m succeeded" && rows[0] != "1m succeeded, attempt 2" {
					t.Errorf("its runs: %q", rows)
				}
			})
		})
	}
}

// A part that its replica is slow to begin is not taken from there: no other replica can have it.
func TestEachReplicaThatIsSlow(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader, others := c.spreadOver(3, []jobs.Job{everywhere(sleep(time.Second))})
		c.until(time.Minute - time.Second)
		others[0].link.set(func(l *link) { l.away = time.Now().Add(5 * time.Second) })
		c.until(75 * time.Second)
		c.wantOn(time.Minute, append(others, leader)...)
		if rows := c.lines("report/shards"); !slices.Equal(rows, []string{"1m succeeded", "1m succeeded", "1m succeeded"}) {
			t.Errorf("parts: %q", rows)
		}
	})
}

// A part that has not begun on a replica which drains, or which has the job no more, is skipped, and does not wait for
// the end of what runs there.
func TestEachReplicaThatDrains(t *testing.T) {
	for name, leave := range map[string]func(*replica){
		"drains": func(r *replica) { r.cancel() },
		"removes": func(r *replica) {
			check(r.cluster.T, r.Remove("report"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := []jobs.Job{everywhere(sleep(time.Second)), {Name: "busy", Schedule: jobs.At(c.begin.Add(50 * time.Second)), Do: sleep(time.Hour), On: jobs.Labels{"is": "busy"}}}
				leader, others := c.spreadOver(2, declared)
				busy := c.start(declared, scheduler.WithSpread(), scheduler.WithMaxRuns(1), scheduler.WithDrain(2*time.Hour), scheduler.WithLabels(jobs.Labels{"is": "busy"}))
				c.until(65 * time.Second)
				leave(busy)
				c.until(80 * time.Second)
				c.wantRows("report", "1m succeeded")
				c.until(2*time.Minute + 10*time.Second)
				c.wantOn(2*time.Minute, leader, others[0])
				c.wantRows("report", "1m succeeded", "2m succeeded")
			})
		})
	}
}

// A leader that has not seen all sessions yet skips no part for that.
func TestEachReplicaUnderANewLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{everywhere(sleep(time.Second)), {Name: "busy", Schedule: jobs.At(c.begin.Add(50 * time.Second)), Do: sleep(60 * time.Second), On: jobs.Labels{"is": "busy"}}}
		leader := c.start(declared, scheduler.WithSpread())
		for range 22 {
			c.start(declared, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		}
		before := func(r *replica) (n int) {
			for _, o := range c.replicas {
				if o.Owner() < r.Owner() {
					n++
				}
			}
			return n
		}
		next := c.start(declared, scheduler.WithSpread())
		for before(next) < 20 { // it watches the sessions, and would know the one that begins after it
			next.stop()
			next = c.start(declared, scheduler.WithSpread())
		}
		c.until(45 * time.Second) // when it has looked, and before it does again
		busy := c.start(declared, scheduler.WithSpread(), scheduler.WithFollowerOnly(), scheduler.WithMaxRuns(1), scheduler.WithLabels(jobs.Labels{"is": "busy"}))
		c.until(70 * time.Second)
		next.link.set(func(l *link) { l.hold["Read"] = 200 * time.Millisecond })
		leader.kill()
		c.until(110 * time.Second)
		if !next.leads() {
			t.Error("another replica leads")
		}
		c.until(118 * time.Second)
		if on := c.on(time.Minute); !slices.Contains(on, busy.Owner()) {
			t.Errorf("it ran on %q, and not on %s: %q", on, busy.Owner(), c.lines("report/shards"))
		}
	})
}

// While no replica can have a part, the run waits, and the leader says so. Where there are more than a run has parts at most, it is
// skipped.
func TestEachReplicaOfNone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		job := everywhere(sleep(time.Second))
		job.On = jobs.Labels{"disk": "ssd"}
		c.spreadOver(2, []jobs.Job{job}, w.option())
		c.until(70 * time.Second)
		c.wantRows("report", "1m waiting")
		if told := events[event.NoReplica](&w); len(told) != 1 || told[0].Job != "report" || told[0].On.String() != "disk=ssd" {
			t.Errorf("told: %+v", told)
		}
		has := c.start([]jobs.Job{job}, scheduler.WithSpread(), scheduler.WithLabels(job.On))
		c.until(90 * time.Second)
		c.wantOn(time.Minute, has)
		c.wantRows("report", "1m succeeded")
	})
}

// To cancel the run is to cancel its parts.
func TestEachReplicaIsCancelled(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.spreadOver(3, []jobs.Job{everywhere(lasting(time.Hour))})
		c.until(70 * time.Second)
		check(t, c.Cancel(c.Context(), jobs.Key{Job: "report", Tick: c.begin.Add(time.Minute)}))
		c.until(75 * time.Second)
		c.wantRows("report", "1m cancelled: jobs: cancelled on request")
		if rows := c.lines("report/shards"); len(rows) != 3 || slices.ContainsFunc(rows, func(row string) bool { return !strings.HasPrefix(row, "1m cancelled") }) {
			t.Errorf("parts: %q", rows)
		}
	})
}

// Where the group is switched to the other mode, each replica of that mode runs the job by itself, and parts that have begun end.
func TestEachReplicaByItself(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{everywhere(sleep(20 * time.Second))}
		leader, others := c.spreadOver(3, declared)
		c.until(70 * time.Second)
		check(t, c.SetSpread(c.Context(), false))
		alone := []*replica{c.start(declared), c.start(declared)}
		for _, r := range append(others, leader) {
			r.stop()
		}
		c.until(3*time.Minute + 30*time.Second)
		by := map[string]int{}
		for _, r := range c.runs("report") {
			by[r.Owner]++
		}
		if len(by) != 2 || by[alone[0].Owner()] != 2 || by[alone[1].Owner()] != 2 {
			t.Errorf("runs: %v", by)
		}
	})
}

// Where more replicas can have it than a run has parts at most, the run is skipped, and says so.
func TestEachReplicaOfTooMany(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.spreadOver(jobs.MaxShards, []jobs.Job{everywhere(func(context.Context, jobs.Run) error { return nil })})
		c.until(70 * time.Second)
		c.wantRows("report", "1m succeeded")
		c.start([]jobs.Job{everywhere(func(context.Context, jobs.Run) error { return nil })}, scheduler.WithSpread())
		c.until(130 * time.Second)
		c.wantRows("report", "1m succeeded", "2m skipped: 129 replicas can have it: a job runs everywhere on 128 at most")
	})
}
