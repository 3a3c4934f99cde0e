package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

const (
	busy    = "an earlier run has not finished"
	resting = "LockAtLeastFor is not over since an earlier run began"
)

func TestOverlap(t *testing.T) {
	minute := time.Minute
	tests := []struct {
		name  string
		job   jobs.Job
		until time.Duration
		want  []string
		began []time.Duration
	}{
		{
			"forbid", jobs.Job{Do: sleep(150 * time.Second)}, 5*minute + 1,
			[]string{"1m succeeded", "3m skipped, missed 1: " + busy, "4m running", "5m skipped: " + busy},
			[]time.Duration{minute, 4 * minute},
		},
		{
			"queue", jobs.Job{Overlap: jobs.OverlapQueue, Do: sleep(150 * time.Second)}, 5*minute + 1,
			[]string{"1m succeeded", "2m running", "3m skipped: an earlier tick waits already", "4m waiting", "5m skipped: an earlier tick waits already"},
			[]time.Duration{minute, 210 * time.Second},
		},
		{
			"allow", jobs.Job{Overlap: jobs.OverlapAllow, Do: sleep(150 * time.Second)}, 5*minute + 1,
			[]string{"1m succeeded", "2m succeeded", "3m running", "4m running", "5m running"},
			[]time.Duration{minute, 2 * minute, 3 * minute, 4 * minute, 5 * minute},
		},
		{
			"allow two", jobs.Job{Overlap: jobs.OverlapAllow, Limit: 2, Do: sleep(150 * time.Second)}, 5*minute + 1,
			[]string{"1m succeeded", "2m succeeded", "3m skipped: as many runs as allowed have not finished", "4m running", "5m running"},
			[]time.Duration{minute, 2 * minute, 4 * minute, 5 * minute},
		},
		{
			"replace", jobs.Job{Overlap: jobs.OverlapReplace, Do: sleep(150 * time.Second)}, 3*minute + 1,
			[]string{"1m cancelled: jobs: replaced by a newer tick: context canceled", "2m cancelled: jobs: replaced by a newer tick: context canceled", "3m running"},
			[]time.Duration{minute, 2 * minute, 3 * minute},
		},
		{
			"lock at least", jobs.Job{LockAtLeastFor: 90 * time.Second}, 4*minute + 1,
			[]string{"1m succeeded", "2m skipped: " + resting, "3m succeeded", "4m skipped: " + resting},
			[]time.Duration{minute, 3 * minute},
		},
		{
			"lock at least, queue", jobs.Job{Overlap: jobs.OverlapQueue, LockAtLeastFor: 80 * time.Second}, 4*minute + 1,
			[]string{"1m succeeded", "2m succeeded", "3m succeeded", "4m waiting"},
			[]time.Duration{minute, 140 * time.Second, 220 * time.Second},
		},
		{
			"lock at most", jobs.Job{LockAtMostFor: 90 * time.Second, Do: sleep(time.Hour)}, 3*minute + 1,
			[]string{"1m timed out: jobs: timeout: context deadline exceeded", "2m skipped: " + busy, "3m running"},
			[]time.Duration{minute, 3 * minute},
		},
		{
			"forbid and a retry that waits", jobs.Job{Retry: jobs.Retry{Attempts: 2, Initial: 90 * time.Second, Jitter: 1e-9}, Do: failing(1)}, 3*minute + 1,
			[]string{"1m succeeded, attempt 2", "2m skipped: " + busy, "3m succeeded"},
			[]time.Duration{minute, 150 * time.Second, 3 * minute},
		},
		{
			"queue and a retry that waits", jobs.Job{Overlap: jobs.OverlapQueue, Retry: jobs.Retry{Attempts: 2, Initial: 90 * time.Second, Jitter: 1e-9}, Do: failing(1)}, 3*minute + 1,
			[]string{"1m succeeded, attempt 2", "2m skipped: an earlier tick waits already", "3m succeeded"},
			[]time.Duration{minute, 150 * time.Second, 3 * minute},
		},
		{
			"allow one and a retry that waits", jobs.Job{Overlap: jobs.OverlapAllow, Limit: 1, Retry: jobs.Retry{Attempts: 2, Initial: 90 * time.Second, Jitter: 1e-9}, Do: failing(1)}, 3*minute + 1,
			[]string{"1m succeeded, attempt 2", "2m skipped: as many runs as allowed have not finished", "3m succeeded"},
			[]time.Duration{minute, 150 * time.Second, 3 * minute},
		},
		{
			"replace and a retry that waits", jobs.Job{Overlap: jobs.OverlapReplace, Retry: jobs.Retry{Attempts: 2, Initial: 90 * time.Second, Jitter: 1e-9}, Do: failing(1)}, 3*minute + 1,
			[]string{"1m cancelled: jobs: replaced by a newer tick", "2m succeeded", "3m succeeded"},
			[]time.Duration{minute, 2 * minute, 3 * minute},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				test.job.Name, test.job.Schedule = "job", jobs.Every(time.Minute)
				c.start([]jobs.Job{test.job})
				c.until(test.until)
				c.wantRows("job", test.want...)
				for i := range test.began { // the wait for a retry is jittered by nanoseconds
					runs := c.runs("job")
					if len(runs) != len(test.began) || (runs[i].began-test.began[i]).Abs() > time.Microsecond {
						t.Fatalf("began %+v, want %v", runs, test.began)
					}
				}
			})
		})
	}
}

