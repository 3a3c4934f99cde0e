package scheduler_test

import (
	"context"
	"fmt"
	"io"
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

// skippedLines are the lines of a log that tell of skipped ticks, and how many
// ticks they tell of.
func skippedLines(logs *observer.ObservedLogs) (lines []string, ticks int) {
	for _, line := range logs.All() {
		fields := line.ContextMap()
		n, _ := fields["ticks"].(int64)
		switch line.Message {
		case "ticks skipped":
			from, _ := fields["from"].(time.Time)
			to, _ := fields["to"].(time.Time)
			lines = append(lines, fmt.Sprintf("%v: %d over %v: %v", fields["job"], n, to.Sub(from), fields["why"]))
		case "further ticks skipped":
			from, _ := fields["from"].(time.Time)
			to, _ := fields["to"].(time.Time)
			lines = append(lines, fmt.Sprintf("%v: further %d over %v: %v", fields["job"], n, to.Sub(from), fields["why"]))
		default:
			continue
		}
		ticks += int(n)
	}
	return lines, ticks
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Ticks that a gap leaves out are logged: one line for each job, with how many and
// which.
func TestGapsAreLogged(t *testing.T) {
	inBubble(t, func(c *cluster) {
		minute := func(name string, misfire jobs.Misfire, catchUp jobs.CatchUp) jobs.Job {
			return jobs.Job{Name: name, Schedule: jobs.Every(time.Minute), Misfire: misfire, CatchUp: catchUp}
		}
		declared := []jobs.Job{
			minute("all", jobs.MisfireAll, jobs.CatchUp{Limit: 3}),
			minute("all-late", jobs.MisfireAll, jobs.CatchUp{Limit: 8, Deadline: 2*time.Minute + time.Second}),
			minute("late", jobs.MisfireOnce, jobs.CatchUp{Deadline: time.Second}),
			minute("once", jobs.MisfireOnce, jobs.CatchUp{}),
			minute("skip", jobs.MisfireSkip, jobs.CatchUp{}),
		}
		c.start(declared).stop()
		c.until(10*time.Minute + 30*time.Second)
		core, logs := observer.New(zapcore.InfoLevel)
		c.start(declared, scheduler.WithLogger(zap.New(core)))
		c.until(11*time.Minute + 30*time.Second)
		lines, _ := skippedLines(logs)
		wantLines(c.T, lines,
			"all-late: 8 over 7m0s: too late to start",
			"all: 7 over 6m0s: more ticks are due than may wait",
			"late: 10 over 9m0s: too late to start",
			"skip: 10 over 9m0s: missed",
		)
	})
}

// Jobs that skip all the time have one line when they begin and one when they end,
// which tell of every tick, and one row.
func TestSkipsAreSummedUp(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, logs := observer.New(zapcore.InfoLevel)
		var declared []jobs.Job
		const many = 50
		for i := range many {
			declared = append(declared, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Second), Do: sleep(time.Hour)})
		}
		r := c.start(declared, scheduler.WithLogger(zap.New(core)))
		c.until(5*time.Minute + 500*time.Millisecond)
		r.stop()
		rows := 0
		for _, job := range declared {
			for _, record := range c.records(job.Name) {
				if record.State == jobs.Skipped {
					ticksOf := 1 + record.Missed
					rows += ticksOf
					if ticksOf < 299 {
						c.Errorf("a row of %s is for %d ticks alone", job.Name, ticksOf)
					}
				}
			}
		}
		lines, ticks := skippedLines(logs)
		if ticks != rows || rows < 299*many {
			c.Errorf("the log tells of %d ticks, %d were skipped", ticks, rows)
		}
		if len(lines) != 2*many {
			c.Errorf("%d lines: %q", len(lines), lines)
		}
	})
}

// A job that has ceased to skip says so while its term goes on.
func TestSkipsEnd(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, logs := observer.New(zapcore.InfoLevel)
		once := true
		do := func(ctx context.Context, run jobs.Run) error {
			if once {
				once = false
				return sleep(10*time.Minute+500*time.Millisecond)(ctx, run)
			}
			return nil
		}
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(10 * time.Second), Do: do}}, scheduler.WithLogger(zap.New(core)))
		c.until(13 * time.Minute)
		lines, _ := skippedLines(logs)
		wantLines(c.T, lines, "job: 1 over 0s: an earlier run has not finished", "job: further 59 over 9m40s: an earlier run has not finished")
		if rows := c.lines("job"); rows[1] != "10m10s skipped, missed 59: an earlier run has not finished" || rows[2] != "10m20s succeeded" {
			c.Error(rows[:3])
		}
	})
}

// A term that begins while skipped ticks are extended does not take the rows that are
// gone for those of a ledger that was restored.
func TestSkippedRowsAreNoRestore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: sleep(3 * time.Hour)}}
		core, logs := observer.New(zapcore.ErrorLevel)
		for range 2 {
			c.start(declared, scheduler.WithLogger(zap.New(core)))
		}
		for at := 40 * time.Minute; at < 20*time.Hour; at += 47 * time.Minute {
			c.until(at)
			_ = c.leader().Resign(c.Context())
			c.until(at + time.Minute)
		}
		for _, line := range logs.All() {
			if strings.Contains(line.Message, "the ledger has gone back") {
				c.Fatal(line.Message, line.ContextMap())
			}
		}
		skipped := 0
		for _, r := range c.records("job") {
			if r.State == jobs.Skipped {
				skipped++
			}
		}
		if skipped > 60 {
			c.Errorf("%d rows of skipped ticks", skipped)
		}
	})
}

// A job that has not skipped for a while has a line of its own again.
func TestSkipsNowAndThen(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, logs := observer.New(zapcore.InfoLevel)
		busy := jobs.Job{Name: "now-and-then", Schedule: jobs.Every(5 * time.Minute), Do: sleep(7 * time.Minute)}
		c.start([]jobs.Job{busy}, scheduler.WithLogger(zap.New(core)))
		c.until(31 * time.Minute)
		lines, _ := skippedLines(logs)
		const line = "now-and-then: 1 over 0s: an earlier run has not finished"
		wantLines(c.T, lines, line, line, line)
	})
}

// The leader stands still for 8 s out of ten, and misses a tick each time. Each gap has a row
// of its own and is told, though all are skipped for one reason.
func TestEachGapIsTold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.DebugLevel)
		standsStill := zap.Hooks(func(e zapcore.Entry) error {
			if time.Since(c.begin)%(10*time.Second) == 0 && e.Message == "run started" {
				time.Sleep(8 * time.Second)
			}
			return nil
		})
		c.start([]jobs.Job{
			{Name: "blocks", Schedule: jobs.Cron("*/10 * * * * *")},
			{Name: "skips", Schedule: jobs.Cron("2/10 * * * * *"), Misfire: jobs.MisfireSkip},
			{Name: "tell", Schedule: jobs.OnMissed("skips").AtMost(0, 0)},
		}, scheduler.WithLogger(zap.New(core, standsStill)))
		c.until(69 * time.Second)
		var rows, told []string
		for tick := 12; tick < 69; tick += 10 {
			rows = append(rows, fmt.Sprintf("%s skipped: missed", short(time.Duration(tick)*time.Second)))
			told = append(told, fmt.Sprintf("missed of skips %s, 1 missed", short(time.Duration(tick)*time.Second)))
		}
		c.wantRows("skips", append([]string{"2s succeeded"}, rows...)...)
		c.wantNotices("tell", told...)
	})
}
