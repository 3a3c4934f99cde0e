package scheduler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// soonSeen is how long a follower may take to see in the ledger that the group does not do its
// work, and soonOver that it does again.
const (
	soonSeen = time.Minute
	soonOver = 10 * time.Second
)

// isUnwell waits for the health of a replica to match an error, or to be nil again.
func (c *cluster) isUnwell(r *replica, want error, within time.Duration) {
	c.Helper()
	began := time.Now()
	for {
		h := r.Health()
		if want == nil && h.Err() == nil || want != nil && errors.Is(h.Err(), want) {
			return
		}
		if time.Since(began) > within {
			c.Errorf("%v: not %v within %v: %+v", r.State().Role, want, within, h)
			return
		}
		time.Sleep(time.Second)
	}
}

// While the leader claims nothing, no replica is well, and each is well again soon afterwards.
func TestFollowersSeeThatNothingIsClaimed(t *testing.T) {
	for name, declared := range map[string][]jobs.Job{
		"a few":       {{Name: "often", Schedule: jobs.Every(5 * time.Second)}, {Name: "monthly", Schedule: jobs.Cron("0 0 1 * *")}},
		"rare":        {{Name: "rare", Schedule: jobs.Every(10 * time.Minute)}},
		"fixed rate":  {{Name: "rate", Schedule: jobs.FixedRate(10 * time.Second)}},
		"fixed delay": {{Name: "delay", Schedule: jobs.FixedDelay(10 * time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				leader, follower := c.start(declared), c.start(declared)
				c.until(30*time.Minute - time.Minute)
				for _, r := range []*replica{leader, follower} {
					if h := r.Health(); h.Err() != nil {
						t.Errorf("%+v", h)
					}
				}
				sent := follower.link.count("LoadOf")
				leader.link.set(func(l *link) { l.fail = map[string]int{"Claim": 1e9} })
				c.until(30 * time.Minute) // the next tick
				c.isUnwell(follower, scheduler.ErrNotFiring, soonSeen)
				c.isUnwell(leader, scheduler.ErrNotFiring, 0)
				if follower.State().Role != election.Following {
					t.Fatalf("%+v", follower.State())
				}
				leader.link.set(func(l *link) { l.fail = map[string]int{} })
				c.isUnwell(follower, nil, soonOver)
				c.isUnwell(leader, nil, soonOver)
				if sent > 2*30 {
					t.Errorf("%d looks in half an hour", sent)
				}
			})
		})
	}
}

// A ledger that cannot be read keeps a follower from being ready, although the lease is there.
func TestFollowersSeeThatTheLedgerIsGone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, logs := observer.New(zap.InfoLevel)
		leader, follower := c.start(everyTick()), c.start(everyTick(), scheduler.WithLogger(zap.New(core)))
		c.until(10 * time.Minute)
		follower.link.set(func(l *link) { l.fail = map[string]int{"LoadOf": 1e9} })
		before := follower.link.count("LoadOf")
		for follower.link.count("LoadOf") == before {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(ttl - 200*time.Millisecond)
		c.isUnwell(follower, nil, 0)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		c.isUnwell(follower, errAway, 0)
		c.until(12 * time.Minute)
		c.isUnwell(follower, errAway, 0)
		if h := follower.Health(); h.Database == nil || h.Stuck != nil || leader.Health().Err() != nil {
			t.Errorf("%+v\n%+v", h, leader.Health())
		}
		follower.link.set(func(l *link) { l.fail = map[string]int{} })
		c.isUnwell(follower, nil, soonOver)
		c.until(20 * time.Minute)
		for _, says := range []string{"does not do its work", "does its work again"} {
			if n := logs.FilterMessageSnippet(says).Len(); n != 1 {
				t.Errorf("%d lines say that the group %s", n, says)
			}
		}
	})
}

