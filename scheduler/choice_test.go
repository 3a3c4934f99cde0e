package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// A run goes to a replica that has the labels which its job wants, and waits where there is none.
func TestSpreadLabels(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{
			{Name: "any", Schedule: jobs.Every(10 * time.Second), Do: sleep(time.Second)},
			{Name: "ssd", Schedule: jobs.Every(10 * time.Second), Do: sleep(time.Second), On: jobs.Labels{"disk": "ssd"}},
			{Name: "far", Schedule: jobs.Every(10 * time.Second), Do: sleep(time.Second), On: jobs.Labels{"disk": "ssd", "zone": "b"}, Overlap: jobs.OverlapQueue},
		}
		core, log := observer.New(zap.InfoLevel)
		c.spreadOver(2, all, scheduler.WithLogger(zap.New(core)))
		labelled := c.start(all, scheduler.WithSpread(), scheduler.WithLabels(jobs.Labels{"disk": "ssd", "zone": "a"}))
		c.until(45 * time.Second)
		for _, r := range c.runs("ssd") {
			if r.Owner != labelled.Owner() {
				t.Errorf("a run of ssd began on %s", r.Owner)
			}
		}
		c.wantBegan("ssd", 10*time.Second, 20*time.Second, 30*time.Second, 40*time.Second)
		c.wantBegan("far")
		if lines := log.FilterMessageSnippet("wait for a replica that can have them").FilterField(zap.String("job", "far")).All(); len(lines) != 1 {
			t.Errorf("the log says %v", lines)
		}
		c.start(all, scheduler.WithSpread(), scheduler.WithLabels(jobs.Labels{"disk": "ssd", "zone": "b"}))
		c.until(65 * time.Second)
		if n := len(c.runs("far")); n < 2 {
			t.Errorf("far ran %d times", n)
		}
		if lines := log.FilterMessageSnippet("wait for a replica no longer").FilterField(zap.String("job", "far")).All(); len(lines) != 1 {
			t.Errorf("the log says %v", lines)
		}
	})
}

// Runs are shared out by the slots that replicas have, and those beyond wait for the first that is free.
func TestSpreadSlots(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := several(12, time.Minute, sleep(10*time.Second))
		var of []*replica
		for _, n := range []int{1, 2, 3} {
			of = append(of, c.start(all, scheduler.WithSpread(), scheduler.WithMaxRuns(n)))
		}
		c.until(time.Minute + 15*time.Second)
		by := c.by()
		for i, r := range of {
			if want := 2 * (i + 1); by[r.Owner()] != want {
				t.Errorf("a replica with %d slots began %d runs within two rounds, want %d", i+1, by[r.Owner()], want)
			}
		}
		for i, r := range c.allRuns() {
			if late := r.began - time.Minute; i < 6 && late > 50*time.Millisecond || i >= 6 && (late < 10*time.Second || late > 10*time.Second+100*time.Millisecond) {
				t.Errorf("run %d began %v after its tick", i, late)
			}
		}
	})
}

// Labels are for groups that are spread.
func TestLabelsWithoutSpread(t *testing.T) {
	inBubble(t, func(c *cluster) {
		if _, err := scheduler.New(c.store, "g", scheduler.WithLabels(jobs.Labels{"a": "b"})); err == nil || !strings.Contains(err.Error(), "add WithSpread") {
			t.Errorf("labels without spread: %v", err)
		}
		if _, err := scheduler.New(c.store, "g", scheduler.WithSpread(), scheduler.WithLabels(jobs.Labels{"a b": "c"})); err == nil || !strings.Contains(err.Error(), `label "a b"="c"`) {
			t.Errorf("a label with a blank: %v", err)
		}
		s, err := scheduler.New(c.store, "g")
		check(t, err)
		err = s.Add(jobs.Job{Name: "a", Schedule: jobs.Every(time.Minute), Do: sleep(0), On: jobs.Labels{"disk": "ssd"}})
		if err == nil || !strings.Contains(err.Error(), `job "a": On disk=ssd`) {
			t.Errorf("a job that wants labels: %v", err)
		}
	})
}

// A run goes to a replica that has what follows it and what tells of it, as the leader has them.
func TestSpreadFollowers(t *testing.T) {
	inBubble(t, func(c *cluster) {
		before := []jobs.Job{
			{Name: "extract", Schedule: jobs.Every(10 * time.Second), Do: sleep(time.Second)},
			{Name: "bad", Schedule: jobs.Every(10 * time.Second), Do: func(context.Context, jobs.Run) error { return errors.New("bad") }},
		}
		after := append(slices.Clone(before),
			jobs.Job{Name: "load", Schedule: jobs.After("extract"), Do: sleep(0)},
			jobs.Job{Name: "tell", Schedule: jobs.OnFailure().AtMost(0, 0), Do: sleep(0)})
		leader := c.start(after, scheduler.WithSpread())
		time.Sleep(100 * time.Millisecond)
		c.start(before, scheduler.WithSpread())
		c.until(65 * time.Second)
		for _, name := range []string{"load", "tell"} {
			if n := len(c.runs(name)); n != 6 {
				t.Errorf("%s ran %d times, want 6", name, n)
			}
		}
		if by := c.by(); len(by) != 1 || by[leader.Owner()] != 24 {
			t.Errorf("runs by replica: %v", by)
		}
		c.start(after, scheduler.WithSpread())
		c.until(125 * time.Second)
		if by := c.by(); len(by) != 2 {
			t.Errorf("runs by replica: %v", by)
		}
	})
}

