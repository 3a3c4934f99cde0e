package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

var errNo = errors.New("no")

// failing fails at the ticks so long after the begin.
func (c *cluster) failing(ticks ...time.Duration) func(context.Context, jobs.Run) error {
	return func(_ context.Context, run jobs.Run) error {
		if slices.Contains(ticks, run.Tick.Sub(c.begin)) {
			return errNo
		}
		return nil
	}
}

// notices are the rows of a notifier, as what they tell and what became of them.
func (c *cluster) notices(notifier string) (all []string) {
	c.Helper()
	for _, r := range c.records(notifier) {
		args, err := c.store.Args(c.Context(), "g", r.Key)
		var n jobs.Notice
		if err == nil && args != nil {
			err = json.Unmarshal(args, &n)
		}
		if err != nil {
			c.Fatalf("%v: %v", r.Key, err)
		}
		if triggers.KindOf(r.Trigger) != "notice" || n.Group != "g" || !n.Tick.Equal(r.Tick) {
			c.Errorf("%+v tells %+v", r, n)
		}
		line := fmt.Sprintf("%s of %s %s", n.Event, n.Job, short(n.Tick.Sub(c.begin)))
		if n.Missed > 0 {
			line += fmt.Sprintf(", %d missed", n.Missed)
		}
		if n.LeftOut > 0 {
			line += fmt.Sprintf(", %d left out", n.LeftOut)
		}
		if r.State != jobs.Succeeded {
			line += ": " + r.State.String()
		}
		all = append(all, line)
	}
	return all
}

// wantNotices compares without regard to order: notices of one tick are in that of their
// keys, which have the term's token.
func (c *cluster) wantNotices(notifier string, want ...string) {
	c.Helper()
	got := slices.Sorted(slices.Values(c.notices(notifier)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.Errorf("%s was told\n  %s\nwant\n  %s", notifier, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Each event is told once to each notifier that asks for it, with what there is to know.
func TestNotices(t *testing.T) {
	inBubble(t, func(c *cluster) {
		told := map[jobs.NoticeEvent]jobs.Notice{}
		tell := func(_ context.Context, run jobs.Run) error {
			n, err := jobs.StrictArgsOf[jobs.Notice](run)
			if told[n.Event] = n; !triggers.IsNotice(run.Trigger) && n.Event != jobs.NoticeTest {
				t.Errorf("trigger %d", run.Trigger)
			}
			return err
		}
		r := c.start([]jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnRecovery().OnMissed(), Do: tell},
			{Name: "other", Schedule: jobs.OnFailure("b").OnRecovery("b")},
			{Name: "bad", Schedule: jobs.OnFailure("a"), Do: c.failing(2 * time.Hour)},
			{Name: "a", Schedule: jobs.Every(time.Hour), Do: c.failing(2*time.Hour, 3*time.Hour)},
			{Name: "b", Schedule: jobs.Every(time.Hour), Retry: jobs.Retry{Attempts: 2}, Do: func(_ context.Context, run jobs.Run) error {
				if tick := run.Tick.Sub(c.begin); run.Attempt == 1 && tick != 3*time.Hour || tick == 2*time.Hour {
					return fmt.Errorf("attempt %d", run.Attempt)
				}
				return nil
			}},
		})
		c.until(5*time.Hour + time.Minute)
		c.wantNotices("bad", "failure of a 2h: failed", "failure of a 3h") // and nothing is told of that
		c.wantNotices("other", "failure of b 2h", "recovery of b 3h")
		got := c.notices("tell")
		slices.Sort(got)
		if want := []string{"failure of a 2h", "failure of a 3h", "failure of b 2h", "recovery of a 4h", "recovery of b 3h"}; !slices.Equal(got, want) {
			t.Errorf("tell was told %q, want %q", got, want)
		}
		r.stop()
		c.until(9*time.Hour + time.Minute)
		r = c.start([]jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnMissed("a"), Do: tell},
			{Name: "a", Schedule: jobs.Every(time.Hour), Do: c.failing(9 * time.Hour)},
		})
		c.until(10*time.Hour + time.Minute)
		if err := r.Remove("tell"); err == nil {
			c.start(nil)
		}
		fails, missed := told[jobs.NoticeFailure], told[jobs.NoticeMissed]
		tick := c.begin.Add(9 * time.Hour).UTC()
		want := jobs.Notice{
			Event: jobs.NoticeFailure, Group: "g", Job: "a", Tick: tick, Kind: "schedule", State: jobs.Failed, Attempt: 1, Error: "no", Owner: r.Owner(), Text: fails.Describe(),
		}
		if fails != want {
			t.Errorf("told %+v, want %+v", fails, want)
		}
		want = jobs.Notice{
			Event: jobs.NoticeMissed, Group: "g", Job: "a", Tick: tick, Kind: "schedule", State: jobs.Running, Attempt: 1, Owner: r.Owner(), Missed: 3, Text: missed.Describe(),
		}
		if missed != want {
			t.Errorf("told %+v, want %+v", missed, want)
		}
	})
}