// The runs that make up for a gap follow each other, whatever Overlap says.
func TestCatchUpInOrder(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var declared []jobs.Job
		for name, overlap := range map[string]jobs.Overlap{"forbid": jobs.OverlapForbid, "queue": jobs.OverlapQueue, "replace": jobs.OverlapReplace, "allow": jobs.OverlapAllow} {
			declared = append(declared, jobs.Job{Name: name, Schedule: jobs.Every(time.Minute), Misfire: jobs.MisfireAll, Overlap: overlap, Limit: 2, Do: sleep(8 * time.Second)})
		}
		c.start(declared).stop()
		c.until(5*time.Minute + time.Second)
		c.start(declared)
		c.until(6*time.Minute - time.Second)
		for _, name := range []string{"forbid", "queue", "replace"} {
			c.wantRows(name, "1m succeeded", "2m succeeded", "3m succeeded", "4m succeeded", "5m succeeded")
			c.wantBegan(name, 301*time.Second, 309*time.Second, 317*time.Second, 325*time.Second, 333*time.Second)
		}
		c.wantBegan("allow", 301*time.Second, 301*time.Second, 309*time.Second, 309*time.Second, 317*time.Second)
	})
}

// A run that ignores that it was replaced keeps its room, and of the ticks that
// wait for it only the newest is left.
func TestReplaceOfARunThatIgnoresItsContext(t *testing.T) {
	inBubble(t, func(c *cluster) {
		stuck := make(chan struct{})
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapReplace, Do: deaf(stuck)}})
		c.until(4*time.Minute + time.Second)
		close(stuck)
		c.until(4*time.Minute + 2*time.Second)
		c.wantRows("job", "1m succeeded", "2m skipped: jobs: replaced by a newer tick", "3m skipped: jobs: replaced by a newer tick", "4m succeeded")
		if cause := c.runs("job")[0].cause; !errors.Is(cause, jobs.ErrReplacedByTick) {
			t.Errorf("cause %v", cause)
		}
	})
}

// Runs that wait for a slot are replaced like those that wait for room, and so is a
// run whose start is being written.
func TestReplaceOfWhatHasNotStarted(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "hog", Schedule: jobs.At(c.begin.Add(30 * time.Second)), Do: sleep(3 * time.Minute)},
			{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapReplace, Do: sleep(0)},
		}, scheduler.WithMaxRuns(1))
		c.until(190 * time.Second)
		r.link.set(func(l *link) { l.delay["Move"] = 2 * time.Second })
		c.until(209 * time.Second)
		c.wantRows("job", "1m skipped: jobs: replaced by a newer tick", "2m skipped: jobs: replaced by a newer tick", "3m waiting")
		r.link.set(func(l *link) { l.away = time.Now().Add(32 * time.Second) })
		c.until(5*time.Minute - 1)
		c.wantRows("job", "1m skipped: jobs: replaced by a newer tick", "2m skipped: jobs: replaced by a newer tick", "3m cancelled: jobs: replaced by a newer tick", "4m succeeded")
		if runs := c.runs("job"); len(runs) != 1 {
			t.Errorf("ran %+v", runs)
		}
	})
}

