package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A schedule whose text changes while no replica leads loses no tick of that time.
func TestScheduleChangesInAGap(t *testing.T) {
	inBubble(t, func(c *cluster) {
		nightly := func(expression string) []jobs.Job {
			return []jobs.Job{{Name: "nightly", Schedule: jobs.Cron(expression)}}
		}
		first := c.start(nightly("0 0 2 * * *"))
		c.until(2*time.Hour - 10*time.Second)
		first.stop()
		c.until(2*time.Hour + 20*time.Second)
		c.start(nightly("0 0 2 * * ?"))
		c.until(25 * time.Hour)
		c.wantRows("nightly", "2h succeeded")
		c.wantBegan("nightly", 2*time.Hour+20*time.Second)
	})
}

// Ticks that a changed schedule would have had while the previous one was in
// force are not made up for.
func TestChangedScheduleHasNoPast(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := func(s jobs.Schedule) []jobs.Job {
			return []jobs.Job{{Name: "job", Schedule: s, Misfire: jobs.MisfireAll}}
		}
		first := c.start(job(jobs.Cron("0 0 2 * * *")))
		c.until(10*time.Hour + 30*time.Minute)
		first.stop()
		c.start(job(jobs.Every(time.Hour)))
		c.until(12 * time.Hour)
		c.wantRows("job", "2h succeeded", "11h succeeded", "12h succeeded")
	})
}

// Two releases run side by side, and their leaders die in turn right before a tick:
// no tick is lost.
func TestReleasesSideBySide(t *testing.T) {
	inBubble(t, func(c *cluster) {
		releases := [][]jobs.Job{
			{{Name: "hourly", Schedule: jobs.Cron("0 0 * * * *")}},
			{{Name: "hourly", Schedule: jobs.Cron("0 0 * * * ?")}},
		}
		leader := c.start(releases[0])
		var want []string
		for hour := 1; hour <= 6; hour++ {
			next := c.start(releases[hour%2])
			c.until(time.Duration(hour)*time.Hour - 5*time.Second)
			leader.kill()
			c.until(time.Duration(hour)*time.Hour + time.Minute)
			leader = next
			want = append(want, fmt.Sprintf("%dh succeeded", hour))
		}
		c.wantRows("hourly", want...)
	})
}

// Terms that ended before they declared their jobs do not make the next one forget
// earlier missed ticks.
func TestScheduleChangesAfterTermsThatDidNotOpen(t *testing.T) {
	inBubble(t, func(c *cluster) {
		nightly := func(expression string) []jobs.Job {
			return []jobs.Job{{Name: "nightly", Schedule: jobs.Cron(expression)}}
		}
		first := c.start(nightly("0 0 2 * * *"))
		c.until(2*time.Hour - 10*time.Second)
		first.stop()
		c.until(2*time.Hour + 20*time.Second)
		away := map[string]int{"Declare": 1e9}
		second := c.startOn(func(l *link) { l.fail = away }, nightly("0 0 2 * * ?"))
		c.until(3 * time.Hour)
		second.kill()
		c.start(nightly("0 0 2 ? * *"))
		c.until(4 * time.Hour)
		c.wantRows("nightly", "2h succeeded")
	})
}

// A tick whose claim was still under way when its leader sent its last heartbeat
// is not lost to a changed schedule.
func TestScheduleChangesBeforeALateClaim(t *testing.T) {
	inBubble(t, func(c *cluster) {
		nightly := func(expression string) []jobs.Job {
			return []jobs.Job{{Name: "nightly", Schedule: jobs.Cron(expression)}}
		}
		first := c.start(nightly("0 0 2 * * *"))
		c.until(2*time.Hour - time.Minute)
		first.link.set(func(l *link) { l.fail["Claim"] = 1e9 })
		c.until(2*time.Hour + 8*time.Second) // a heartbeat later
		first.kill()
		c.start(nightly("0 0 2 * * ?"))
		c.until(25 * time.Hour)
		c.wantRows("nightly", "2h succeeded")
	})
}
