package scheduler_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// Ticks of a paused time are recorded as skipped, also those that were due while
// no replica led; a manual run starts in spite of a pause.
func TestPauseAndResume(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ctx := t.Context()
		declared := []jobs.Job{
			{Name: "one", Schedule: jobs.Every(time.Minute)},
			{Name: "other", Schedule: jobs.Every(time.Minute)},
			{Name: "all", Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll},
		}
		first := c.start(declared)
		c.until(61 * time.Second)
		check(t, c.Pause(ctx, "one"))
		check(t, c.Pause(ctx, "one"))
		c.until(121 * time.Second)
		first.link.set(func(l *link) {
			if l.sent["Load"] != 3 { // at the start, with the new jobs, and for the pause
				t.Errorf("the ledger was loaded %d times", l.sent["Load"])
			}
		})
		check(t, c.Pause(ctx, ""))
		c.until(190 * time.Second)
		if _, err := c.Trigger(ctx, "one"); err != nil {
			t.Fatal(err)
		}
		c.until(195 * time.Second)
		first.stop()
		c.until(6*time.Minute - time.Second)
		c.start(declared)
		c.until(6*time.Minute + time.Second)
		check(t, c.Resume(ctx, ""))
		c.until(7*time.Minute + time.Second)
		check(t, c.Resume(ctx, "one"))
		c.until(8*time.Minute + time.Second)
		c.wantRows("one", "1m succeeded", "3m skipped, missed 1: paused", "3m10s succeeded",
			"7m skipped, missed 3: paused", "8m succeeded")
		c.wantRows("other", "1m succeeded", "2m succeeded", "3m skipped: paused", "6m skipped, missed 2: paused", "7m succeeded", "8m succeeded")
		c.wantRows("all", "1m succeeded", "2m succeeded", "3m skipped: paused", "6m skipped, missed 2: paused", "7m succeeded", "8m succeeded")
	})
}

// A manual run starts at once, and once, beside the schedule; under
// each way of overlapping it waits for what runs, past any start deadline.
func TestTrigger(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var declared []jobs.Job
		overlaps := map[string]jobs.Overlap{"forbid": jobs.OverlapForbid, "queue": jobs.OverlapQueue, "replace": jobs.OverlapReplace, "allow": jobs.OverlapAllow}
		for name, overlap := range overlaps {
			declared = append(declared, jobs.Job{Name: name, Schedule: jobs.Every(time.Minute), Overlap: overlap, CatchUp: jobs.CatchUp{Deadline: time.Second}, Do: sleep(20 * time.Second)})
		}
		c.start(declared)
		c.until(70*time.Second + time.Millisecond)
		for name := range overlaps {
			if _, err := c.Trigger(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		c.until(119 * time.Second)
		for name := range overlaps {
			c.wantRows(name, "1m succeeded", "1m10.001s succeeded")
			want := 80 * time.Second
			if name == "allow" {
				want = 70*time.Second + time.Millisecond
			}
			c.wantBegan(name, time.Minute, want)
			if run := c.runs(name)[1]; run.Trigger == 0 || run.Attempt != 1 {
				t.Errorf("%+v", run)
			}
		}
		if _, err := c.Trigger(t.Context(), "forbit"); !errors.Is(err, jobs.ErrNoJob) {
			t.Errorf("error %v", err)
		}
	})
}

// A snapshot of the ledger can be older than the term's own state: a manual run
// is not started twice while its start is still being written.
func TestTriggerWhileItsStartIsWritten(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, Do: sleep(5 * time.Second)}})
		r.link.set(func(l *link) { l.hold["Move"] = 2500 * time.Millisecond })
		for range 4 { // each makes the leader read, beside the starts of the others
			if _, err := c.Trigger(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(700 * time.Millisecond)
		}
		c.until(time.Minute)
		runs := c.runs("job")
		if len(runs) != 4 {
			t.Errorf("4 manual runs ran %d times", len(runs))
		}
		c.wantAllOver("job", 4)
	})
}

// A manual run that was requested while no replica led is run by the next leader.
func TestTriggerWhileNobodyLeads(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Manual()}}
		c.start(declared).stop()
		if _, err := c.Trigger(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		c.until(time.Minute)
		c.start(declared)
		c.until(2 * time.Minute)
		c.wantRows("job", "0s succeeded")
		c.wantBegan("job", time.Minute)
	})
}

