package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// spreadOver starts replicas whose runs are spread.
func (c *cluster) spreadOver(n int, declared []jobs.Job, options ...scheduler.Option) (leader *replica, others []*replica) {
	c.Helper()
	for range n {
		r := c.start(declared, append(options, scheduler.WithSpread())...)
		if r.leads() {
			leader = r
		} else {
			others = append(others, r)
		}
	}
	time.Sleep(100 * time.Millisecond)
	return leader, others
}

// several are jobs that are due at the same time.
func several(n int, every time.Duration, do func(context.Context, jobs.Run) error) (all []jobs.Job) {
	for i := range n {
		all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(every), Do: do})
	}
	return all
}

// allRuns are the runs of all jobs.
func (c *cluster) allRuns() []ran {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ran)
}

// by are how many runs each replica began.
func (c *cluster) by() map[string]int {
	by := map[string]int{}
	for _, r := range c.allRuns() {
		by[r.Owner]++
	}
	return by
}

// Runs are spread evenly over all replicas, and begin on time.
func TestSpread(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.spreadOver(3, several(6, 10*time.Second, sleep(5*time.Second)))
		c.until(65 * time.Second)
		if by := c.by(); len(by) != 3 || slices.Min(slices.Collect(values(by))) != 12 {
			t.Errorf("runs: %v, want 12 on each of three", by)
		}
		for i := range 6 {
			c.wantBegan(fmt.Sprint("job-", i), 10*time.Second, 20*time.Second, 30*time.Second, 40*time.Second, 50*time.Second, 60*time.Second)
		}
	})
}

func values[K comparable, V any](m map[K]V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// The end of a leader, whichever way, cancels no run of another replica, and delays none.
func TestSpreadLeaderLeaves(t *testing.T) {
	for name, leave := range map[string]func(*replica){
		"killed": (*replica).kill, "stopped": (*replica).stop,
		"resigns": func(r *replica) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			check(r.cluster.T, r.Resign(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				leader, _ := c.spreadOver(3, several(6, time.Minute, sleep(30*time.Second)))
				c.until(70 * time.Second)
				leave(leader)
				c.until(2*time.Minute + 50*time.Second)
				for _, r := range c.allRuns() {
					if r.Owner != leader.Owner() && r.cause != nil {
						t.Errorf("a run of another replica: %+v", r)
					}
				}
				for i := range 6 {
					if rows := c.lines(fmt.Sprint("job-", i)); len(rows) != 2 || rows[1] != "2m succeeded" {
						t.Errorf("job-%d: %q", i, rows)
					}
				}
			})
		})
	}
}

// When a replica dies, its runs are recovered once its session is over, and those of the others go on.
// Runs that a stuck replica does not begin start late on others, and are told as late: no attempt has begun before.
func TestSpreadTellsOfLateStarts(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(6, time.Minute, sleep(30*time.Second))
		var seen [2]witness
		c.start(all, scheduler.WithSpread(), seen[0].option())
		time.Sleep(time.Second)
		stuck := c.start(all, scheduler.WithSpread())
		time.Sleep(time.Second)
		c.start(all, scheduler.WithSpread(), seen[1].option())
		c.until(time.Minute - time.Millisecond)
		stuck.link.set(func(l *link) { l.hold["Open"] = time.Minute })
		c.until(time.Minute + 20*time.Second)
		moved := 0
		for i := range seen {
			for _, e := range events[event.RunStarted](&seen[i]) {
				if late := e.At.Sub(e.Tick); !e.First || e.Late < late-time.Second || e.Late > late {
					t.Errorf("%s, attempt %d, starts %v after its tick, and says: first %t, late %v", e.Job, e.Attempt, late, e.First, e.Late)
				}
				if e.Attempt > 1 {
					moved++
				}
			}
		}
		if moved == 0 {
			t.Error("no run was moved from the stuck replica")
		}
	})
}

func TestSpreadReplicaDies(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(6, time.Minute, sleep(30*time.Second))
		for i := range all {
			all[i].Recover = jobs.RecoverRerun
		}
		_, others := c.spreadOver(3, all)
		c.until(70 * time.Second)
		others[0].kill()
		c.until(2*time.Minute - 1)
		again := 0
		for _, r := range c.allRuns() {
			if r.Attempt == 2 {
				again++
				if r.began > 70*time.Second+lease15+time.Second {
					t.Errorf("recovered late: %+v", r)
				}
			} else if r.Owner != others[0].Owner() && r.cause != nil {
				t.Errorf("a run of another replica: %+v", r)
			}
		}
		if again != 2 {
			t.Errorf("%d runs were recovered, want 2", again)
		}
		c.until(3 * time.Minute)
		for i := range 6 {
			for _, row := range c.records(fmt.Sprint("job-", i))[:2] {
				if row.State != jobs.Succeeded {
					t.Errorf("%+v", row)
				}
			}
		}
	})
}

