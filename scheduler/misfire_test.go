package scheduler_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// After two weeks without a leader there is no flood, and every tick has a row
// or is counted.
func TestTwoWeeksOff(t *testing.T) {
	inBubble(t, func(c *cluster) {
		hour := func(name string, misfire jobs.Misfire, catchUp jobs.CatchUp) jobs.Job {
			return jobs.Job{Name: name, Schedule: jobs.Every(time.Hour), Misfire: misfire, CatchUp: catchUp, Do: sleep(time.Minute)}
		}
		declared := []jobs.Job{
			hour("once", jobs.MisfireOnce, jobs.CatchUp{}),
			hour("skip", jobs.MisfireSkip, jobs.CatchUp{}),
			hour("all", jobs.MisfireAll, jobs.CatchUp{Limit: 3}),
			hour("once-late", jobs.MisfireOnce, jobs.CatchUp{Deadline: 10 * time.Minute}),
			hour("once-in-time", jobs.MisfireOnce, jobs.CatchUp{Deadline: 50 * time.Minute}),
			hour("all-late", jobs.MisfireAll, jobs.CatchUp{Limit: 5, Deadline: 2 * time.Hour}),
			hour("all-too-late", jobs.MisfireAll, jobs.CatchUp{Limit: 5, Deadline: time.Minute}),
			{Name: "second", Schedule: jobs.Every(time.Second), Do: sleep(0)},
			{Name: "second-all", Schedule: jobs.Cron("* * * * * *"), Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 2}, Do: sleep(0)},
		}
		c.start(declared).stop()
		c.until(14*24*time.Hour + 30*time.Minute)
		r := c.start(declared)
		c.until(14*24*time.Hour + 35*time.Minute)
		r.stop()
		c.wantRows("once", "336h succeeded, missed 335")
		c.wantRows("skip", "336h skipped, missed 335: missed")
		c.wantRows("all", "334h succeeded, missed 333", "335h succeeded", "336h succeeded")
		c.wantBegan("all", 14*24*time.Hour+30*time.Minute, 14*24*time.Hour+31*time.Minute, 14*24*time.Hour+32*time.Minute)
		c.wantRows("once-late", "336h skipped, missed 335: too late to start")
		c.wantRows("once-in-time", "336h succeeded, missed 335")
		c.wantRows("all-late", "334h skipped, missed 333: too late to start", "335h succeeded", "336h succeeded")
		c.wantRows("all-too-late", "336h skipped, missed 335: too late to start")
		for job, want := range map[string]int{"second": 301, "second-all": 302} {
			if records := c.records(job); len(records) != want || records[0].Missed != 10_000 || records[1].Missed != 0 {
				t.Errorf("%s: %d rows, the first missed %d", job, len(records), records[0].Missed)
			}
		}
	})
}

// The ticks of a new job start now. A job whose schedule has changed goes on, by its
// new schedule, from the end of the previous term; all others go on from their
// cursors.
func TestNewAndChangedSchedules(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := func(name string, s jobs.Schedule) jobs.Job {
			return jobs.Job{Name: name, Schedule: s, Misfire: jobs.MisfireAll}
		}
		c.start([]jobs.Job{job("same", jobs.Every(time.Minute)), job("changed", jobs.Every(time.Minute))})
		c.until(90 * time.Second)
		c.replicas[0].stop()
		c.until(270 * time.Second)
		c.start([]jobs.Job{job("same", jobs.Every(time.Minute)), job("changed", jobs.Cron("* * * * *")), job("new", jobs.Every(time.Minute))})
		c.until(330 * time.Second)
		c.wantRows("same", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded")
		c.wantRows("changed", "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded")
		c.wantRows("new", "5m succeeded")
	})
}

// A takeover loses no tick of its gap, also the first one of a job.
func TestTakeoverCatchesUp(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "once", Schedule: jobs.Every(5 * time.Second)},
			{Name: "all", Schedule: jobs.Every(5 * time.Second), Misfire: jobs.MisfireAll},
			{Name: "at", Schedule: jobs.At(c.begin.Add(10 * time.Second))},
		}
		first := c.start(declared)
		c.start(declared, scheduler.WithFullTTL())
		c.until(7 * time.Second)
		first.kill()
		c.until(26 * time.Second)
		c.wantRows("once", "5s succeeded", "20s succeeded, missed 2", "25s succeeded")
		c.wantRows("all", "5s succeeded", "10s succeeded", "15s succeeded", "20s succeeded", "25s succeeded")
		c.wantRows("at", "10s succeeded")
	})
}

