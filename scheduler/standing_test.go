package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A job's recovery is told after a takeover although its failure is not in the history any
// more.
func TestRecoveryWithAShortHistory(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, []jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnRecovery()},
			{Name: "a", Schedule: jobs.Every(20 * time.Minute), History: jobs.History{Keep: 1}, Do: c.failing(time.Hour)},
		})
		c.until(70 * time.Minute)
		c.control(c.Pause, "a")
		c.until(150 * time.Minute)
		// The term prunes at instants of its own, and a job of which no run ends after a day.
		_, err := c.store.Prune(c.Context(), "g", "a", jobs.History{Keep: 1}, 0)
		check(c.T, err)
		if records := c.records("a"); len(records) != 1 || records[0].State != jobs.Skipped {
			t.Errorf("the history is\n%s", c.rows("a"))
		}
		first.kill()
		c.until(170 * time.Minute)
		c.control(c.Resume, "a")
		c.until(4 * time.Hour)
		c.wantNotices("tell", "failure of a 1h", "recovery of a 3h")
	})
}

// Runs of a job that overlap, end in another order than that of their ticks, and are written
// together or out of order, leave the next term in no doubt whether the job works.
func TestRecoveryOfRunsThatOverlap(t *testing.T) {
	const unit, hold = 2 * time.Minute, 500 * time.Millisecond
	type overlapping struct {
		name  string
		ends  []time.Duration // of the runs of the first ticks, after unit 4
		fails time.Duration   // the tick of the run that fails
		late  bool            // only the first end is long under way
		want  []string
	}
	of := func(c *cluster, scene overlapping) []jobs.Job {
		return []jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnRecovery(), Recover: jobs.RecoverRerun},
			{Name: "a", Schedule: jobs.Every(unit), Overlap: jobs.OverlapAllow, Recover: jobs.RecoverRerun, History: jobs.History{Keep: 1}, Do: func(ctx context.Context, run jobs.Run) error {
				if n := int(run.Tick.Sub(c.begin)/unit) - 1; n < len(scene.ends) {
					_ = sleep(time.Until(c.begin.Add(4*unit+scene.ends[n])))(ctx, run)
				}
				return c.failing(scene.fails)(ctx, run)
			}},
		}
	}
	const m = time.Minute
	scenes := []overlapping{
		{"works last", []time.Duration{m, m + hold/10, m + hold/5, m + hold/8}, 4 * unit, false, []string{"failure of a 8m", "recovery of a 6m"}},
		{"fails last", []time.Duration{m, m + hold/10, m + hold/5, m + hold/8}, 3 * unit, false, []string{"failure of a 6m", "recovery of a 10m"}},
		{"works soon after", []time.Duration{m, m + hold/2}, unit, true, []string{"failure of a 2m", "recovery of a 4m"}},
		{"fails soon after", []time.Duration{m, m + hold/2}, 2 * unit, true, []string{"failure of a 4m", "recovery of a 10m"}},
	}
	begin := func(c *cluster, scene overlapping) *replica {
		first := c.watched(2, of(c, scene))
		c.until(4*unit + m/2)
		first.link.set(func(l *link) { l.hold["Move"] = hold })
		c.until(4*unit + m - time.Second)
		return first
	}
	end := func(c *cluster, scene overlapping, first *replica) {
		if scene.late {
			c.until(4*unit + m + hold/4)
			first.link.set(func(l *link) { clear(l.hold) })
		}
		c.until(4*unit + m + 10*time.Second)
	}
	for _, scene := range scenes {
		t.Run(scene.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				first := begin(c, scene)
				end(c, scene, first)
				first.kill()
				c.until(8 * unit)
				c.wantNotices("tell", scene.want...)
			})
		})
		for _, effect := range []bool{false, true} {
			for n := 1; n <= 10; n++ {
				t.Run(fmt.Sprintf("%s, killed in statement %d, effect %t", scene.name, n, effect), func(t *testing.T) {
					inBubble(t, func(c *cluster) {
						first := begin(c, scene)
						first.link.set(func(l *link) { l.doomed, l.effect, l.onDeath = n, effect, first.kill })
						end(c, scene, first)
						c.until(8 * unit)
						got := c.notices("tell")
						recoveries := slices.DeleteFunc(slices.Clone(got), func(n string) bool { return !strings.HasPrefix(n, "recovery of a ") })
						if len(got) != 2 || len(recoveries) != 1 || !slices.Contains(got, scene.want[0]) {
							t.Errorf("told %q, want %q and a recovery", got, scene.want[0])
						}
					})
				})
			}
		}
	}
}

