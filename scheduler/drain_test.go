package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

const drain = 10 * time.Minute

// slowAndQuick are two jobs: slow is due each hour and takes three minutes; quick is due each minute.
func slowAndQuick() []jobs.Job {
	return []jobs.Job{
		{Name: "slow", Schedule: jobs.Every(time.Hour), Do: lasting(3 * time.Minute)},
		{Name: "quick", Schedule: jobs.Every(time.Minute)},
	}
}

// leaveWays are how a replica leaves by its own wish.
var leaveWays = map[string]func(c *cluster, r *replica){
	"stopped": func(_ *cluster, r *replica) { r.cancel() },
	"resigns": func(_ *cluster, r *replica) { go func() { _ = r.Resign(context.Background()) }() },
	"asked to resign": func(c *cluster, _ *replica) {
		if _, err := election.AskResign(c.Context(), c.store, "g"); err != nil {
			c.Error(err)
		}
	},
}

// A replica that leaves lets its run finish and records it, starts nothing meanwhile,
// and hands over as soon as the run is over. The next leader makes up for the ticks.
func TestDrain(t *testing.T) {
	for name, leave := range leaveWays {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				first := c.start(slowAndQuick(), scheduler.WithDrain(drain))
				second := c.start(slowAndQuick(), scheduler.WithDrain(drain))
				c.until(time.Hour + 30*time.Second)
				leave(c, first)
				c.until(time.Hour + 2*time.Minute + 50*time.Second)
				if s := first.State(); s.Role != election.Draining || s.Cause == nil || second.State().Role != election.Following {
					t.Errorf("while it drains: %+v, and the other %+v", s, second.State())
				}
				for _, r := range []*replica{first, second} {
					if err := r.Check(); err != nil {
						t.Errorf("while one drains: %v", err)
					}
				}
				if h := first.Health(); h.HeartbeatAge > 10*time.Second || h.Late != 0 {
					t.Errorf("while it drains: %+v", h)
				}
				if l, err := election.Leader(t.Context(), c.store, "g"); err != nil || !l.Held() || !l.ResignAsked {
					t.Errorf("the lease does not say that its holder leaves: %+v, %v", l, err)
				}
				c.until(time.Hour + 3*time.Minute + 5*time.Second)
				c.wantRows("slow", "1h succeeded")
				if role := second.State().Role; role != election.Leading {
					t.Errorf("after the drain the other replica is %v", role)
				}
				lines := c.lines("quick")
				if last := lines[len(lines)-1]; last != "1h3m succeeded, missed 2" {
					t.Errorf("the job that waited: %s", last)
				}
				if runs := c.runs("slow"); len(runs) != 1 || runs[0].cause != nil || runs[0].ended-runs[0].began != 3*time.Minute {
					t.Errorf("%+v", runs)
				}
			})
		})
	}
}

// Run returns nil once the run is over.
func TestDrainEndsRun(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(slowAndQuick(), scheduler.WithDrain(drain))
		c.until(time.Hour + time.Minute)
		r.stop()
		if now := time.Since(c.begin); now < time.Hour+3*time.Minute || now > time.Hour+3*time.Minute+time.Second {
			t.Errorf("Run returned at %v", now)
		}
		c.wantRows("slow", "1h succeeded")
	})
}

// A replica that runs nothing, or follows, or has no drain, leaves at once.
func TestNothingToDrain(t *testing.T) {
	for name, options := range map[string][]scheduler.Option{"with": {scheduler.WithDrain(drain)}, "without": nil} {
		t.Run(name+" a drain", func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				core, logs := observer.New(zap.InfoLevel)
				leader, follower := c.start(slowAndQuick(), append(options, scheduler.WithLogger(zap.New(core)))...), c.start(slowAndQuick(), options...)
				c.until(time.Hour + 30*time.Second)
				began := time.Now()
				follower.stop()
				c.until(time.Hour + 10*time.Minute)
				if name == "without" {
					c.until(2*time.Hour + time.Minute)
				}
				began = began.Add(time.Since(began))
				leader.stop()
				if took := time.Since(began); took > time.Second {
					t.Errorf("it left after %v", took)
				}
				if n := logs.FilterMessageSnippet("leaving").Len(); n != 0 {
					t.Errorf("%d lines tell of runs that nothing waits for", n)
				}
			})
		})
	}
}

