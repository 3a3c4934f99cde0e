package scheduler_test

import (
	"context"
	"crypto/rand"
	"math"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Ticks of a pause are skipped, also when no replica led meanwhile. Ticks before
// and after it go through the misfire policy.
func TestPauseWithoutALeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "nightly", Schedule: jobs.Cron("0 0 2 * * *")},
			{Name: "all", Schedule: jobs.Every(10 * time.Minute), Misfire: jobs.MisfireAll},
			{Name: "once", Schedule: jobs.Every(10 * time.Minute)},
		}
		first := c.start(declared)
		c.until(100*time.Minute + time.Second)
		first.stop()
		c.until(115 * time.Minute) // 110m is missed
		check(t, c.Pause(t.Context(), ""))
		c.until(130 * time.Minute)
		check(t, c.Resume(t.Context(), ""))
		c.until(145 * time.Minute)
		check(t, c.Pause(t.Context(), "all"))
		c.until(155 * time.Minute)
		check(t, c.Resume(t.Context(), "all"))
		c.until(165 * time.Minute)
		c.start(declared)
		c.until(170*time.Minute + time.Second)
		c.wantRows("nightly", "2h skipped: paused")
		tail := func(job string, n int, want ...string) {
			t.Helper()
			records := c.records(job)
			c.wantRows(job, append(c.lines(job)[:len(records)-n], want...)...)
		}
		tail("all", 7, "1h50m succeeded", "2h skipped: paused", "2h10m succeeded", "2h20m succeeded", "2h30m skipped: paused", "2h40m succeeded", "2h50m succeeded")
		tail("once", 4, "1h50m succeeded", "2h skipped: paused", "2h40m succeeded, missed 3", "2h50m succeeded")
	})
}

// A pause that has returned stops the next tick, however late the leader finds
// out, and a Resume right after it loses nothing.
func TestPauseStopsTheNextTick(t *testing.T) {
	for _, job := range []string{"", "job"} {
		t.Run("of "+job, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}})
				c.until(time.Minute - time.Millisecond)
				check(t, c.Pause(t.Context(), job))
				c.until(2*time.Minute + time.Second)
				c.wantRows("job", "2m skipped, missed 1: paused")
				check(t, c.Resume(t.Context(), job))
				c.until(4*time.Minute - time.Millisecond)
				check(t, c.Pause(t.Context(), job))
				check(t, c.Resume(t.Context(), job))
				c.until(5*time.Minute + time.Second)
				c.wantRows("job", "2m skipped, missed 1: paused", "3m succeeded", "4m succeeded", "5m succeeded")
			})
		})
	}
}

// A group that is paused before its workers start, as after tables were restored,
// keeps what was missed before the pause until Resume: then the misfire policy
// decides.
func TestMissedBeforeThePause(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "all", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll},
			{Name: "once", Schedule: jobs.Every(time.Minute)},
			{Name: "skip", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireSkip},
		}
		c.start(declared).stop()
		c.until(3*time.Minute + 30*time.Second)
		check(t, c.Pause(t.Context(), ""))
		c.until(4 * time.Minute)
		c.start(declared)
		c.until(5*time.Minute + 30*time.Second)
		for _, job := range []string{"all", "once", "skip"} {
			c.wantRows(job)
		}
		check(t, c.Resume(t.Context(), ""))
		c.until(6*time.Minute + time.Second)
		c.wantRows("all", "1m succeeded", "2m succeeded", "3m succeeded", "5m skipped, missed 1: paused", "6m succeeded")
		c.wantRows("once", "3m succeeded, missed 2", "5m skipped, missed 1: paused", "6m succeeded")
		c.wantRows("skip", "3m skipped, missed 2: missed", "5m skipped, missed 1: paused", "6m succeeded")
	})
}