// A job that stays locked for a while after it has started is not late meanwhile.
func TestFollowersOfALockedJob(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := append(tenMinutely("other"), jobs.Job{Name: "delay", Schedule: jobs.FixedDelay(10 * time.Second), LockAtLeastFor: 5 * time.Minute})
		c.start(declared)
		follower := c.start(declared)
		for i := range 60 {
			c.until(time.Duration(i) * 15 * time.Second)
			c.isUnwell(follower, nil, 0)
		}
	})
}

// A leader counts a fixed delay from when it decided to skip a tick, late, as after a pause: followers cannot know that
// instant, and do not blame it.
func TestFollowersOfASkippedDelay(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := append(tenMinutely("other"), jobs.Job{Name: "delay", Schedule: jobs.FixedDelay(time.Hour)})
		leader := c.start(declared)
		c.until(50 * time.Minute)
		check(t, c.Pause(t.Context(), "delay"))
		leader.stop()
		c.until(110 * time.Minute)
		c.start(declared)
		follower := c.start(declared)
		c.until(112 * time.Minute)
		check(t, c.ResumeSkipping(t.Context(), "delay"))
		for at := 113 * time.Minute; at < 4*time.Hour; at += 30 * time.Second {
			c.until(at)
			c.isUnwell(follower, nil, 0)
		}
	})
}

// A group that has paused itself is unwell on each replica, also on those that did not notice why, and whichever leads.
// One that a person has paused is well.
func TestEachReplicaSeesThatTheGroupPausedItself(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first, second := c.start(everyTick()), c.start(everyTick())
		c.until(10*time.Minute + time.Second)
		if err := c.Pause(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		c.until(13 * time.Minute)
		for _, r := range c.replicas {
			c.isUnwell(r, nil, 0)
		}
		if err := c.Resume(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		restore := c.store.Backup()
		c.until(20*time.Minute + 30*time.Second)
		restore()
		c.until(22 * time.Minute)
		c.wantPaused(true)
		for _, r := range []*replica{first, second} {
			c.isUnwell(r, scheduler.ErrRestored, 0)
		}
		first.stop()
		second.stop()
		c.replicas = nil
		third, fourth := c.start(everyTick()), c.start(everyTick())
		c.until(26 * time.Minute)
		for _, r := range []*replica{third, fourth} {
			c.isUnwell(r, scheduler.ErrRestored, 0)
		}
		if by, err := c.PausedBy(t.Context()); err != nil || by.Via != jobs.ViaScheduler || by.Name == "" {
			t.Errorf("%+v, %v", by, err)
		}
		if err := c.Resume(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*replica{third, fourth} {
			c.isUnwell(r, nil, soonOver)
		}
	})
}

// A follower that may not write could not lead: it is not ready, though it reads all that it wants to.
func TestFollowerThatMayNotWrite(t *testing.T) {
	inBubble(t, func(c *cluster) {
		leader, follower := c.start(everyTick()), c.start(everyTick())
		c.until(10 * time.Minute)
		follower.link.set(func(l *link) { l.denied = true })
		c.isUnwell(follower, lease.ErrNotReady, 4*time.Minute)
		if h := follower.Health(); h.Database == nil || h.Leader != nil || leader.Health().Err() != nil {
			t.Errorf("%+v\n%+v", h, leader.Health())
		}
		follower.link.set(func(l *link) { l.denied = false })
		c.isUnwell(follower, nil, 20*time.Second)
	})
}

// Under the worker's clock, ticks are due by the clock of the leader, which may be late by the database's.
func TestFollowersOfALateClock(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "often", Schedule: jobs.Every(5 * time.Second)}}
		leader := c.startOn(wrongClock(-time.Minute), declared, byWorker)
		follower := c.startOn(wrongClock(0), declared, byWorker)
		for i := range 10 {
			c.until(time.Duration(i)*time.Minute + 7*time.Second)
			if err := follower.Health().Err(); err != nil {
				t.Fatalf("the follower: %v", err)
			}
		}
		if err := leader.Health().Err(); err != nil || len(c.runs("often")) < 100 {
			t.Errorf("%d runs, and the leader: %v", len(c.runs("often")), err)
		}
	})
}
