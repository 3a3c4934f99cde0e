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

// A changed schedule has no tick that was due while a leader with the one before still led, however long before its end
// the next leader last looked at the lease. A leader that was killed cannot tell of its end: its last heartbeat counts.
func TestChangedScheduleBeginsWithTheGap(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*replica)
		late time.Duration // of the note of the end
		want time.Duration
	}{
		{"stopped", (*replica).stop, 0, 25*time.Minute + time.Second},
		{"stopped, and its note is late", (*replica).stop, 100 * time.Millisecond, 25*time.Minute + time.Second},
		{"killed", (*replica).kill, 0, 25 * time.Minute},
	} {
		for _, follows := range []bool{true, false} {
			t.Run(fmt.Sprint(test.name, ", a replica waits for the lease: ", follows), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					job := func(s jobs.Schedule) []jobs.Job {
						return []jobs.Job{{Name: "job", Schedule: s, Misfire: jobs.MisfireAll}}
					}
					first := c.start(job(jobs.Every(10 * time.Minute)))
					first.link.set(func(l *link) { l.hold["NoteTerm"] = test.late })
					if follows {
						c.until(7 * time.Second) // its looks are not at the same time as the heartbeats
						c.start(job(jobs.Every(time.Second)))
					}
					c.until(25*time.Minute + 500*time.Millisecond)
					test.end(first)
					if !follows {
						c.start(job(jobs.Every(time.Second)))
					}
					c.until(26 * time.Minute)
					if records := c.records("job"); len(records) < 3 || records[1].Tick.Sub(c.begin) != 20*time.Minute || records[2].Tick.Sub(c.begin) < test.want || records[2].Tick.Sub(c.begin) > 25*time.Minute+time.Second {
						t.Errorf("the new schedule begins before %v:\n%s", test.want, c.rows("job"))
					}
				})
			})
		}
	}
}

// So it is where terms in between never had the new schedule in the ledger. Of a leader that was killed, the last run that it
// started is known.
func TestChangedScheduleBeginsBeforeTermsInBetween(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*replica)
		want string
	}{
		{"stopped", (*replica).stop, "5h succeeded"},
		{"killed", (*replica).kill, "5h succeeded, missed 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := func(s jobs.Schedule) []jobs.Job {
					return []jobs.Job{{Name: "job", Schedule: s}, {Name: "other", Schedule: jobs.Cron("0 15 3 * * *")}}
				}
				first := c.start(declared(jobs.Cron("0 0 2 1 1 *")))
				c.until(4*time.Hour + 30*time.Minute)
				test.end(first)
				second := c.startOn(func(l *link) { l.fail["Load"] = 1e9 }, declared(jobs.Cron("0 0 2 1 1 *")))
				c.until(4*time.Hour + 31*time.Minute)
				second.stop()
				c.until(5*time.Hour + 30*time.Minute)
				c.start(declared(jobs.Cron("0 0 * * * *")))
				c.until(5*time.Hour + 31*time.Minute)
				c.wantRows("job", "2h succeeded", test.want)
			})
		})
	}
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
