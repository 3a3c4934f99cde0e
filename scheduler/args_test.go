package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// argsOf are the arguments of a job's runs that began, in their order.
func (c *cluster) argsOf(job string) (all []string) {
	for _, r := range c.runs(job) {
		all = append(all, string(r.Args))
	}
	return all
}

func (c *cluster) triggerWith(job string, args any) jobs.Key {
	c.Helper()
	key, err := c.TriggerWith(c.Context(), job, args)
	if err != nil {
		c.Fatal(err)
	}
	return key
}

// What runs may be listed while its arguments are read.
func TestRunningWhileArgumentsAreRead(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual(), Do: sleep(time.Minute)}})
		r.link.set(func(l *link) { l.hold["Args"] = time.Second })
		c.triggerWith("job", 1)
		var seen []string
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			for _, run := range r.Running() {
				seen = append(seen, string(run.Args))
			}
		}
		if len(seen) == 0 || seen[0] != "" || seen[len(seen)-1] != "1" {
			t.Errorf("arguments while they were read, and later: %q", seen)
		}
	})
}

// All attempts at a run see its arguments, and runs of the schedule have none.
func TestArgs(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Retry: jobs.Retry{Attempts: 3}, Do: func(_ context.Context, run jobs.Run) error {
			if run.Attempt < 3 && run.Trigger > 0 {
				return errors.New("again")
			}
			return nil
		}}})
		c.until(time.Minute)
		r.link.set(func(l *link) { l.fail["Args"] = 2 })
		c.triggerWith("job", map[string]int{"x": 1})
		c.until(time.Hour + time.Minute)
		c.triggerWith("job", nil)
		c.until(time.Hour + 2*time.Minute)
		got, want := c.argsOf("job"), []string{`{"x":1}`, `{"x":1}`, `{"x":1}`, "", "", "", ""}
		if len(got) != len(want) {
			t.Fatalf("arguments %q, want %q", got, want)
		}
		for i := range got {
			if got[i] != want[i] || (c.runs("job")[i].Args == nil) != (want[i] == "") {
				t.Errorf("arguments %q, want %q", got, want)
			}
		}
		if n := r.link.count("Args"); n != 5 { // two failed
			t.Errorf("%d statements for the arguments", n)
		}
	})
}

// A run that is run again after a takeover has the arguments that it had.
func TestArgsOverATakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, []jobs.Job{{Name: "job", Schedule: jobs.Manual(), Recover: jobs.RecoverRerun, Do: sleep(10 * time.Second)}})
		c.triggerWith("job", json.RawMessage(` {"secret" : "x"} `))
		time.Sleep(time.Second)
		first.kill()
		c.until(3 * time.Minute)
		if got := c.argsOf("job"); len(got) != 2 || got[0] != `{"secret":"x"}` || got[1] != got[0] {
			t.Errorf("arguments %q", got)
		}
	})
}

// A run whose arguments cannot be read before the term ends has not begun: it is left
// to the next leader, also where an interrupted run is not run again.
func TestArgsThatCannotBeRead(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, []jobs.Job{{Name: "job", Schedule: jobs.Manual()}})
		first.link.set(func(l *link) { l.fail["Args"] = 1e6 })
		key := c.triggerWith("job", 1)
		time.Sleep(time.Second)
		if len(c.runs("job")) > 0 || c.records("job")[0].State != jobs.Running {
			t.Fatalf("ran %v, and the ledger has\n%s", c.runs("job"), c.rows("job"))
		}
		first.stop()
		c.until(3 * time.Minute)
		if got := c.argsOf("job"); len(got) != 1 || got[0] != "1" {
			t.Errorf("arguments %q", got)
		}
		if r := c.records("job")[0]; r.State != jobs.Succeeded || r.Attempt != 2 || r.Key != key {
			t.Errorf("the ledger has\n%s", c.rows("job"))
		}
	})
}

// What the ledger does not have any more is not tried without end.
func TestArgsOfARowThatIsGone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual(), Retry: jobs.Retry{Attempts: 2}}})
		r.link.set(func(l *link) { l.noArgs = true })
		c.triggerWith("job", 1)
		c.until(time.Minute)
		if len(c.runs("job")) > 0 || c.records("job")[0].State != jobs.Failed {
			t.Errorf("ran %v, and the ledger has\n%s", c.runs("job"), c.rows("job"))
		}
	})
}

// Nor has one begun whose process was paused while they were read: it begins in the next term.
func TestArgsReadBeforeAPause(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual()}})
		c.until(time.Minute)
		token := c.holder(r).Token
		r.link.set(func(l *link) { l.hold["Args"] = 500 * time.Millisecond })
		key := c.triggerWith("job", 1)
		time.Sleep(250 * time.Millisecond)
		r.link.set(wrongClock(time.Minute)) // as after a sleep of the machine, in which its monotonic clock stands still
		c.until(3 * time.Minute)
		if runs, row := c.runs("job"), c.records("job")[0]; len(runs) != 1 || runs[0].Token == token || row.Key != key || row.State != jobs.Succeeded {
			t.Errorf("under a term after %d, %v ran, and the ledger has\n%s", token, runs, c.rows("job"))
		}
	})
}
