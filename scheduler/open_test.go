package scheduler_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// A ledger so large that reading it takes longer than a statement may, and than
// the TTL, is opened all the same, and read again when something has changed.
func TestLargeLedger(t *testing.T) {
	inBubble(t, func(c *cluster) {
		timing := scheduler.WithTiming(lease.Timing{TTL: 3 * time.Second})
		large := func(l *link) { l.hold["Load"], l.hold["Declare"] = 5*time.Second, 4*time.Second }
		r := c.startOn(large, []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}, timing)
		c.until(2*time.Minute + time.Second)
		if state := r.State(); state.Role != election.Leading {
			t.Fatalf("%+v", state)
		}
		c.until(3*time.Minute + time.Second)
		check(t, c.Pause(t.Context(), "job"))
		c.until(5*time.Minute + 20*time.Second)
		lines := c.lines("job")
		if n := len(lines); n < 2 || lines[n-2] != "3m succeeded" || lines[n-1] != "5m skipped, missed 1: paused" {
			t.Errorf("%q", lines)
		}
	})
}

// A leader that cannot open its ledger steps down, so that another one can lead.
func TestLedgerThatCannotBeOpened(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}
		r := c.startOn(func(l *link) { l.fail["Load"] = 1 << 30 }, declared)
		if state := r.State(); state.Role != election.Leading {
			t.Fatalf("%+v", state)
		}
		c.start(declared)
		c.until(5 * time.Minute)
		runs := c.runs("job")
		if len(runs) == 0 || runs[0].Owner == r.Owner() {
			t.Errorf("ran %+v", runs)
		}
	})
}

// The same where a part of it fails that comes late: ticks of the future, claimed under a wrong clock, cannot be passed
// over.
func TestTicksThatCannotBePassedOver(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}
		first := c.start(declared)
		c.until(time.Second)
		far := jobs.Key{Job: "job", Tick: time.Now().UTC().Add(24 * time.Hour).Truncate(time.Minute)}
		if _, err := c.store.Claim(t.Context(), c.holder(first), store.ClaimID{1}, []store.Claim{{Key: far, State: jobs.Skipped, Error: "by a wrong clock"}}); err != nil {
			t.Fatal(err)
		}
		first.stop()
		r := c.startOn(func(l *link) { l.fail["PassOver"] = 1 << 30 }, declared)
		c.start(declared)
		c.until(5 * time.Minute)
		runs := c.runs("job")
		if len(runs) == 0 || runs[0].Owner == r.Owner() {
			t.Errorf("ran %+v", runs)
		}
	})
}