// A pause holds back ticks that wait in line, but not retries and manual runs.
func TestPauseHoldsTheLine(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, Do: func(ctx context.Context, run jobs.Run) error {
			if run.Tick.Equal(c.begin.Add(time.Minute)) {
				return sleep(150*time.Second)(ctx, run)
			}
			return nil
		}}})
		c.until(3*time.Minute + time.Second)
		c.wantRows("job", "1m running", "2m waiting", "3m waiting")
		check(t, c.Pause(t.Context(), "job"))
		c.until(4*time.Minute + time.Second)
		c.wantRows("job", "1m succeeded", "2m waiting", "3m waiting", "4m skipped: paused")
		key, err := c.Trigger(t.Context(), "job")
		check(t, err)
		c.until(4*time.Minute + 30*time.Second)
		if rows := c.lines("job"); rows[len(rows)-1] != short(key.Tick.Sub(c.begin))+" succeeded" {
			t.Errorf("a manual run in a pause: %q", rows)
		}
		check(t, c.Resume(t.Context(), "job"))
		c.until(4*time.Minute + 40*time.Second)
		c.wantRows("job", "1m succeeded", "2m succeeded", "3m succeeded", "4m skipped: paused", "*succeeded")
	})
}

// A claim that arrives after its row was run and pruned claims nothing, and the
// tick is not run again by the next leader.
func TestLateClaimAfterPruning(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Second), Recover: jobs.RecoverRerun, History: jobs.History{Keep: 5}}}
		r := c.start(declared)
		tick := c.begin.Add(196 * time.Second).UTC()
		var late func()
		r.link.set(func(l *link) {
			l.late = func(h store.Holder, id store.ClaimID, claims []store.Claim) bool {
				if late != nil || !claims[0].Tick.Equal(tick) {
					return false
				}
				late = func() {
					got, err := c.store.Claim(context.Background(), h, id, claims)
					if err != nil || !got[0].Refused() {
						t.Errorf("the late claim: %+v, %v", got, err)
					}
				}
				return true
			}
		})
		c.until(230 * time.Second)
		for n := 1; n > 0; { // the term prunes at instants of its own
			var err error
			n, err = c.store.Prune(t.Context(), c.holder(r).Group, "job", declared[0].History, 0)
			check(t, err)
		}
		late()
		c.until(240 * time.Second)
		r.stop()
		c.start(declared)
		c.until(250 * time.Second)
		ran := 0
		for _, run := range c.runs("job") {
			if run.Tick.Equal(tick) {
				ran++
			}
		}
		if ran != 1 {
			t.Errorf("the tick ran %d times", ran)
		}
	})
}

// A run under the term's own token that the term does not track, and whose claim it did not see refused, may have begun:
// it is closed, or run again, also while its job is paused.
func TestOwnRunThatIsNotInHand(t *testing.T) {
	for name, test := range map[string]struct {
		recover jobs.Recover
		want    string
	}{
		"skip":  {jobs.RecoverSkip, "10s interrupted: not in hand of its holder"},
		"rerun": {jobs.RecoverRerun, "10s succeeded, attempt 2"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Recover: test.recover}})
				holder := c.holder(r)
				var id store.ClaimID
				_, _ = rand.Read(id[:])
				key := jobs.Key{Job: "job", Tick: c.begin.Add(10 * time.Second).UTC()}
				_, err := c.store.Claim(t.Context(), holder, id, []store.Claim{{Key: key, State: jobs.Running}})
				check(t, err)
				check(t, c.Pause(t.Context(), "job")) // has the leader read the ledger
				c.until(time.Minute)
				c.wantRows("job", test.want)
			})
		})
	}
}

// A tick that a pause refuses ends no run that it would replace.
func TestReplaceRefusedByAPause(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "a", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapReplace, Do: lasting(50 * time.Minute)}
		r := c.start([]jobs.Job{job})
		c.until(2*time.Minute - 500*time.Millisecond)
		r.link.set(func(l *link) { l.fail["Load"] = math.MaxInt }) // it has not read of the pause yet
		check(t, c.Pause(c.Context(), "a"))
		c.until(2*time.Minute + 5*time.Second)
		r.link.set(func(l *link) { l.fail["Load"] = 0 })
		c.until(2*time.Minute + 20*time.Second)
		c.wantRows("a", "1m running", "2m skipped: paused")
	})
}
