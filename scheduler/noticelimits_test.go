package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

// However many jobs fail at once, there are as many notices as the limit allows, also over a
// takeover. The next one says how many were left out since the leader counts.
func TestNoticesAreLimited(t *testing.T) {
	inBubble(t, func(c *cluster) {
		const many = 2000
		all := []jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure()},
			{Name: "few", Schedule: jobs.OnFailure().AtMost(3, 90*time.Minute)},
			{Name: "unlimited", Schedule: jobs.OnFailure("job-7").AtMost(0, 0)},
		}
		for i := range many {
			all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Hour), Do: func(context.Context, jobs.Run) error { return errNo }})
		}
		var w witness
		first := c.start(all, w.option())
		c.until(time.Minute)
		c.start(all)
		c.until(time.Hour + 10*time.Minute)
		if tell, few, one := len(c.notices("tell")), len(c.notices("few")), len(c.notices("unlimited")); tell != 20 || few != 3 || one != 1 {
			t.Errorf("%d, %d and %d notices", tell, few, one)
		}
		left, said := map[string]int{}, 0
		for _, e := range events[event.NoticeLeftOut](&w) {
			left[e.Notifier]++
			if e.First {
				said++
			}
		}
		if left["tell"] != many-20 || left["few"] != many-3 || said != 2 {
			t.Errorf("left out: %v, said %d times", left, said)
		}
		first.kill() // its successor has the limit from the ledger
		c.until(90 * time.Minute)
		if few := c.notices("few"); len(few) != 3 {
			t.Errorf("after a takeover: %q", few)
		}
		c.triggerWith("job-1", nil)
		c.until(91 * time.Minute)
		if few, tell := c.notices("few"), c.notices("tell"); len(few) != 3 || len(tell) != 20 {
			t.Errorf("after a takeover: %d and %d notices", len(few), len(tell))
		}
		c.until(2*time.Hour + time.Minute) // the limit of the one is over, and that of the other is not
		tell, few := c.notices("tell"), c.notices("few")
		if len(tell) != 40 || len(few) != 3 || !slices.ContainsFunc(tell, func(s string) bool { return strings.HasSuffix(s, ", 1 left out") }) {
			t.Errorf("an hour later: %d and %d notices: %q", len(tell), len(few), tell[20:])
		}
		c.until(3*time.Hour + time.Minute)
		few = c.notices("few")
		if want := fmt.Sprintf(", %d left out", many+1); len(few) != 6 || !slices.ContainsFunc(few, func(s string) bool { return strings.HasSuffix(s, want) }) {
			t.Errorf("two hours later: %q, want one with %s", few, want)
		}
	})
}

// A limit holds over takeovers, also where the newest notices tell of old ticks or the
// history is short, and if the notifier is added to a term.
func TestLimitOverTakeovers(t *testing.T) {
	// Of each job, something is new: a limit is for all.
	failing := func(schedule jobs.Schedule, do func(context.Context, jobs.Run) error) (all []jobs.Job) {
		for i := range 11 {
			all = append(all, jobs.Job{Name: fmt.Sprint("a-", i), Schedule: schedule, Do: do})
		}
		return all
	}
	for _, scene := range []struct {
		name  string
		tell  jobs.Job
		later bool
	}{
		{"plain", jobs.Job{}, false},
		{"short history", jobs.Job{History: jobs.History{Keep: 1}}, false},
		{"brief history", jobs.Job{History: jobs.History{For: time.Minute}}, false},
		{"added later", jobs.Job{}, true},
	} {
		t.Run(scene.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				told := 0
				tell := scene.tell
				tell.Name, tell.Schedule = "tell", jobs.OnFailure().AtMost(5, 10*time.Hour)
				tell.Do = func(context.Context, jobs.Run) error { told++; return nil }
				all := failing(jobs.Every(10*time.Minute), func(context.Context, jobs.Run) error { return errNo })
				first := c.start(append(all, tell))
				c.until(2 * time.Hour)
				first.stop()
				if scene.later {
					second := c.start(all)
					c.until(2*time.Hour + time.Minute)
					if err := second.Add(second.doing(tell)...); err != nil {
						t.Fatal(err)
					}
				} else {
					c.start(append(all, tell))
				}
				c.until(10 * time.Hour)
				if told != 5 {
					t.Errorf("told %d times, want 5", told)
				}
				c.until(12 * time.Hour)
				if told != 10 {
					t.Errorf("when the limit is over: told %d times, want 10", told)
				}
			})
		})
	}
	t.Run("old ticks", func(t *testing.T) {
		inBubble(t, func(c *cluster) {
			told := 0
			all := failing(jobs.Every(30*time.Minute), func(_ context.Context, run jobs.Run) error {
				if run.Trigger == 0 && run.Tick.After(c.begin.Add(4*time.Hour)) {
					return nil
				}
				return errNo
			})
			all = append(all, jobs.Job{
				Name: "tell", Schedule: jobs.OnFailure().AtMost(10, 4*time.Hour), Do: func(context.Context, jobs.Run) error { told++; return nil },
			})
			r := c.start(all)
			c.until(9*time.Hour + 10*time.Minute)
			before := told
			for i := range 3 {
				for _, job := range all[:11] {
					if _, err := c.Backfill(c.Context(), job.Name, jobs.Backfill{From: c.begin.Add(time.Hour), To: c.begin.Add(time.Hour + 10*time.Minute)}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Minute)
				if told -= before; told != 10 {
					t.Errorf("after %d takeovers: told %d times, want 10", i, told)
				}
				told += before
				r.stop()
				r = c.start(all)
				c.leader()
			}
		})
	})
}