// What is told by states: cancelled on request, replaced and skipped are no failures.
func TestNoticesByState(t *testing.T) {
	inBubble(t, func(c *cluster) {
		stuck := func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}
		hourly := jobs.Every(time.Hour)
		first := c.watched(2, []jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnMissed()},
			{Name: "timeout", Schedule: hourly, Timeout: time.Minute, Do: stuck},
			{Name: "panic", Schedule: hourly, Do: func(context.Context, jobs.Run) error { panic("oh") }},
			{Name: "replaced", Schedule: jobs.Every(30 * time.Minute), Overlap: jobs.OverlapReplace, Timeout: 70 * time.Minute, Do: stuck},
			{Name: "skips", Schedule: jobs.Every(20 * time.Minute), Do: sleep(50 * time.Minute)},
			{Name: "manual", Schedule: jobs.Manual(), Do: func(ctx context.Context, _ jobs.Run) error { _ = stuck(ctx, jobs.Run{}); return errors.New("gave up") }},
			{Name: "cut", Schedule: jobs.At(c.begin.Add(100 * time.Minute)), Do: stuck},
			{Name: "rerun", Schedule: jobs.At(c.begin.Add(100 * time.Minute)), Recover: jobs.RecoverRerun, Do: func(ctx context.Context, run jobs.Run) error {
				if run.Attempt == 1 {
					return stuck(ctx, run)
				}
				return nil
			}},
		})
		c.until(80 * time.Minute)
		key := c.triggerWith("manual", nil)
		c.until(81 * time.Minute)
		if err := c.Cancel(c.Context(), key); err != nil {
			t.Fatal(err)
		}
		c.until(101 * time.Minute)
		if got := c.notices("tell"); len(got) != 2 {
			t.Errorf("told %q", got)
		}
		first.stop() // cuts off what runs
		c.until(110 * time.Minute)
		got := c.notices("tell")
		slices.Sort(got)
		if want := []string{"failure of cut 1h40m", "failure of panic 1h", "failure of replaced 1h30m", "failure of skips 1h20m", "failure of timeout 1h"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q\n%s%s", got, want, c.rows("replaced"), c.rows("skips"))
		}
		c.leader().kill()
	})
}

// Wherever a leader is killed, in the middle of which statement, and whether that has taken
// effect: what happens is told once.
func TestNoticesOverTakeovers(t *testing.T) {
	const unit = 3 * time.Minute
	declared := func(c *cluster, recovers jobs.Recover) []jobs.Job {
		return []jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure().OnRecovery().OnMissed(), Recover: jobs.RecoverRerun, Do: sleep(time.Second)},
			{Name: "a", Schedule: jobs.Every(unit), Recover: recovers, Do: func(ctx context.Context, run jobs.Run) error {
				_ = sleep(10*time.Second)(ctx, run)
				return c.failing(2*unit)(ctx, run)
			}},
		}
	}
	for _, scene := range []struct {
		name     string
		at       time.Duration // from when on the statements of the leader count
		gap      time.Duration // before that, nobody leads for so long
		recovers jobs.Recover
		want     []string
	}{
		{"failure", 2*unit - time.Second, 0, jobs.RecoverRerun, []string{"failure of a 6m", "recovery of a 9m"}},
		{"interrupted", 2*unit - time.Second, 0, jobs.RecoverSkip, []string{"failure of a 6m", "recovery of a 9m"}},
		{"recovery", 3*unit - time.Second, 0, jobs.RecoverRerun, []string{"failure of a 6m", "recovery of a 9m"}},
		{"missed", 2*unit + time.Minute, 3 * unit, jobs.RecoverRerun, []string{"failure of a 6m", "missed of a 15m, 2 missed", "recovery of a 15m"}},
	} {
		for _, effect := range []bool{false, true} {
			for n := 1; n <= 14; n++ {
				t.Run(fmt.Sprintf("%s, killed in statement %d, effect %t", scene.name, n, effect), func(t *testing.T) {
					inBubble(t, func(c *cluster) {
						doom := func(r *replica) {
							r.link.set(func(l *link) { l.doomed, l.effect, l.onDeath = n, effect, r.kill })
						}
						first := c.watched(2, declared(c, scene.recovers))
						c.until(scene.at)
						if scene.gap > 0 {
							for _, r := range c.replicas {
								r.stop()
							}
							c.until(scene.at + scene.gap)
							doom(c.start(declared(c, scene.recovers)))
							c.start(declared(c, scene.recovers))
						} else {
							doom(first)
						}
						c.until(6*unit + time.Minute)
						got := c.notices("tell")
						slices.Sort(got)
						if !slices.Equal(got, scene.want) {
							t.Errorf("told\n  %s\nwant\n  %s\nof\n%s", strings.Join(got, "\n  "), strings.Join(scene.want, "\n  "), c.rows("a"))
						}
					})
				})
			}
		}
	}
}