// A run that is not over by the end of the drain is cancelled as without a drain.
func TestDrainRunsOut(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: lasting(30 * time.Minute)}}
		r := c.start(declared, scheduler.WithDrain(drain))
		c.until(time.Hour + time.Minute)
		r.stop()
		c.wantRows("job", "1h cancelled: election: stopped: *")
		if runs := c.runs("job"); len(runs) != 1 || !errors.Is(runs[0].cause, election.ErrStopped) || runs[0].ended != time.Hour+time.Minute+drain {
			t.Errorf("%+v", runs)
		}
	})
}

// A second signal ends the drain: see EndDrain.
func TestEndDrain(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Recover: jobs.RecoverRerun, Do: lasting(5 * time.Minute)}}
		r := c.start(declared, scheduler.WithDrain(drain))
		follower := c.start(declared, scheduler.WithDrain(drain))
		c.until(time.Hour + time.Minute)
		if follower.EndDrain() {
			t.Error("a follower ended a drain")
		}
		r.cancel()
		c.until(time.Hour + 2*time.Minute)
		if !r.EndDrain() || r.EndDrain() {
			t.Error("EndDrain did nothing, or twice")
		}
		c.until(time.Hour + 10*time.Minute)
		if runs := c.runs("job"); len(runs) != 2 || !errors.Is(runs[0].cause, election.ErrStopped) || runs[0].ended != time.Hour+2*time.Minute || runs[1].Owner != follower.Owner() {
			t.Errorf("%+v", runs)
		}
		c.wantRows("job", "1h succeeded, attempt 2")
	})
}

// What ends a term against the replica's wish does not wait for the drain.
func TestDrainLosesTheLease(t *testing.T) {
	for name, fault := range map[string]struct {
		do    func(c *cluster, r *replica)
		cause error
	}{
		"database away": {func(_ *cluster, r *replica) {
			r.link.set(func(l *link) { l.away = time.Now().Add(20 * time.Minute) })
		}, election.ErrLost},
		"clocks disagree": {func(c *cluster, _ *replica) { c.store.StepClock(year) }, scheduler.ErrSkew},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: lasting(5 * time.Minute)}}
				r := c.start(declared, scheduler.WithDrain(drain))
				c.until(time.Hour + time.Minute)
				r.cancel()
				c.until(time.Hour + 2*time.Minute)
				fault.do(c, r)
				c.until(time.Hour + 3*time.Minute)
				runs := c.runs("job")
				if len(runs) != 1 || !errors.Is(runs[0].cause, fault.cause) || runs[0].ended > time.Hour+2*time.Minute+ttl {
					t.Errorf("%+v", runs)
				}
				c.store.StepClock(0)
			})
		})
	}
}