// A job that fails, works or misses ticks again and again keeps nobody from hearing of the
// others, and is told of now and then, with how many notices were left out.
func TestNoisyJobsLeaveRoom(t *testing.T) {
	inBubble(t, func(c *cluster) {
		quarter := jobs.Every(15 * time.Second)
		noise := func(works func(since time.Duration) bool) func(context.Context, jobs.Run) error {
			return func(_ context.Context, run jobs.Run) error {
				if works(run.Tick.Sub(c.begin)) {
					return nil
				}
				return errNo
			}
		}
		all := []jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnRecovery().OnMissed()},
			{Name: "fails", Schedule: quarter, Do: noise(func(since time.Duration) bool { return since > 3*time.Hour })},
			{Name: "turns", Schedule: quarter, Do: noise(func(since time.Duration) bool { return since%time.Minute < 30*time.Second || since > 4*time.Hour })},
			{Name: "late", Schedule: quarter, CatchUp: jobs.CatchUp{Deadline: time.Second}, Do: func(ctx context.Context, run jobs.Run) error {
				if run.Tick.After(c.begin.Add(4 * time.Hour)) {
					return nil
				}
				return sleep(20*time.Second)(ctx, run)
			}, Overlap: jobs.OverlapQueue},
			{Name: "quiet", Schedule: jobs.Every(time.Hour), Do: c.failing(2*time.Hour, 5*time.Hour)},
		}
		for i := range 3 {
			all = append(all, jobs.Job{Name: fmt.Sprint("fails-", i), Schedule: quarter, Do: noise(func(since time.Duration) bool { return since > 4*time.Hour })})
		}
		var w witness
		c.start(all, w.option())
		c.until(8 * time.Hour)
		told, of, leftOut := c.notices("tell"), map[string]int{}, 0
		for _, line := range told {
			var event, job string
			if _, err := fmt.Sscanf(line, "%s of %s", &event, &job); err != nil {
				t.Fatal(err)
			}
			of[event+" of "+job]++
			if _, n, is := strings.Cut(line, "missed, "); is || strings.Contains(line, " left out") {
				if !is {
					_, n, _ = strings.Cut(line, ", ")
				}
				n, _, _ = strings.Cut(n, " ")
				count, err := strconv.Atoi(n)
				if err != nil {
					t.Fatal(err)
				}
				leftOut += count
			}
		}
		for _, want := range []string{"failure of quiet 2h", "recovery of quiet 3h", "failure of quiet 5h", "recovery of quiet 6h"} {
			if !slices.ContainsFunc(told, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("nobody heard of the %s:\n%s", want, strings.Join(told, "\n"))
			}
		}
		for job, most := range map[string]int{"fails": 16, "fails-0": 21, "turns": 21, "late": 21} {
			if n := of["failure of "+job] + of["missed of "+job]; n < most/3 || n > most {
				t.Errorf("of %s, %d notices: %v", job, n, of)
			}
		}
		for _, job := range []string{"fails", "fails-0", "fails-1", "fails-2"} {
			if of["recovery of "+job] != 1 {
				t.Errorf("%d recoveries of %s were told", of["recovery of "+job], job)
			}
		}
		left := events[event.NoticeLeftOut](&w)
		if unknown := len(left) - leftOut; unknown < 0 || unknown > 20 {
			t.Errorf("%d were left out, and %d were said to have been", len(left), leftOut)
		}
		for _, e := range left {
			if !e.Again && e.Job != "turns" {
				t.Errorf("left out: %+v", e)
			}
		}
	})
}

// Notifiers that have told nothing lately delay no takeover.
func TestNotifiersDelayNoTakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{{Name: "a", Schedule: jobs.Every(time.Second)}}
		for i := range 1000 {
			all = append(all, jobs.Job{Name: fmt.Sprint("tell-", i), Schedule: jobs.OnFailure("a")})
		}
		c.startOn(func(l *link) { l.delay["Runs"] = 10 * time.Millisecond }, all)
		c.until(time.Minute)
		if runs := c.runs("a"); len(runs) == 0 || runs[0].began > 2*time.Second {
			t.Errorf("ran %+v", runs)
		}
	})
}