// Ticks that are recorded as missed one after the other have one row, and are told once.
func TestNoticesOfMissedTicks(t *testing.T) {
	inBubble(t, func(c *cluster) {
		every := jobs.Every(10 * time.Minute)
		all := []jobs.Job{
			{Name: "tell", Schedule: jobs.OnMissed()},
			{Name: "skip", Schedule: every, Misfire: jobs.MisfireSkip},
			{Name: "all", Schedule: every, Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 2}},
			{Name: "late", Schedule: every, CatchUp: jobs.CatchUp{Deadline: time.Minute}},
			{Name: "once", Schedule: every},
			{Name: "on-time", Schedule: jobs.At(c.begin.Add(time.Hour))},
			{Name: "paused", Schedule: every},
		}
		r := c.start(all)
		c.until(15 * time.Minute)
		c.control(c.Pause, "paused")
		c.until(16 * time.Minute)
		r.stop()
		c.until(75 * time.Minute)
		c.start(all)
		c.until(2 * time.Hour)
		got := c.notices("tell")
		slices.Sort(got)
		want := []string{"missed of all 1h, 4 missed", "missed of late 1h10m, 6 missed", "missed of once 1h10m, 5 missed", "missed of skip 1h10m, 6 missed"}
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// A notifier that is paused, slow or broken leaves the others alone.
func TestNotifierInTrouble(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{
			{Name: "tell", Schedule: jobs.OnFailure()},
			{Name: "slow", Schedule: jobs.OnFailure(), CatchUp: jobs.CatchUp{Limit: 2}, Do: sleep(140 * time.Minute)},
			{Name: "broken", Schedule: jobs.OnFailure(), Retry: jobs.Retry{Attempts: 3}, Do: func(context.Context, jobs.Run) error { return errNo }},
			{Name: "a", Schedule: jobs.Every(time.Hour), Do: func(context.Context, jobs.Run) error { return errNo }},
		})
		c.until(90 * time.Minute)
		c.control(c.Pause, "tell")
		c.until(150 * time.Minute)
		c.control(c.Resume, "tell")
		c.until(6*time.Hour + time.Minute)
		c.wantNotices("tell", "failure of a 1h", "failure of a 2h: skipped", "failure of a 3h", "failure of a 4h", "failure of a 5h", "failure of a 6h")
		c.wantNotices("slow", "failure of a 1h", "failure of a 2h", "failure of a 3h: running", "failure of a 4h: waiting", "failure of a 5h: skipped", "failure of a 6h: waiting")
		c.wantNotices("broken", "failure of a 1h: failed", "failure of a 2h: failed", "failure of a 3h: failed", "failure of a 4h: failed", "failure of a 5h: failed", "failure of a 6h: failed")
		if n := len(c.runs("a")); n != 6 {
			t.Errorf("%d runs", n)
		}
	})
}