// A tick replaces the runs before it whenever it starts, and not before: also where its claim was answered after its planned
// start, another replica took it over, or a pause or a drain holds it back.
func TestReplaceAtTheStart(t *testing.T) {
	job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Hour), Jitter: 20 * time.Minute, Recover: jobs.RecoverRerun, Overlap: jobs.OverlapReplace, Do: sleep(2 * time.Hour)}
	replaced := "1h cancelled: " + jobs.ErrReplacedByTick.Error() + ": context canceled"
	for name, test := range map[string]struct {
		meanwhile func(c *cluster, r *replica)
		want      []string // at 2h45m
	}{
		"slow claim": {func(c *cluster, r *replica) {
			short := job
			short.Jitter = 100 * time.Millisecond
			check(c.T, r.Replace(r.doing(short)...))
			r.link.set(func(l *link) { l.delay["Claim"] = 300 * time.Millisecond })
		}, []string{replaced, "2h running"}},
		"taken over": {func(c *cluster, r *replica) {
			c.until(2*time.Hour + 10*time.Second)
			r.kill()
			c.until(2*time.Hour + 25*time.Minute)
			c.start([]jobs.Job{job})
		}, []string{"1h cancelled, attempt 2: " + jobs.ErrReplacedByTick.Error(), "2h running"}},
		"paused": {func(c *cluster, _ *replica) {
			c.until(2*time.Hour + 10*time.Second)
			check(c.T, c.Pause(c.Context(), "job"))
			c.until(2*time.Hour + 25*time.Minute)
			c.wantRows("job", "1h running", "2h waiting")
			check(c.T, c.Resume(c.Context(), "job"))
		}, []string{replaced, "2h running"}},
		"paused until it is too late": {func(c *cluster, r *replica) {
			short := job
			short.CatchUp.Deadline = 30 * time.Minute
			check(c.T, r.Replace(r.doing(short)...))
			c.until(2*time.Hour + 10*time.Second)
			check(c.T, c.Pause(c.Context(), "job"))
			c.until(2*time.Hour + 55*time.Minute)
			check(c.T, c.Resume(c.Context(), "job"))
			c.until(2*time.Hour + 59*time.Minute)
		}, []string{"1h running", "2h waiting"}},
		"drained": {func(c *cluster, r *replica) {
			c.until(2*time.Hour + 10*time.Second)
			r.cancel()
		}, []string{"1h running", "2h waiting"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				r := c.start([]jobs.Job{job}, scheduler.WithDrain(time.Hour))
				c.until(2*time.Hour - time.Second)
				test.meanwhile(c, r)
				c.until(max(time.Since(c.begin), 2*time.Hour+45*time.Minute))
				c.wantRows("job", test.want...)
			})
		})
	}
}

// A tick that replaces one which waits for a slot takes its place among the runs of other jobs: otherwise a busy
// replica would never run the job.
func TestReplaceKeepsThePlace(t *testing.T) {
	inBubble(t, func(c *cluster) {
		all := []jobs.Job{{Name: "job", Schedule: jobs.Every(5 * time.Second), Overlap: jobs.OverlapReplace, Do: sleep(100 * time.Millisecond)}}
		for i := range 5 {
			all = append(all, jobs.Job{Name: fmt.Sprint("other-", i), Schedule: jobs.FixedRate(15 * time.Second), Overlap: jobs.OverlapQueue, Do: sleep(4 * time.Second)})
		}
		c.start(all, scheduler.WithMaxRuns(1))
		c.until(time.Hour)
		if job, other := len(c.runs("job")), len(c.runs("other-0")); job < other/2 {
			t.Errorf("ran %d times, another job %d times", job, other)
		}
	})
}