// lease15 is the default TTL.
const lease15 = 15 * time.Second

// A replica that leaves is given nothing more, finishes what runs, and no other job waits for it.
func TestSpreadDrain(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := append(several(3, time.Hour, sleep(2*time.Minute)), jobs.Job{Name: "quick", Schedule: jobs.Every(time.Second)})
		leader, others := c.spreadOver(3, all, scheduler.WithDrain(10*time.Minute))
		c.until(time.Hour + 10*time.Second)
		for _, r := range append(others, leader) {
			c.start(all, scheduler.WithDrain(10*time.Minute), scheduler.WithSpread())
			r.cancel()
			time.Sleep(10 * time.Second)
		}
		c.until(time.Hour + 5*time.Minute)
		for _, r := range c.allRuns() {
			if r.cause != nil {
				t.Errorf("cancelled: %+v", r)
			}
			if late := r.began - r.Tick.Sub(c.begin); late > time.Second {
				t.Errorf("late by %v: %+v", late, r)
			}
		}
		if n := len(c.runs("quick")); n < 3890 || n > 3901 {
			t.Errorf("%d runs of a job that is due each second", n)
		}
	})
}

// A run that no replica can have waits, and begins as soon as one can.
func TestSpreadWaitsForAReplica(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "a", Schedule: jobs.Every(time.Minute)}
		leader, others := c.spreadOver(2, []jobs.Job{job})
		c.until(90 * time.Second)
		for _, r := range others {
			check(t, r.Remove("a"))
		}
		c.until(5 * time.Minute)
		for _, r := range c.runs("a")[1:] {
			if r.Owner != leader.Owner() && r.began > 2*time.Minute {
				t.Errorf("on a replica that does not have the job: %+v", r)
			}
		}
		c.wantBegan("a", time.Minute, 2*time.Minute, 3*time.Minute, 4*time.Minute, 5*time.Minute)
	})
}

// What a replica does not begin, because it has no slot or does not have the job any more, another one does.
func TestSpreadMovesOn(t *testing.T) {
	for name, hinder := range map[string]func(*replica){
		"no slot":  func(*replica) {},
		"no job":   func(r *replica) { check(r.cluster.T, r.Remove("job-0", "job-1", "job-2", "job-3", "job-4", "job-5")) },
		"no start": func(r *replica) { r.link.set(func(l *link) { l.hold["Open"] = time.Minute }) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				all := several(6, time.Minute, sleep(30*time.Second))
				c.spreadOver(1, all)
				slow := c.start(all, scheduler.WithSpread(), scheduler.WithMaxRuns(1))
				c.until(time.Minute - time.Millisecond)
				hinder(slow)
				c.until(time.Minute + 5*time.Second)
				if n := len(c.allRuns()); n != 6 {
					t.Errorf("%d runs have begun", n)
				}
				c.until(2*time.Minute - 1)
				for i := range 6 {
					if rows := c.lines(fmt.Sprint("job-", i)); len(rows) != 1 || !strings.HasPrefix(rows[0], "1m succeeded") {
						t.Errorf("job-%d: %q", i, rows)
					}
				}
			})
		})
	}
}

// A failover loses what replicas had written lately. No two runs of a job go on at a time, whatever the other server knows
// of them, and every tick is dealt with.
func TestSpreadFailover(t *testing.T) {
	for _, lost := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		for _, with := range []string{"its sessions", "all but the leases"} {
			t.Run(fmt.Sprint(lost, " ", with), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					all := several(4, 30*time.Second, sleep(20*time.Second))
					for i := range all {
						all[i].Recover = jobs.RecoverRerun
					}
					c.spreadOver(3, all)
					c.until(5*time.Minute + 30*time.Second + 10*time.Millisecond - lost)
					restore := c.store.Backup()
					c.until(5*time.Minute + 30*time.Second + 10*time.Millisecond)
					if with == "its sessions" {
						restore()
						c.store.Restart()
					} else {
						c.failOverAll(restore)
					}
					c.until(10 * time.Minute)
					for i := range all {
						c.wantNoneBeside(all[i].Name)
						c.wantEach(all[i].Name, 30*time.Second, 9*time.Minute)
					}
				})
			})
		}
	}
}