// A run is cancelled in each state that it can be in.
func TestCancel(t *testing.T) {
	inBubble(t, func(c *cluster) {
		cancel := func(job string, tick time.Duration) {
			t.Helper()
			check(t, c.Cancel(t.Context(), jobs.Key{Job: job, Tick: c.begin.Add(tick)}))
		}
		declared := []jobs.Job{
			{Name: "running", Schedule: jobs.Every(time.Hour), Retry: exact(2, time.Second), Recover: jobs.RecoverRerun, Do: sleep(30 * time.Minute)},
			{Name: "queued", Schedule: jobs.Every(30 * time.Minute), Overlap: jobs.OverlapQueue, Do: sleep(40 * time.Minute)},
			{Name: "retried", Schedule: jobs.Every(time.Hour), Retry: exact(2, 10*time.Minute), Do: failing(9)},
			{Name: "left", Schedule: jobs.Every(time.Hour), Recover: jobs.RecoverRerun, Do: sleep(30 * time.Minute)},
		}
		first := c.start(declared)
		c.until(time.Hour + 30*time.Second)
		cancel("running", time.Hour)
		cancel("queued", time.Hour)
		cancel("retried", time.Hour)
		c.until(time.Hour + 32*time.Second)
		asked := "jobs: cancelled on request"
		c.wantRows("running", "1h cancelled: "+asked+": context canceled")
		c.wantRows("queued", "30m running", "1h cancelled: "+asked)
		c.wantRows("retried", "1h cancelled: "+asked)
		first.kill()
		cancel("left", time.Hour)
		c.start(declared)
		c.until(time.Hour + time.Minute)
		c.wantRows("left", "1h cancelled: "+asked)
		if cause := c.runs("running")[0].cause; !errors.Is(cause, jobs.ErrCancelled) {
			t.Errorf("cause %v", cause)
		}
		if err := c.Cancel(t.Context(), jobs.Key{Job: "running", Tick: c.begin.Add(time.Hour)}); !errors.Is(err, jobs.ErrNoRun) {
			t.Errorf("error %v", err)
		}
	})
}

// A cancel request also counts while the run's claim, start or end is being
// written.
func TestCancelWhileTheLedgerIsTold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "claimed", Schedule: jobs.At(c.begin.Add(time.Minute)), Do: sleep(time.Hour)},
			{Name: "retried", Schedule: jobs.At(c.begin.Add(2 * time.Minute)), Retry: exact(3, 5*time.Second), Do: failing(9)},
		})
		cancel := func(job string, tick time.Duration) {
			t.Helper()
			check(t, c.Cancel(t.Context(), jobs.Key{Job: job, Tick: c.begin.Add(tick)}))
		}
		c.until(59 * time.Second)
		r.link.set(func(l *link) { l.lose["Claim"] = 20 })
		c.until(time.Minute + 100*time.Millisecond)
		cancel("claimed", time.Minute) // its row is there, and the leader does not know
		c.until(time.Minute + 1500*time.Millisecond)
		r.link.set(func(l *link) { l.lose["Claim"] = 0 })
		c.until(2*time.Minute - time.Millisecond)
		c.wantRows("claimed", "1m cancelled: jobs: cancelled on request")
		c.wantBegan("claimed")
		r.link.set(func(l *link) { l.hold["Move"] = 2 * time.Second })
		c.until(2*time.Minute + time.Millisecond)
		cancel("retried", 2*time.Minute) // it has failed, and the ledger is being told that it waits
		c.until(3 * time.Minute)
		c.wantRows("retried", "2m cancelled: jobs: cancelled on request")
		c.wantBegan("retried", 2*time.Minute)
	})
}

// A cancel request that has returned keeps a run that waits from starting, before the leader knows of the
// request, and while the ledger is being told of the start.
func TestCancelBeforeAStart(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "retried", Schedule: jobs.At(c.begin.Add(time.Minute)), Retry: exact(3, 5*time.Second), Do: failing(9)},
			{Name: "told", Schedule: jobs.At(c.begin.Add(2 * time.Minute)), Retry: exact(3, 5*time.Second), Do: failing(9)},
		})
		cancel := func(job string, tick time.Duration) {
			t.Helper()
			check(t, c.Cancel(t.Context(), jobs.Key{Job: job, Tick: c.begin.Add(tick)}))
		}
		c.until(time.Minute + time.Second)
		r.link.set(func(l *link) { l.lose["Load"] = 1000 })
		cancel("retried", time.Minute)
		c.until(time.Minute + 10*time.Second)
		c.wantRows("retried", "1m waiting: "+jobs.Previous{State: jobs.Failed, Error: "no luck"}.String())
		r.link.set(func(l *link) { l.lose["Load"] = 0 })
		c.until(time.Minute + 20*time.Second)
		c.wantRows("retried", "1m cancelled: jobs: cancelled on request")
		c.wantBegan("retried", time.Minute)
		c.until(2*time.Minute + 4*time.Second)
		r.link.set(func(l *link) { l.hold["Move"] = 2 * time.Second })
		c.until(2*time.Minute + 6*time.Second)
		cancel("told", 2*time.Minute)
		c.until(2*time.Minute + 20*time.Second)
		c.wantRows("told", "2m cancelled: jobs: cancelled on request")
		c.wantBegan("told", 2*time.Minute)
	})
}