// Each recovery is told once, also where the runs of a job overlap: by the order of their ends.
func TestSpreadRecoveries(t *testing.T) {
	for name, long := range map[string]func(failing bool) time.Duration{
		"all as long": func(bool) time.Duration { return 1500 * time.Millisecond },
		"failing ones longest": func(failing bool) time.Duration {
			return map[bool]time.Duration{true: 6 * time.Second, false: 1200 * time.Millisecond}[failing]
		},
		"failing ones first": func(failing bool) time.Duration {
			return map[bool]time.Duration{true: 100 * time.Millisecond, false: 5 * time.Second}[failing]
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var mu sync.Mutex
				failing, recoveries, told := false, 0, 0
				all := []jobs.Job{
					{Name: "job", Schedule: jobs.Every(time.Second), Overlap: jobs.OverlapAllow, Do: func(ctx context.Context, run jobs.Run) error {
						fails := run.Tick.Unix()%12 == 0
						err := sleep(long(fails))(ctx, run)
						mu.Lock()
						defer mu.Unlock()
						if !fails && failing {
							recoveries++
						}
						if failing = fails; fails {
							err = errors.New("bad")
						}
						return err
					}},
					{Name: "tell", Schedule: jobs.OnRecovery().AtMost(0, 0), Do: func(context.Context, jobs.Run) error {
						mu.Lock()
						defer mu.Unlock()
						told++
						return nil
					}},
				}
				c.spreadOver(3, all)
				c.until(125 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if recoveries < 9 || told != recoveries {
					t.Errorf("%d recoveries, %d told", recoveries, told)
				}
				if by := c.by(); len(by) < 2 {
					t.Errorf("runs by replica: %v", by)
				}
			})
		})
	}
}

// A run that has failed is tried again on another replica, if there is one.
func TestSpreadRetries(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				failing := jobs.Job{Name: "a", Schedule: jobs.Every(time.Minute), Retry: jobs.Retry{Attempts: 4, Initial: time.Second, Max: time.Second}, Do: func(context.Context, jobs.Run) error {
					return errors.New("no luck")
				}}
				c.spreadOver(n, append(several(4, 10*time.Second, sleep(time.Second)), failing))
				c.until(5*time.Minute + 30*time.Second)
				runs := c.runs("a")
				if len(runs) != 5*4 {
					t.Errorf("%d attempts", len(runs))
				}
				for i, r := range runs {
					if n > 1 && r.Attempt > 1 && r.Owner == runs[i-1].Owner {
						t.Errorf("attempt %d is on the replica of the one before", r.Attempt)
					}
				}
			})
		})
	}
}

// A run that was assigned to a replica which leaves, and which no other one can have, is taken back. It is told once that it waits.
func TestSpreadLeavesWhatNobodyCanHave(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ssd := jobs.Labels{"disk": "ssd"}
		all := []jobs.Job{{Name: "long", Schedule: jobs.Manual(), On: ssd, Do: sleep(40 * time.Second)}, {Name: "picky", Schedule: jobs.Manual(), On: ssd, Do: sleep(0)}}
		var w witness
		c.start(all, scheduler.WithSpread(), w.option())
		other := c.start(all, scheduler.WithSpread(), scheduler.WithLabels(ssd), scheduler.WithDrain(time.Minute))
		time.Sleep(5 * time.Second)
		ctx := context.Background()
		_, err := c.leader().Jobs().Trigger(ctx, "long")
		check(t, err)
		time.Sleep(time.Second)
		other.cancel()
		_, err = c.leader().Jobs().Trigger(ctx, "picky")
		check(t, err)
		time.Sleep(20 * time.Second)
		if told := events[event.NoReplica](&w); len(told) != 1 || told[0].Job != "picky" || told[0].Over {
			t.Errorf("%+v", told)
		}
		snapshot, err := c.leader().Jobs().Load(ctx)
		if none := snapshot.Unassigned(); err != nil || len(none) != 1 || none[0].Job != "picky" {
			t.Errorf("%+v, %v", none, err)
		}
		c.start(all, scheduler.WithSpread(), scheduler.WithLabels(ssd))
		time.Sleep(5 * time.Second)
		if n := len(c.runs("picky")); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
}

// A run whose replica died before it began it, and that no other replica can have, waits under nobody once the session of that one is over.
func TestSpreadLabelsOfAReplicaThatDied(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{{Name: "ssd", Schedule: jobs.Every(time.Minute), Do: sleep(time.Second), On: jobs.Labels{"disk": "ssd"}}}
		labels := scheduler.WithLabels(jobs.Labels{"disk": "ssd"})
		c.spreadOver(2, all)
		died := c.start(all, scheduler.WithSpread(), labels)
		c.until(time.Minute - 100*time.Millisecond)
		died.kill()
		c.until(100 * time.Second)
		snapshot, err := c.Load(c.Context())
		check(t, err)
		if waits := snapshot.Unassigned(); len(waits) != 1 || waits[0].Owner != "" {
			t.Errorf("%+v of %+v", waits, snapshot.Open)
		}
		other := c.start(all, scheduler.WithSpread(), labels)
		c.until(110 * time.Second)
		for _, r := range c.runs("ssd") {
			if r.Owner != other.Owner() || r.Tick.Sub(c.begin) != time.Minute {
				t.Errorf("%+v", r)
			}
		}
		if n := len(c.runs("ssd")); n != 1 {
			t.Errorf("%d runs: %s", n, c.rows("ssd"))
		}
	})
}