// failOverAll is failOver with the leases of all replicas as they were.
func (c *cluster) failOverAll(restore func()) {
	type rows struct {
		lease *store.Lease
		fence *store.Fence
	}
	was := map[string]rows{}
	groups := []string{"g"}
	for _, r := range c.replicas {
		groups = append(groups, store.SessionGroup(r.Owner()))
	}
	for _, group := range groups {
		c.store.Update(group, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			was[group] = rows{l, f}
			return l, f
		})
	}
	restore()
	c.store.Restart()
	for group, r := range was {
		c.store.Update(group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return r.lease, r.fence })
	}
}

// wantNoneBeside fails if two runs of a job went on at a time, or a fencing token is not greater than those before.
func (c *cluster) wantNoneBeside(job string) {
	c.Helper()
	runs := c.runs(job)
	for i, r := range runs {
		for _, before := range runs[:i] {
			if before.ended == 0 || before.ended > r.began {
				c.Errorf("%+v began during %+v", r, before)
			}
			if before.Token >= r.Token {
				c.Errorf("the token of %+v is not greater than that of %+v", r, before)
			}
		}
	}
}

// The database's clock is set back, leaders change and replicas die: the fencing tokens of a job grow.
func TestSpreadTokens(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(2, 10*time.Second, sleep(time.Second))
		c.spreadOver(3, all, scheduler.WithClock(scheduler.WorkerClock))
		for i := range 12 {
			c.until(time.Duration(i+1) * time.Minute)
			c.store.StepClock([]time.Duration{-time.Hour, time.Minute, -time.Second}[i%3])
			c.until(time.Duration(i+1)*time.Minute + 25*time.Second)
			c.start(all, scheduler.WithSpread(), scheduler.WithClock(scheduler.WorkerClock))
			c.leader().kill()
		}
		for _, job := range all {
			c.wantNoneBeside(job.Name)
			if n := len(c.runs(job.Name)); n < 50 {
				t.Errorf("only %d runs\n%s", n, c.rows(job.Name))
			}
		}
	})
}

// A store that cannot spread runs is refused.
func TestSpreadNeedsAStore(t *testing.T) {
	if _, err := scheduler.New(struct{ store.Jobs }{memdb.New()}, "g", scheduler.WithSpread()); err == nil {
		t.Error("no error")
	}
}

// EndDrain ends the drain of what a replica was assigned.
func TestSpreadEndDrain(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader, others := c.spreadOver(2, several(2, time.Minute, sleep(30*time.Minute)), scheduler.WithDrain(time.Hour))
		c.until(65 * time.Second)
		for _, r := range append(others, leader) {
			r.cancel()
			time.Sleep(time.Second)
			if err := r.Check(); err != nil {
				t.Errorf("in its drain: %v", err)
			}
			if !r.EndDrain() {
				t.Error("EndDrain says that there was none")
			}
			<-r.done
		}
		if took := time.Since(c.begin); took > 70*time.Second {
			t.Errorf("it took until %v", took)
		}
	})
}

// A tick that was assigned and has not begun waits for the end of a pause, like one that was not assigned yet.
func TestSpreadPauseOfWhatWaits(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.spreadOver(1, []jobs.Job{
			{Name: "long", Schedule: jobs.Every(time.Minute), Do: sleep(30 * time.Minute)},
			{Name: "b", Schedule: jobs.Cron("30 * * * * *")},
		}, scheduler.WithMaxRuns(1))
		c.until(2 * time.Minute)
		check(t, c.Pause(t.Context(), "b"))
		before := len(c.runs("b"))
		c.until(50 * time.Minute)
		if n := len(c.runs("b")); n != before {
			t.Errorf("%d runs of a job that is paused", n-before)
		}
		check(t, c.Resume(t.Context(), "b"))
		c.until(100 * time.Minute)
		if n := len(c.runs("b")); n == before {
			t.Error("no run after the pause")
		}
	})
}

// A database whose clock is set back ends no run of a replica that does not lead: a session has no ticks.
func TestSpreadClockIsSetBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.store.StepClock(8 * time.Minute)
		leader, _ := c.spreadOver(3, several(6, time.Hour, sleep(10*time.Minute)))
		c.until(53 * time.Minute)
		c.store.StepClock(-16 * time.Minute) // by more than clocks may differ
		c.until(64 * time.Minute)
		if n := len(c.allRuns()); n != 6 {
			t.Errorf("%d runs", n)
		}
		for _, r := range c.allRuns() {
			if r.Owner != leader.Owner() && r.cause != nil {
				t.Errorf("%+v", r)
			}
		}
	})
}