// What is not running stays for the next leader: the retry of a run, a trigger by hand,
// and a run that waits for room.
func TestDrainLeavesTheRest(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{
			{Name: "retry", Schedule: jobs.Every(time.Hour), Retry: jobs.Retry{Attempts: 3, Initial: time.Second}, Do: func(ctx context.Context, run jobs.Run) error {
				if run.Attempt == 1 {
					_ = lasting(time.Minute)(ctx, run)
					return errWork
				}
				return nil
			}},
			{Name: "queue", Schedule: jobs.Every(30 * time.Minute), Overlap: jobs.OverlapQueue, Do: lasting(31 * time.Minute)},
			{Name: "by-hand", Schedule: jobs.Every(24 * time.Hour)},
			{Name: "long", Schedule: jobs.Every(time.Hour), Do: lasting(2 * time.Minute)},
		}
		first := c.start(declared, scheduler.WithDrain(drain))
		second := c.start(declared, scheduler.WithDrain(drain))
		c.until(time.Hour + 30*time.Second) // the tick of 1h waits for that of 30m
		first.cancel()
		c.until(time.Hour + 45*time.Second)
		if _, err := c.Trigger(c.Context(), "by-hand"); err != nil {
			t.Error(err)
		}
		c.until(time.Hour + 2*time.Minute - time.Second)
		if runs := c.runs("by-hand"); len(runs) != 0 {
			t.Errorf("%+v", runs)
		}
		c.until(time.Hour + 2*time.Minute + 5*time.Second)
		c.wantRows("retry", "1h succeeded, attempt 2")
		for _, job := range []string{"retry", "queue", "by-hand"} {
			runs := c.runs(job)
			if last := runs[len(runs)-1]; last.Owner != second.Owner() || last.began < time.Hour+2*time.Minute {
				t.Errorf("%+v", last)
			}
		}
		if runs := c.runs("queue"); runs[0].cause != nil || runs[0].ended != time.Hour+time.Minute {
			t.Errorf("%+v", runs[0])
		}
	})
}

// A tick that is due while its replica drains replaces no run.
func TestDrainReplacesNothing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Overlap: jobs.OverlapReplace, Do: lasting(90 * time.Second)}}
		r := c.start(declared, scheduler.WithDrain(drain))
		c.until(90 * time.Second)
		r.stop()
		c.wantRows("job", "1m succeeded")
	})
}

// A run can be cancelled by hand while its replica drains.
func TestCancelWhileItDrains(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start(slowAndQuick(), scheduler.WithDrain(drain))
		c.until(time.Hour + 30*time.Second)
		r.cancel()
		c.until(time.Hour + time.Minute)
		if err := c.Cancel(c.Context(), c.records("slow")[0].Key); err != nil {
			t.Error(err)
		}
		c.until(time.Hour + 70*time.Second)
		c.wantRows("slow", "1h cancelled: *")
		select {
		case <-r.done:
		default:
			t.Error("it has not left")
		}
	})
}

// The process dies while it drains: another takes over as from any leader.
func TestKillWhileItDrains(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := slowAndQuick()
		declared[0].Recover = jobs.RecoverRerun
		first := c.start(declared, scheduler.WithDrain(drain))
		second := c.start(declared, scheduler.WithDrain(drain))
		c.until(time.Hour + 30*time.Second)
		first.cancel()
		c.until(time.Hour + time.Minute)
		first.kill()
		c.until(time.Hour + 10*time.Minute)
		runs := c.runs("slow")
		if len(runs) != 2 || runs[1].Owner != second.Owner() || runs[1].began < runs[0].ended {
			t.Errorf("%+v", runs)
		}
		c.wantRows("slow", "1h succeeded, attempt 2")
	})
}

// A log that blocks when the drain begins does not keep it from ending.
func TestBlockedLogWhileItDrains(t *testing.T) {
	inBubble(t, func(c *cluster) {
		free := make(chan struct{})
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg"}), blocksAt{"leaving", free}, zap.InfoLevel)
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: lasting(30 * time.Minute)}}
		first := c.start(declared, scheduler.WithDrain(drain), scheduler.WithLogger(zap.New(core)))
		second := c.start(declared)
		c.until(time.Hour + time.Minute)
		leaveWays["resigns"](c, first)
		c.until(time.Hour + 2*time.Minute + drain)
		if runs := c.runs("job"); len(runs) != 1 || !errors.Is(runs[0].cause, election.ErrResigned) || runs[0].ended != time.Hour+time.Minute+drain {
			t.Errorf("%+v", runs)
		}
		if role := second.State().Role; role != election.Leading {
			t.Errorf("the other replica is %v", role)
		}
		close(free)
		synctest.Wait()
	})
}