// A start deadline also holds for runs that have waited for room.
func TestDeadlineWhileWaiting(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{
			Name: "long", Schedule: jobs.Every(time.Hour), Overlap: jobs.OverlapQueue,
			CatchUp: jobs.CatchUp{Deadline: 10 * time.Minute}, Do: sleep(75 * time.Minute),
		}})
		c.until(5 * time.Hour)
		c.wantRows("long", "1h succeeded", "2h skipped: too late to start", "3h succeeded", "4h skipped: too late to start", "5h running")
	})
}

// Ticks that are due while missed ones of them still wait run behind them, in
// order, also over a takeover, until the line is at its end.
func TestDueTicksWaitBehindMissedOnes(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var declared []jobs.Job
		for name, overlap := range map[string]jobs.Overlap{"forbid": jobs.OverlapForbid, "queue": jobs.OverlapQueue, "allow": jobs.OverlapAllow, "replace": jobs.OverlapReplace} {
			declared = append(declared, jobs.Job{Name: name, Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, Overlap: overlap, Limit: 1, Do: sleep(25 * time.Second)})
		}
		c.start(declared).stop()
		c.until(5*time.Minute + time.Second)
		first := c.start(declared)
		c.until(400 * time.Second)
		first.stop() // cancels the fourth, and leaves the fifth and the sixth
		c.start(declared)
		c.until(9*time.Minute - 1)
		for _, name := range []string{"forbid", "queue", "allow"} {
			c.wantRows(name, "1m succeeded", "2m succeeded", "3m succeeded", "4m cancelled*", "5m succeeded", "6m succeeded", "7m succeeded", "8m succeeded")
			c.wantBegan(name, 301*time.Second, 326*time.Second, 351*time.Second, 376*time.Second, 400*time.Second, 425*time.Second, 450*time.Second, 480*time.Second)
		}
		replaced := "jobs: replaced by a newer tick"
		c.wantRows("replace", "1m succeeded", "2m succeeded", "3m cancelled: "+replaced+"*", "4m skipped: "+replaced, "5m skipped: "+replaced, "6m succeeded", "7m succeeded", "8m succeeded")
	})
}

// The line holds at most CatchUp ticks, and ticks that find it full are recorded as
// skipped. It takes in the ticks of a further gap, the newest first.
func TestLineIsBounded(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 3}, Do: sleep(70 * time.Second)}}
		c.start(declared).stop()
		c.until(5*time.Minute + time.Second)
		first := c.start(declared)
		c.until(12*time.Minute + 30*time.Second)
		full := "as many ticks as allowed wait already"
		rows := []string{"3m succeeded, missed 2", "4m succeeded", "5m succeeded", "6m succeeded", "7m succeeded", "8m succeeded"}
		c.wantRows("job", append(rows, "9m running", "10m waiting", "11m waiting", "12m skipped: "+full)...)
		first.stop()
		c.until(16*time.Minute + 30*time.Second)
		c.start(declared)
		c.until(17*time.Minute + 1)
		c.wantRows("job", append(rows, "9m cancelled*", "10m running", "11m waiting", "12m skipped: "+full, "15m waiting, missed 2", "16m waiting", "17m skipped: "+full)...)
	})
}