// While runs are away, the leader looks at them each second. It goes by the database's clock all the same.
func TestSpreadClockIsFollowed(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.spreadOver(2, []jobs.Job{
			{Name: "long", Schedule: jobs.Cron("0 0 * * * *"), Do: sleep(50 * time.Minute)},
			{Name: "quick", Schedule: jobs.Every(10 * time.Second), Do: sleep(time.Second)},
		})
		c.until(time.Hour + time.Minute)
		c.store.StepClock(time.Minute)
		c.until(time.Hour + time.Minute + lease15)
		leader := c.leader()
		if skew, _ := leader.Skew(); skew.Ahead < 59*time.Second {
			t.Errorf("the leader takes the database's clock to be %v ahead", skew.Ahead)
		}
	})
}

// handedOver are the leases for which a store was asked for a hand-over signal.
type handedOver struct {
	*memdb.Store
	mu  sync.Mutex
	all []string
}

func (h *handedOver) HandoverSignal(group string) store.HandoverSignal {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, group)
	return h.Store.HandoverSignal(group)
}

// Only the group's lease is handed over: a second signal would share a connection with it, which is seen to die later.
func TestSpreadHasOneHandoverSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &handedOver{Store: memdb.New()}
		s, err := scheduler.New(db, "g", scheduler.WithSpread())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []string{"g"}; !slices.Equal(db.all, want) {
			t.Errorf("signals of %q, want %q", db.all, want)
		}
	})
}

// A leader that assigns a run to itself needs no signal of the database.
func TestSpreadLeaderWakesItself(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(several(1, time.Minute, sleep(time.Second)), scheduler.WithSpread())
		c.until(30 * time.Second)
		r.link.set(func(l *link) { l.fail = map[string]int{"Wake": 1000} })
		c.until(70 * time.Second)
		if runs := c.runs("job-0"); len(runs) != 1 || runs[0].began > time.Minute+50*time.Millisecond {
			t.Errorf("%+v", runs)
		}
	})
}

// A replica that never leads runs what it is assigned. While no other one is there, nobody leads, and it says so.
func TestSpreadFollowerOnly(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(6, time.Minute, sleep(5*time.Second))
		follower := c.start(all, scheduler.WithSpread(), scheduler.WithFollowerOnly())
		c.until(30 * time.Second)
		if err := follower.Check(); follower.leads() || !errors.Is(err, election.ErrLeaderless) {
			t.Errorf("alone: %+v, %v", follower.State(), err)
		}
		leader := c.start(all, scheduler.WithSpread())
		c.until(61 * time.Second)
		if err := follower.Check(); !leader.leads() || err != nil {
			t.Errorf("with another one: %+v, %v", leader.State(), err)
		}
		of := map[string]int{}
		for _, r := range c.allRuns() {
			of[r.Owner]++
		}
		if of[follower.Owner()] != 3 || of[leader.Owner()] != 3 {
			t.Errorf("runs: %v", of)
		}
		roster, err := c.Roster(c.Context())
		check(t, err)
		if told, _ := roster.Find(follower.Owner()); !told.FollowerOnly || told.Presence != jobs.Present {
			t.Errorf("it is told as %+v", told)
		}
		leader.kill()
		next := c.start(all, scheduler.WithSpread())
		c.until(5*time.Minute + 30*time.Second)
		if follower.leads() || !next.leads() {
			t.Errorf("%+v, %+v", follower.State(), next.State())
		}
		for i := range 6 {
			if rows := c.lines(fmt.Sprint("job-", i)); len(rows) != 5 || rows[4] != "5m succeeded" {
				t.Errorf("job-%d: %q", i, rows)
			}
		}
	})
	_, err := scheduler.New(memdb.New(), "g", scheduler.WithFollowerOnly())
	if err == nil || !strings.Contains(err.Error(), "add WithSpread") {
		t.Errorf("without WithSpread: %v", err)
	}
}

// Of the replicas that can have a run now, one with the most labels that the job prefers gets it.
func TestSpreadPrefer(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(4, time.Minute, sleep(5*time.Second))
		for i := range all {
			all[i].Prefer = jobs.Labels{"disk": "ssd", "zone": "a"}
		}
		options := []scheduler.Option{scheduler.WithSpread(), scheduler.WithMaxRuns(2)}
		c.start(all, options...)
		zone := c.start(all, append(options, scheduler.WithLabels(jobs.Labels{"zone": "a"}))...)
		both := c.start(all, append(options, scheduler.WithLabels(jobs.Labels{"zone": "a", "disk": "ssd"}))...)
		c.until(62 * time.Second)
		of := map[string]int{}
		for _, r := range c.allRuns() {
			of[r.Owner]++
		}
		if of[both.Owner()] != 2 || of[zone.Owner()] != 2 {
			t.Errorf("runs: %v", of)
		}
	})
}