// blocksAt is where a log goes that blocks at a line with the text.
type blocksAt struct {
	text string
	free chan struct{}
}

func (b blocksAt) Write(line []byte) (int, error) {
	if strings.Contains(string(line), b.text) {
		<-b.free
	}
	return len(line), nil
}

func (blocksAt) Sync() error { return nil }

// The log says what a replica waits for: at the beginning, once a minute, and at the end.
func TestDrainIsLogged(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, lines := observer.New(zap.InfoLevel)
		r := c.start(slowAndQuick(), scheduler.WithDrain(drain), scheduler.WithLogger(zap.New(core)))
		c.until(time.Hour + 30*time.Second)
		r.link.set(func(l *link) { l.fail["AskResign"] = 1 })
		r.stop()
		if n := r.link.sent["AskResign"]; n != 2 {
			t.Errorf("it marked the lease %d times, want once more after a failure", n)
		}
		var got []string
		for _, line := range lines.All() {
			if fields := line.ContextMap(); strings.HasPrefix(line.Message, "leaving") || strings.HasPrefix(line.Message, "left") {
				got = append(got, fmt.Sprint(short(line.Time.Sub(c.begin)), " ", line.Message, " ", fields["at_most"], " ", fields["waits_for"]))
			}
		}
		run := func(d time.Duration) string {
			return fmt.Sprintf("[map[attempt:1 job:slow running:%v tick:%v]]", d, c.begin.Add(time.Hour).UTC())
		}
		want := []string{
			"1h0m30s leaving: nothing new is started, and what runs may finish 10m0s " + run(30*time.Second),
			"1h1m30s leaving: runs have not finished yet 9m0s " + run(90*time.Second),
			"1h2m30s leaving: runs have not finished yet 8m0s " + run(150*time.Second),
			"1h3m left: every run has finished <nil> <nil>",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A tick that is being claimed when the drain begins is left to the next leader.
func TestDrainWhileItClaims(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.start(slowAndQuick(), scheduler.WithDrain(drain))
		second := c.start(slowAndQuick(), scheduler.WithDrain(drain))
		c.until(time.Hour + time.Minute - time.Second)
		first.link.set(func(l *link) { l.hold["Claim"] = 2 * time.Second })
		c.until(time.Hour + time.Minute + time.Second) // slow runs, and the claim of quick is under way
		first.cancel()
		c.until(time.Hour + 3*time.Minute + 5*time.Second)
		lines := c.lines("quick")
		if got := strings.Join(lines[len(lines)-2:], "\n"); got != "1h1m succeeded, attempt 2\n1h3m skipped, missed 1: an earlier run has not finished" {
			t.Error(got)
		}
		for _, r := range c.runs("quick") {
			if r.Tick.Sub(c.begin) > time.Hour && r.Owner != second.Owner() {
				t.Errorf("%+v", r)
			}
		}
	})
}

// A request to end a run is told of also while the replica drains.
func TestCancelInADrainIsTold(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var mu sync.Mutex
		asked := 0
		slow := jobs.Job{Name: "slow", Schedule: jobs.Every(time.Minute), Do: func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		r := c.start([]jobs.Job{slow}, scheduler.WithDrain(time.Hour), scheduler.WithEvents(func(e event.Event) {
			if is, ok := e.(event.Control); ok && is.Action == event.CancelAsked {
				mu.Lock()
				defer mu.Unlock()
				asked++
			}
		}))
		c.until(time.Minute + time.Second)
		r.cancel()
		c.until(time.Minute + 30*time.Second)
		check(t, c.Cancel(t.Context(), c.records("slow")[0].Key))
		c.until(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if asked != 1 {
			t.Errorf("told %d times", asked)
		}
		c.wantRows("slow", "1m cancelled: "+jobs.ErrCancelled.Error())
	})
}