// A run that waits for its time and is to replace an earlier one does not, if its end was asked for; and observers are told
// that it was cancelled, also if the leader did not know when it tried to start it.
func TestCancelOfAReplacement(t *testing.T) {
	for name, slow := range map[string]time.Duration{"known": 0, "not yet known": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var dropped []event.RunDropped
				jitter := 20 * time.Second
				r := c.start([]jobs.Job{
					{Name: "job", Schedule: jobs.Every(time.Minute), Jitter: jitter, Overlap: jobs.OverlapReplace, Do: sleep(100 * time.Second)},
					{Name: "retried", Schedule: jobs.At(c.begin.Add(10 * time.Minute)), Retry: exact(3, 5*time.Second), Do: failing(9)},
				}, scheduler.WithEvents(func(e event.Event) {
					if e, ok := e.(event.RunDropped); ok {
						dropped = append(dropped, e)
					}
				}))
				c.until(2*time.Minute + time.Millisecond)
				record := c.records("job")[1]
				c.until(record.Due.Sub(c.begin) - 500*time.Millisecond)
				r.link.set(func(l *link) { l.hold["Load"] = slow })
				check(t, c.Cancel(t.Context(), record.Key))
				c.until(2*time.Minute + jitter + 10*time.Second)
				c.wantRows("job", "1m running", "2m cancelled: jobs: cancelled on request")
				r.link.set(func(l *link) { l.hold["Load"] = 0 })
				c.until(10*time.Minute + 4*time.Second)
				r.link.set(func(l *link) { l.hold["Load"] = slow })
				dropped = nil
				check(t, c.Cancel(t.Context(), jobs.Key{Job: "retried", Tick: c.begin.Add(10 * time.Minute)}))
				c.until(10*time.Minute + 20*time.Second)
				if i := slices.IndexFunc(dropped, func(e event.RunDropped) bool { return e.Job == "retried" }); i < 0 || dropped[i].State != jobs.Cancelled {
					t.Errorf("told: %+v", dropped)
				}
			})
		})
	}
}

// A tick that waits for its time, and for a look at the ledger, replaces no later one.
func TestLateReplacement(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Jitter: time.Minute, Overlap: jobs.OverlapReplace, Do: sleep(time.Hour)}})
		r.link.set(func(l *link) { l.hold["Load"] = 2500 * time.Millisecond })
		c.until(2 * time.Hour)
		for _, record := range c.records("job") {
			if record.State == jobs.Skipped {
				t.Errorf("%v: %s", record.Tick.Sub(c.begin), record.Error)
			}
		}
	})
}

// It replaces a run that was triggered after its tick.
func TestReplacementOfATriggeredRun(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Jitter: time.Minute, Overlap: jobs.OverlapReplace, Do: sleep(30 * time.Minute)}})
		c.until(time.Hour + time.Millisecond)
		_, err := c.Trigger(t.Context(), "job")
		check(t, err)
		c.until(time.Hour + 2*time.Minute)
		if runs := c.runs("job"); len(runs) != 2 || runs[0].Trigger == 0 || !errors.Is(runs[0].cause, jobs.ErrReplacedByTick) {
			t.Errorf("ran: %+v", runs)
		}
	})
}

// Runs of a job that this release does not have are left to the other one.
func TestAnotherReleasesJobIsLeftAlone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		other := jobs.Job{Name: "other", Schedule: jobs.Every(time.Minute), Do: sleep(time.Hour)}
		first := c.start([]jobs.Job{other})
		c.until(61 * time.Second)
		first.kill()
		c.start([]jobs.Job{{Name: "mine", Schedule: jobs.Every(time.Minute)}})
		if _, err := c.Trigger(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		c.until(3*time.Minute + time.Second)
		c.wantRows("other", "1m running", "1m1s waiting")
		c.wantRows("mine", "2m succeeded", "3m succeeded")
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantAllOver reports rows of a job that are not over, and how many there are.
func (c *cluster) wantAllOver(job string, rows int) {
	c.Helper()
	records := c.records(job)
	if len(records) != rows {
		c.Errorf("%s: %d rows, want %d", job, len(records), rows)
	}
	for _, r := range records {
		if !r.State.Over() {
			c.Errorf("%s: the run of %v is %v", job, r.Tick, r.State)
		}
	}
}
