package scheduler_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A job is forgotten once no replica has it, and is new when it comes back.
func TestForget(t *testing.T) {
	inBubble(t, func(c *cluster) {
		refused := func(job string, is error, text string) {
			c.Helper()
			if err := c.Forget(c.Context(), job); !errors.Is(err, is) || !strings.Contains(err.Error(), text) {
				c.Errorf("Forget at %v: %v, want %v and %q", time.Since(c.begin), err, is, text)
			}
		}
		first := c.start(tenMinutely("a", "b"))
		c.until(25 * time.Minute)
		refused("b", jobs.ErrDeclared, first.Owner())
		refused("bb", jobs.ErrNoJob, "did you mean b")
		first.stop()
		c.until(26 * time.Minute)
		refused("b", jobs.ErrDeclared, "the last leader had it")
		second := c.start(tenMinutely("a"))
		third := c.start(tenMinutely("a", "b"))
		c.until(30 * time.Minute)
		refused("b", jobs.ErrDeclared, third.Owner())
		third.kill()
		refused("b", jobs.ErrDeclared, third.Owner()) // it may live
		c.until(45 * time.Minute)
		if err := c.Pause(c.Context(), "b"); err != nil {
			c.Fatal(err)
		}
		if err := c.Forget(c.Context(), "b"); err != nil {
			c.Fatal(err)
		}
		c.wantRows("b")
		refused("b", jobs.ErrNoJob, "there are a")
		c.until(55 * time.Minute)
		c.start(tenMinutely("a", "b"))
		second.stop()
		c.until(61 * time.Minute)
		c.wantRows("b", "1h succeeded")
	})
}

// While a replica leads that does not tell which jobs it has, nothing is forgotten, and
// triggers are accepted.
func TestForgetBesideOlderRelease(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.start(tenMinutely("a", "b"))
		c.until(25 * time.Minute)
		second := c.start(tenMinutely("a"))
		first.stop()
		c.until(30 * time.Minute)
		older := c.startOn(func(l *link) { l.fail["Enlist"] = 1e6 }, tenMinutely("a"))
		second.stop()
		c.until(45 * time.Minute)
		if err := c.Forget(c.Context(), "b"); !errors.Is(err, jobs.ErrDeclared) || !strings.Contains(err.Error(), older.Owner()) {
			c.Errorf("Forget: %v", err)
		}
		if _, err := c.Trigger(c.Context(), "b"); err != nil {
			c.Errorf("Trigger: %v", err)
		}
	})
}

// A trigger for a job that no replica has is refused, and says who had it.
func TestTriggerOfAJobThatNobodyHas(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.start(tenMinutely("a", "b"))
		c.until(25 * time.Minute)
		if _, err := c.Trigger(c.Context(), "b"); err != nil {
			c.Fatal(err)
		}
		second := c.start(tenMinutely("a"))
		if _, err := c.Trigger(c.Context(), "b"); err != nil {
			c.Fatal(err)
		}
		first.stop()
		synctest.Wait()
		_, err := c.Trigger(c.Context(), "b")
		if !errors.Is(err, jobs.ErrNotDeclared) || !strings.Contains(err.Error(), first.Owner()) {
			c.Errorf("Trigger: %v, want ErrNotDeclared and %q", err, first.Owner())
		}
		if n := len(c.records("b")); n != 4 {
			c.Errorf("%d rows, want 4", n)
		}
		// A follower has it: the run waits until that one leads.
		c.start(tenMinutely("a", "b"))
		if _, err := c.Trigger(c.Context(), "b"); err != nil {
			c.Fatal(err)
		}
		c.until(28 * time.Minute)
		second.stop()
		c.until(29 * time.Minute)
		if rows := c.lines("b"); len(rows) != 5 || rows[4] != "25m succeeded" {
			c.Errorf("rows %q", rows)
		}
	})
}

// A job is forgotten while a leader declares it, at any moment of that: either the job
// is there with its history and keeps it, or it is new. It is never in between.
func TestForgetRacesWithALeader(t *testing.T) {
	for at := range 24 {
		for _, away := range []time.Duration{5 * time.Minute, 90 * time.Minute} {
			t.Run(fmt.Sprintf("%v after %d", away, at), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					first := c.start(tenMinutely("a", "b"))
					c.until(25 * time.Minute)
					second := c.start(tenMinutely("a"))
					first.stop()
					c.until(25*time.Minute + away)
					slow := 100 * time.Millisecond
					third := c.startOn(func(l *link) {
						l.fail["Enlist"] = 1e6 // the race is not with its row
						for _, op := range []string{"Load", "Claim", "Move", "Declare", "Gone"} {
							l.hold[op], l.delay[op] = slow, slow
						}
					}, tenMinutely("a", "b"))
					gone := c.known("b").Gone
					go second.stop()
					time.Sleep(time.Duration(at) * slow / 2)
					forgotten, err := c.store.Forget(c.Context(), "g", "b", gone)
					if err != nil {
						c.Error(err)
					}
					c.until(away + 46*time.Minute)
					if third != c.leader() {
						c.Fatal("the third replica does not lead")
					}
					known := c.known("b")
					if !known.Gone.IsZero() || known.Since.IsZero() {
						c.Errorf("forgotten: %t: b is %+v", forgotten, known)
					}
					rows := c.lines("b")
					if had := rows[0] == "10m succeeded"; had == forgotten {
						c.Errorf("forgotten: %t, and the rows are %q", forgotten, rows)
					}
					for _, row := range rows {
						if forgotten && strings.Contains(row, "missed") && !strings.Contains(row, "not declared") {
							c.Errorf("a job that is new has missed ticks: %q", rows)
						}
					}
					if err := third.Health().Err(); err != nil {
						c.Errorf("health: %v", err)
					}
				})
			})
		}
	}
}