// A notifier that is triggered by hand gets a notice that says so, or what it is given.
func TestNotifierIsTried(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "tell", Schedule: jobs.OnFailure()}})
		c.until(time.Minute)
		c.triggerWith("tell", nil)
		c.until(2 * time.Minute)
		c.triggerWith("tell", jobs.Notice{Event: jobs.NoticeFailure, Job: "made up"})
		c.until(3 * time.Minute)
		var got []string
		for _, r := range c.runs("tell") {
			n, err := jobs.StrictArgsOf[jobs.Notice](r.Run)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(n.Event, " ", n.Group, " ", n.Job, " ", n.Text))
		}
		if len(got) != 2 || !strings.HasPrefix(got[0], "test g tell a test of the notifier tell (g, ") || got[1] != "failure  made up " {
			t.Errorf("told %q", got)
		}
	})
}

// What a job came to before is known over a takeover, past what says nothing, and without a
// statement.
func TestNoticesOfRecoveriesOverTakeovers(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{{Name: "tell", Schedule: jobs.OnRecovery()}}
		for i := range 100 {
			all = append(all, jobs.Job{Name: fmt.Sprint("fine-", i), Schedule: jobs.Every(time.Hour)})
		}
		all = append(all, jobs.Job{Name: "a", Schedule: jobs.Every(time.Hour), Do: c.failing(time.Hour)})
		first := c.watched(2, all)
		c.until(90 * time.Minute)
		for range 30 { // runs that were skipped, newer than the failure
			c.control(c.Pause, "a")
			time.Sleep(time.Second)
			c.control(c.Resume, "a")
			time.Sleep(time.Second)
		}
		first.kill()
		c.until(110 * time.Minute)
		second := c.leader()
		second.link.set(func(l *link) { clear(l.sent) })
		c.until(2*time.Hour + time.Minute)
		c.wantNotices("tell", "recovery of a 2h")
		second.link.set(func(l *link) {
			if n := l.sent["Runs"] + l.sent["Newest"]; n > 0 {
				t.Errorf("%d statements", n)
			}
		})
		c.until(4*time.Hour + time.Minute)
		c.wantNotices("tell", "recovery of a 2h")
	})
}

// A tick that stands for missed ones is told of, and once more if it is too late itself
// before it can start.
func TestNoticeOfATickThatStoodForOthers(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{
			{Name: "tell", Schedule: jobs.OnMissed("a").AtMost(0, 0)},
			{Name: "a", Schedule: jobs.Every(time.Hour), CatchUp: jobs.CatchUp{Deadline: 5 * time.Minute}},
			{Name: "hog", Schedule: jobs.At(c.begin.Add(4 * time.Hour)), Do: sleep(10 * time.Minute)},
		}
		r := c.start(all, scheduler.WithMaxRuns(1))
		c.until(30 * time.Minute)
		r.stop()
		c.until(4*time.Hour + time.Minute)
		c.start(all[2:], scheduler.WithMaxRuns(1))
		c.until(4*time.Hour + 2*time.Minute)
		if err := c.leader().Add(c.leader().doing(all[:2]...)...); err != nil {
			t.Fatal(err)
		}
		c.until(5 * time.Hour)
		c.wantRows("a", "4h skipped, missed 3: too late to start", "5h succeeded")
		got := c.notices("tell")
		slices.Sort(got)
		if want := []string{"missed of a 4h, 1 missed", "missed of a 4h, 3 missed"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// The recovery from a failure that was told is told although the limit is used up, under the next leader too.
func TestRecoveryAfterATakeover(t *testing.T) {
	for _, takeover := range []bool{false, true} {
		t.Run(fmt.Sprint("takeover ", takeover), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				all := []jobs.Job{{Name: "tell", Schedule: jobs.OnFailure().OnRecovery().AtMost(4, time.Hour)}}
				for i := range 6 {
					all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(10 * time.Minute), Do: c.failing(10 * time.Minute)})
				}
				first := c.start(all)
				c.start(all)
				c.until(15 * time.Minute)
				failures := c.notices("tell")
				if takeover {
					first.kill()
				}
				c.until(50 * time.Minute)
				told := c.notices("tell")
				for _, line := range failures {
					job := strings.Fields(line)[2]
					if !slices.ContainsFunc(told, func(line string) bool { return strings.HasPrefix(line, "recovery of "+job+" ") }) {
						t.Errorf("%s failed, which was told, and works again: %q", job, told)
					}
				}
				if len(failures) != 4 || len(told) != 8 {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}