// What a reading says of a run that has ended since counts for nothing: no tick is skipped because of it.
func TestOldReadingSkipsNoTick(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "job", Schedule: jobs.Every(time.Second), Recover: jobs.RecoverRerun, Do: sleep(950 * time.Millisecond)},
			{Name: "other", Schedule: jobs.Manual(), Do: sleep(0)},
		})
		r.link.set(func(l *link) {
			l.delay["Load"] = 50 * time.Millisecond
			l.hold["Move"], l.delay["Move"] = 5*time.Millisecond, 5*time.Millisecond
		})
		for second := range 20 {
			c.until(time.Duration(second)*time.Second + 945*time.Millisecond)
			_, err := c.Trigger(c.Context(), "other") // has the leader read the ledger
			check(t, err)
		}
		for _, line := range c.lines("job") {
			if strings.Contains(line, "skipped") {
				t.Error(line)
			}
		}
	})
}

// A tick whose claim is answered when the term is over replaces nothing: the term has ended the run before, which has failed.
func TestReplaceAfterTheTerm(t *testing.T) {
	inBubble(t, func(c *cluster) {
		deaf := jobs.Job{Name: "a", Schedule: jobs.Cron("11 * * * * *"), Overlap: jobs.OverlapReplace, Do: func(ctx context.Context, run jobs.Run) error {
			if run.Tick.Sub(c.begin) < time.Minute {
				<-time.After(65 * time.Second)
				return errWork
			}
			return lasting(10*time.Second)(ctx, run)
		}}
		r := c.start([]jobs.Job{deaf})
		c.until(time.Minute)
		// The last heartbeat counts until 12.85 s later: the claim of 1m11s is sent before, and answered after.
		r.link.set(func(l *link) {
			l.fail["Renew"], l.fail["Beat"], l.delay["Claim"] = math.MaxInt, math.MaxInt, 2500*time.Millisecond
		})
		c.until(time.Minute + 17*time.Second)
		if rows := c.lines("a"); len(rows) == 0 || !strings.HasPrefix(rows[0], "11s cancelled: lease: lost") {
			t.Errorf("the run before: %q", rows)
		}
		if !c.known("a").Failing {
			t.Error("the run that the term has ended counts as replaced, and not as failed")
		}
		r.link.set(func(l *link) { clear(l.fail) })
	})
}

// A reading that was sent before a run ended, and is answered after that, does not bring the run back: as a tick that
// replaces, it would end the run that goes on.
func TestReadingFromBeforeAnEnd(t *testing.T) {
	for _, slow := range []time.Duration{10 * time.Millisecond, 500 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapReplace, Do: func(ctx context.Context, run jobs.Run) error {
					switch {
					case run.Trigger != 0:
						return lasting(30*time.Second)(ctx, run)
					case run.Tick.Equal(c.begin.Add(time.Minute)): // it takes a while to stop
						<-ctx.Done()
						time.Sleep(300 * time.Millisecond)
						return ctx.Err()
					}
					return nil
				}}
				r := c.start([]jobs.Job{job, {Name: "other", Schedule: jobs.Manual()}})
				c.until(2*time.Minute + 100*time.Millisecond) // the tick of 2m waits for that of 1m to stop
				c.triggerWith("job", nil)
				c.until(2*time.Minute + 295*time.Millisecond)
				r.link.set(func(l *link) { l.delay["Load"] = slow })
				c.triggerWith("other", nil)
				c.until(2*time.Minute + 50*time.Second)
				c.wantRows("job", "1m cancelled: *", "2m succeeded", "2m0.1s succeeded")
				if runs := c.runs("job"); len(runs) != 3 || runs[2].cause != nil || runs[2].ended-runs[2].began != 30*time.Second {
					t.Errorf("ran %+v", runs)
				}
			})
		})
	}
}
