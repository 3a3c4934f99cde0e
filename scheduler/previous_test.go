package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// told are the attempts of a job, as their runs were told.
func (c *cluster) told(job string) (lines []string) {
	for _, r := range c.runs(job) {
		line := fmt.Sprintf("%d", r.Attempt)
		if r.LastAttempt {
			line += " last"
		}
		if r.Previous.State != 0 {
			line += ", " + r.Previous.String()
		}
		lines = append(lines, line)
	}
	return lines
}

func (c *cluster) wantTold(job string, want ...string) {
	c.Helper()
	got := c.told(job)
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		before, after, open := strings.Cut(want[i], "*")
		same = got[i] == want[i] || open && strings.HasPrefix(got[i], before) && strings.HasSuffix(got[i], after)
	}
	if !same {
		c.Errorf("%s: the runs were told %q, want %q", job, got, want)
	}
}

// A run knows whether its attempt is the last, and how the one before ended, also under
// another leader.
func TestPreviousAttempt(t *testing.T) {
	for _, takeover := range []bool{false, true} {
		t.Run(fmt.Sprint(takeover), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				work := func(_ context.Context, run jobs.Run) error {
					switch run.Attempt {
					case 1:
						return fmt.Errorf("jobs: timeout: it says: %w", errWork)
					case 2:
						panic("boom")
					}
					return nil
				}
				declared := []jobs.Job{
					{Name: "job", Schedule: jobs.At(c.begin.Add(time.Minute)), Retry: exact(3, 5*time.Minute), Do: work},
					{Name: "slow", Schedule: jobs.At(c.begin.Add(time.Minute)), Retry: exact(2, 5*time.Minute), Timeout: time.Second, Do: sleep(time.Hour)},
					{Name: "one", Schedule: jobs.At(c.begin.Add(time.Minute)), Do: sleep(0)},
					{Name: "by-hand", Schedule: jobs.Manual(), Do: sleep(0)},
				}
				next := func() {
					if takeover {
						c.leader().kill()
						time.Sleep(time.Minute)
						c.start(declared)
					}
				}
				c.start(declared)
				_, err := c.Trigger(c.Context(), "by-hand")
				check(t, err)
				c.until(2 * time.Minute)
				next()
				c.until(8 * time.Minute)
				next()
				c.until(30 * time.Minute)
				c.wantTold("job", "1", "2, failed: jobs: timeout: it says: no luck", "3 last, panicked: jobs: panic: boom")
				c.wantTold("slow", "1", "2 last, timed out: jobs: timeout: context deadline exceeded")
				c.wantTold("one", "1 last")
				c.wantTold("by-hand", "1 last")
			})
		})
	}
}

// So does one that is run again because its holder died, or stepped down.
func TestPreviousAttemptOfInterruptedRuns(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.At(c.begin.Add(time.Minute)), Recover: jobs.RecoverRerun, Do: sleep(10 * time.Minute)}}
		first := c.start(declared)
		c.until(2 * time.Minute)
		first.kill()
		second := c.start(declared)
		c.until(4 * time.Minute)
		second.stop()
		c.start(declared)
		c.until(30 * time.Minute)
		c.wantTold("job", "1 last", "2 last, interrupted: not finished by worker/*", "3 last, cancelled: election: stopped: context canceled")
	})
}

// An attempt that is followed by another is no error in the log.
func TestLogOfRetries(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, logs := observer.New(zap.InfoLevel)
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.At(c.begin.Add(time.Minute)), Retry: exact(3, time.Second), Do: failing(9)}}, scheduler.WithLogger(zap.New(core)))
		c.until(2 * time.Minute)
		var levels []zapcore.Level
		for i, line := range logs.FilterMessage("run failed").All() {
			levels = append(levels, line.Level)
			if again := line.ContextMap()["will_retry"]; again != (i < 2) {
				t.Errorf("attempt %d: will_retry %v", i+1, again)
			}
		}
		if want := []zapcore.Level{zap.WarnLevel, zap.WarnLevel, zap.ErrorLevel}; !slices.Equal(levels, want) {
			t.Errorf("logged at %v, want %v", levels, want)
		}
	})
}