// The ends of hundreds of runs of one job wait for few statements, and none is lost over an
// outage.
func TestEndsOfOneJobGoTogether(t *testing.T) {
	const runs = 450
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "a", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, Do: func(ctx context.Context, run jobs.Run) error {
				_ = sleep(time.Until(c.begin.Add(time.Minute)))(ctx, run)
				if run.Trigger%2 == 0 {
					return errNo
				}
				return nil
			}},
		})
		for range runs {
			if _, err := c.Trigger(c.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		c.until(59 * time.Second)
		before := r.link.count("Move")
		r.link.set(func(l *link) { l.away = c.begin.Add(62 * time.Second) })
		c.until(70 * time.Second)
		succeeded, failed := 0, 0
		for _, r := range c.records("a") {
			switch r.State {
			case jobs.Succeeded:
				succeeded++
			case jobs.Failed:
				failed++
			}
		}
		if succeeded+failed != runs || succeeded == 0 || failed == 0 {
			t.Errorf("%d succeeded and %d failed, of %d", succeeded, failed, runs)
		}
		if n := r.link.count("Move") - before; n > 25 {
			t.Errorf("%d statements", n)
		}
	})
}

// The failure of a run whose row is gone is told nowhere. So no recovery follows it.
func TestNoRecoveryOfARunThatIsGone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnRecovery()},
			{Name: "a", Schedule: jobs.Every(time.Minute), Do: c.failing(time.Minute)},
		})
		r.link.set(func(l *link) { l.gone = jobs.Key{Job: "a", Tick: c.begin.Add(time.Minute).UTC()} })
		c.until(5 * time.Minute)
		c.wantNotices("tell")
	})
}

// A job that is removed and added again in a term, after it failed, recovers; and a backfill
// is no outcome of a job.
func TestRecoveryOfAJobThatIsAddedAgain(t *testing.T) {
	inBubble(t, func(c *cluster) {
		a := jobs.Job{Name: "a", Schedule: jobs.Every(time.Hour), Do: func(ctx context.Context, run jobs.Run) error {
			if run.Trigger != 0 {
				return errNo
			}
			return c.failing(2*time.Hour)(ctx, run)
		}}
		all := []jobs.Job{{Name: "tell", Schedule: jobs.OnFailure().OnRecovery()}, a}
		r := c.start(all)
		c.until(2*time.Hour + time.Minute)
		if err := r.Remove("a"); err != nil {
			t.Fatal(err)
		}
		c.until(2*time.Hour + 2*time.Minute)
		if err := r.Add(r.doing(a)...); err != nil {
			t.Fatal(err)
		}
		c.until(4 * time.Hour)
		c.wantNotices("tell", "failure of a 2h", "recovery of a 3h")
		if _, err := c.Backfill(c.Context(), "a", jobs.Backfill{From: c.begin.Add(3 * time.Hour), To: c.begin.Add(3*time.Hour + time.Minute)}); err != nil {
			t.Fatal(err)
		}
		c.until(5*time.Hour + time.Minute)
		r.kill()
		c.start(all)
		c.until(8 * time.Hour)
		c.wantNotices("tell", "failure of a 2h", "failure of a 3h", "recovery of a 3h")
	})
}

// After a takeover, the outcomes of hundreds of jobs wait for no reading of the history, also
// where it has many failures.
func TestStandingsNeedNoHistory(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{{Name: "tell", Schedule: jobs.OnRecovery()}}
		for i := range 600 {
			all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Hour), Do: c.failing(time.Hour)})
		}
		first := c.start(all)
		c.until(90 * time.Minute)
		first.stop()
		second := c.startOn(func(l *link) { l.delay["Runs"], l.delay["Newest"] = 50*time.Millisecond, 50*time.Millisecond }, all)
		c.until(2*time.Hour + 2*time.Second)
		if n := len(c.notices("tell")); n != 20 {
			t.Errorf("%d notices", n)
		}
		succeeded := 0
		for _, r := range c.ran {
			if r.Tick.Equal(c.begin.Add(2 * time.Hour)) {
				succeeded++
			}
		}
		records, err := c.Runs(c.Context(), jobs.Filter{State: jobs.Succeeded, Limit: 1000})
		if err != nil || len(records) < 600 || succeeded < 600 {
			t.Errorf("2 s after the tick %d outcomes are there: %v", len(records), err)
		}
		second.link.set(func(l *link) {
			if n := l.sent["Runs"] + l.sent["Newest"]; n > 0 {
				t.Errorf("%d statements", n)
			}
		})
	})
}