// Under MisfireAll every tick gets its run under every Overlap except replace: a
// tick that is due during an earlier run waits for it, also over a takeover. No
// more runs go on at once than Overlap allows.
func TestEveryTickRunsUnderMisfireAll(t *testing.T) {
	for _, test := range []struct {
		name    string
		job     jobs.Job
		options []scheduler.Option
		most    int // runs at once
	}{
		{name: "forbid", job: jobs.Job{Overlap: jobs.OverlapForbid}, most: 1},
		{name: "queue", job: jobs.Job{Overlap: jobs.OverlapQueue}, most: 1},
		{name: "allow", job: jobs.Job{Overlap: jobs.OverlapAllow}, most: 100},
		{name: "allow two", job: jobs.Job{Overlap: jobs.OverlapAllow, Limit: 2}, most: 2},
		{name: "one slot", job: jobs.Job{Overlap: jobs.OverlapAllow}, options: []scheduler.Option{scheduler.WithMaxRuns(1)}, most: 1},
		{name: "lock at least", job: jobs.Job{LockAtLeastFor: 50 * time.Second}, most: 1},
		{name: "run again", job: jobs.Job{Recover: jobs.RecoverRerun}, most: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := test.job
				job.Name, job.Schedule, job.Misfire = "job", jobs.Every(time.Minute), jobs.MisfireAll
				var mu sync.Mutex
				now, most := 0, 0
				count := func(n int) {
					mu.Lock()
					defer mu.Unlock()
					now += n
					most = max(most, now)
				}
				job.Do = func(ctx context.Context, run jobs.Run) error {
					count(1)
					defer count(-1)
					// Each tenth tick takes longer than the next two are away.
					took := 20 * time.Second
					if run.Tick.Minute()%10 == 3 {
						took = 150 * time.Second
					}
					return sleep(took)(ctx, run)
				}
				c.start([]jobs.Job{job}, test.options...)
				for i := range 12 {
					c.start([]jobs.Job{job}, test.options...)
					c.until(time.Duration(i+1) * 437 * time.Second)
					if leader := c.leader(); i%2 == 0 {
						leader.kill()
					} else {
						leader.stop()
					}
				}
				c.until(100 * time.Minute)
				for i, r := range c.records("job") {
					if tick := c.begin.Add(time.Duration(i+1) * time.Minute); !r.Tick.Equal(tick) || r.Missed > 0 {
						t.Fatalf("row %d is of %v, missed %d", i, r.Tick.Sub(c.begin), r.Missed)
					}
					if r.Attempt == 0 && (r.State != jobs.Waiting || i < 90) {
						t.Errorf("tick %v never began: %v %s", r.Tick.Sub(c.begin), r.State, r.Error)
					}
				}
				if most > test.most {
					t.Errorf("%d runs at once, want at most %d", most, test.most)
				}
			})
		})
	}
}

// A gap has a pause in it, and a run of what came before takes its time: what came after is
// not skipped because of that run, unless the policy skips it anyway.
func TestPauseWithinAGap(t *testing.T) {
	want := map[jobs.Misfire][]string{
		jobs.MisfireOnce: {"10m succeeded", "30m succeeded, missed 1", "40m skipped: paused", "1h succeeded, missed 1", "1h10m succeeded"},
		jobs.MisfireSkip: {"10m succeeded", "30m skipped, missed 1: missed", "40m skipped: paused", "1h skipped, missed 1: missed", "1h10m succeeded"},
		jobs.MisfireAll: {
			"10m succeeded", "20m succeeded", "30m succeeded", "40m skipped: paused", "50m succeeded", "1h succeeded", "1h10m succeeded",
		},
	}
	for _, misfire := range jobs.Misfires() {
		t.Run(misfire.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := []jobs.Job{{Name: "a", Schedule: jobs.Every(10 * time.Minute), Misfire: misfire, Do: sleep(time.Minute)}}
				first := c.start(job)
				c.until(12 * time.Minute)
				first.stop()
				c.until(35 * time.Minute)
				check(t, c.Pause(c.Context(), "a"))
				c.until(45 * time.Minute)
				check(t, c.Resume(c.Context(), "a"))
				c.until(65 * time.Minute)
				c.start(job)
				c.until(75 * time.Minute)
				c.wantRows("a", want[misfire]...)
			})
		})
	}
}

// A tick is late by when the ledger took its claim: one that was sent for longer than the policy allows is skipped.
func TestMisfireSkipInAnOutage(t *testing.T) {
	for away, want := range map[time.Duration]string{3 * time.Second: "1h succeeded", 9 * time.Second: "1h skipped: missed", 26 * time.Second: "1h skipped: missed"} {
		t.Run(away.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				skip := jobs.Job{Name: "skip", Schedule: jobs.Every(time.Hour), Misfire: jobs.MisfireSkip}
				var missed int
				r := c.start([]jobs.Job{skip}, scheduler.WithTiming(lease.Timing{TTL: time.Minute}), scheduler.WithEvents(func(e event.Event) {
					if e, ok := e.(event.TicksSkipped); ok {
						missed += e.Ticks
					}
				}))
				c.until(time.Hour - time.Second)
				r.link.set(func(l *link) { l.away = time.Now().Add(away) })
				c.until(time.Hour + 2*time.Minute)
				c.wantRows("skip", want)
				if told := missed == 1; told != strings.Contains(want, "skipped") {
					t.Errorf("%d ticks were told as skipped", missed)
				}
			})
		})
	}
}
