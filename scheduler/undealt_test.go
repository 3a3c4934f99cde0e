package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// The text of a schedule with the same ticks in two releases. Ticks that the first
// release has not claimed before its end are run by the second one, whether the
// text has changed or not.
const same, changed = "0 * * * * *", "0 * * * * ?"

func minutely(expression string, more ...jobs.Job) []jobs.Job {
	return append([]jobs.Job{{Name: "job", Schedule: jobs.Cron(expression), Misfire: jobs.MisfireAll}}, more...)
}

// A tick that falls into the drain of a rolling release with a changed schedule.
func TestScheduleChangesAcrossADrain(t *testing.T) {
	for _, second := range []string{same, changed} {
		t.Run(second, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				slow := jobs.Job{Name: "slow", Schedule: jobs.Cron("50 1 * * * *"), Do: func(ctx context.Context, _ jobs.Run) error {
					<-ctx.Done()
					time.Sleep(10 * time.Second)
					return ctx.Err()
				}}
				first := c.start(minutely("0 * * * * *", slow))
				c.until(118 * time.Second)
				go first.stop()
				c.start(minutely(second, slow))
				c.until(150 * time.Second)
				c.wantRows("job", "1m succeeded", "2m succeeded")
			})
		})
	}
}

// The old leader's claims fail, its heartbeats do not; then it dies.
func TestScheduleChangesAfterFailedClaims(t *testing.T) {
	for _, second := range []string{same, changed} {
		t.Run(second, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				first := c.start(minutely("0 * * * * *"))
				c.until(115 * time.Second)
				first.link.set(func(l *link) { l.fail = map[string]int{"Claim": 1e9} })
				c.until(126 * time.Second)
				first.kill()
				c.start(minutely(second))
				c.until(170 * time.Second)
				c.wantRows("job", "1m succeeded", "2m succeeded")
			})
		})
	}
}

// Ticks missed before a pause, and the pause itself, across a change of release.
func TestScheduleChangesInAPause(t *testing.T) {
	for _, second := range []string{same, changed} {
		t.Run(second, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.start(minutely("0 * * * * *")).stop()
				c.until(150 * time.Second)
				check(t, c.Pause(t.Context(), ""))
				first := c.start(minutely("0 * * * * *"))
				c.until(270 * time.Second)
				first.stop()
				c.start(minutely(second))
				c.until(280 * time.Second)
				check(t, c.Resume(t.Context(), ""))
				c.until(310 * time.Second)
				c.wantRows("job", "1m succeeded", "2m succeeded", "4m skipped, missed 1: paused", "5m succeeded")
			})
		})
	}
}

// A release that crashes between Declare and its first claim, and the way back.
func TestScheduleChangesAndBack(t *testing.T) {
	for _, second := range []string{same, changed} {
		t.Run(second, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				first := c.start(minutely("0 * * * * *"))
				c.until(90 * time.Second)
				first.stop()
				c.until(130 * time.Second)
				bad := c.startOn(func(l *link) { l.fail = map[string]int{"Claim": 1e9} }, minutely(second))
				c.until(132 * time.Second)
				bad.kill()
				c.start(minutely("0 * * * * *"))
				c.until(170 * time.Second)
				c.wantRows("job", "1m succeeded", "2m succeeded")
			})
		})
	}
}