// The runs of a sticky job stay on one replica, over changes of leader, and few move when a replica comes or goes.
func TestSpreadSticky(t *testing.T) {
	inBubble(t, func(c *cluster) {
		const n = 200
		all := several(n, time.Minute, sleep(time.Second))
		for i := range all {
			all[i].Sticky = true
		}
		leader, others := c.spreadOver(4, all)
		of := func(minute int) (owners [n]string) {
			c.until(time.Duration(minute)*time.Minute + 10*time.Second)
			for _, r := range c.allRuns() {
				if r.Tick.Equal(c.begin.Add(time.Duration(minute) * time.Minute)) {
					var i int
					_, _ = fmt.Sscanf(r.Job, "job-%d", &i)
					owners[i] = r.Owner
				}
			}
			return owners
		}
		differ := func(a, b [n]string) (count int) {
			for i := range a {
				if a[i] != b[i] {
					count++
				}
			}
			return count
		}
		first := of(1)
		counts := map[string]int{}
		for _, owner := range first {
			counts[owner]++
		}
		for _, r := range c.replicas {
			if got := counts[r.Owner()]; got < 20 || got > 90 {
				t.Errorf("of %d jobs, a replica has %d", n, got)
			}
		}
		check(t, leader.Resign(c.Context()))
		if second := of(2); differ(first, second) > 0 {
			t.Errorf("%d jobs moved with the leader", differ(first, second))
		}
		others[0].stop()
		third := of(3)
		for i := range first {
			if moved := first[i] != third[i]; moved != (first[i] == others[0].Owner()) {
				t.Errorf("job-%d: %s, and then %s", i, first[i], third[i])
			}
		}
		c.start(all, scheduler.WithSpread())
		if moved := differ(third, of(4)); moved < n/20 || moved > n/2 {
			t.Errorf("%d jobs moved to a new replica", moved)
		}
	})
}

// A tick whose replica has died, and that is run again, goes before later ones that wait.
func TestSpreadRecoversInOrder(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "a", Schedule: jobs.Every(time.Second), Misfire: jobs.MisfireAll, Overlap: jobs.OverlapQueue, Recover: jobs.RecoverRerun, Do: sleep(1600 * time.Millisecond)}
		_, others := c.spreadOver(3, []jobs.Job{job})
		c.until(8 * time.Second)
		for _, r := range others {
			if len(r.Running()) > 0 {
				r.kill()
				break
			}
		}
		c.until(time.Minute)
		runs := c.runs("a")
		for i, r := range runs[1:] {
			if r.Tick.Before(runs[i].Tick) {
				t.Errorf("%v began after %v", r.Tick.Sub(c.begin), runs[i].Tick.Sub(c.begin))
			}
		}
	})
}

// The statements at rest are linear in the replicas: each sends as few in a large group as in a small one, and none
// many more than the others.
func TestSpreadManyReplicas(t *testing.T) {
	t.Parallel()
	rate := map[int]float64{}
	for _, n := range []int{10, 100 * rounds.Of(t, 1)} {
		bubble(t, func(c *cluster) {
			all := several(3, 24*time.Hour, sleep(time.Second))
			for range n {
				c.start(all, scheduler.WithSpread())
			}
			c.until(20 * time.Minute)
			for _, r := range c.replicas {
				r.link.set(func(l *link) { clear(l.sent) })
			}
			c.until(40 * time.Minute)
			sum, total, most := map[string]int{}, 0, 0
			for _, r := range c.replicas {
				of := 0
				r.link.set(func(l *link) {
					for op, n := range l.sent {
						sum[op] += n
						of += n
					}
				})
				total, most = total+of, max(most, of)
			}
			seconds := (20 * time.Minute).Seconds()
			rate[n] = float64(total) / float64(n) / seconds
			c.Logf("%d replicas: %.3f statements/s each, at most %.3f: %v", n, rate[n], float64(most)/seconds, sum)
			if rate[n] > 0.45 || float64(most)/seconds > 0.6 {
				c.Errorf("%d replicas: %.3f statements/s each, at most %.3f: %v", n, rate[n], float64(most)/seconds, sum)
			}
		})
	}
	if small, large := rate[10], rate[100*rounds.Of(t, 1)]; large > small {
		t.Errorf("%.3f statements/s each in a small group, and %.3f in a large one", small, large)
	}
}
