package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// terms are those that the database has, the newest first.
func (c *cluster) terms() []jobs.Term {
	c.Helper()
	terms, err := c.Terms(c.Context(), jobs.TermFilter{})
	if err != nil {
		c.Fatal(err)
	}
	return terms
}

// A timeline shows each term: who led, since when, until when and why it ended, also of a
// leader that died.
func TestTermsAreWrittenDown(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}
		first := c.start(declared)
		second := c.start(declared)
		third := c.start(declared)
		c.until(time.Minute)
		first.stop()
		c.until(2 * time.Minute)
		second.kill()
		c.until(4 * time.Minute)
		third.stop()
		terms := c.terms()
		if len(terms) != 3 {
			t.Fatalf("%d terms, want 3: %+v", len(terms), terms)
		}
		for i, r := range []*replica{third, second, first} {
			if terms[i].Owner != r.Owner() {
				t.Errorf("term %d is of %s, want %s", i, terms[i].Owner, r.Owner())
			}
			if i > 0 && (terms[i].Ended.After(terms[i-1].Began) || !terms[i].Ended.After(terms[i].Began)) {
				t.Errorf("term %d from %v to %v, the next one from %v", i, terms[i].Began, terms[i].Ended, terms[i-1].Began)
			}
		}
		if why := terms[2].Why; !strings.Contains(why, "stopped") || terms[2].Ended.Sub(c.begin) > time.Minute+time.Second {
			t.Errorf("a term that was stopped after a minute: ended %v, because of %q", terms[2].Ended, why)
		}
		if terms[1].Why != store.WhyUntold || terms[1].Ended.Sub(c.begin) > 2*time.Minute || terms[1].Early || !terms[0].Early {
			t.Errorf("a leader died after two minutes, and another one took over at once: %+v, %+v", terms[1], terms[0])
		}
	})
}

// A database that does not take these rows holds up neither a hand-over nor a clean end.
func TestTermsAreWrittenDownBesideAllElse(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Second)}}
		first := c.startOn(func(l *link) { l.fail["NoteTerm"] = 1e6 }, declared)
		second := c.startOn(func(l *link) { l.hold["NoteTerm"] = time.Hour }, declared)
		c.until(time.Minute)
		before := time.Now()
		first.cancel()
		c.until(time.Minute + 500*time.Millisecond)
		if second.State().Token == 0 {
			t.Fatal("nobody leads 500ms after the leader has stopped")
		}
		<-first.done
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("the end of Run took %v", took)
		}
		c.until(2 * time.Minute)
		if n := len(c.runs("job")); n < 118 {
			t.Errorf("%d runs in two minutes, want one each second", n)
		}
		before = time.Now()
		second.stop()
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("the end of Run took %v, while a row was under way", took)
		}
	})
}

// A term whose leader lost the database tells of its end once it is back.
func TestALostTermTellsLater(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}, scheduler.WithTiming(lease.Timing{}))
		c.until(time.Minute)
		r.link.set(func(l *link) { l.away = time.Now().Add(time.Minute) })
		c.until(4 * time.Minute)
		terms := c.terms()
		if len(terms) != 2 || terms[1].Why == store.WhyUntold || terms[1].Why == "" || terms[1].Ended.Sub(c.begin) > 76*time.Second {
			t.Fatalf("terms of a leader whose database was away from the second minute on: %+v", terms)
		}
	})
}

// What an attempt prints is kept with it, and the last one's with the run.
func TestOutput(t *testing.T) {
	inBubble(t, func(c *cluster) {
		do := func(ctx context.Context, run jobs.Run) error {
			out := jobs.Output(ctx)
			fmt.Fprintln(out, "attempt", run.Attempt)
			_, _ = io.WriteString(out, strings.Repeat("x", (run.Attempt-1)*jobs.MaxOutput))
			if run.Attempt < 3 {
				return errWork
			}
			return nil
		}
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.At(c.begin.Add(time.Minute)), Retry: exact(3, 10*time.Second), Do: do}})
		c.until(time.Minute + 5*time.Second)
		key := jobs.Key{Job: "job", Tick: c.begin.Add(time.Minute).UTC()}
		if out, err := c.Output(c.Context(), key); err != nil || string(out) != "attempt 1\n" {
			t.Errorf("the output of a run that waits for its second attempt: %q, %v", out, err)
		}
		c.until(10 * time.Minute)
		attempts, err := c.Attempts(c.Context(), key)
		if err != nil || len(attempts) != 3 {
			t.Fatalf("%d attempts, %v", len(attempts), err)
		}
		for i, want := range []jobs.State{jobs.Failed, jobs.Failed, jobs.Succeeded} {
			if a := attempts[i]; a.Number != i+1 || a.State != want || a.Finished.Before(a.Started) {
				t.Errorf("attempt %d: %+v", i+1, a)
			}
		}
		if out, err := c.Output(c.Context(), key); err != nil || string(out) != strings.Repeat("x", jobs.MaxOutput) {
			t.Errorf("the output of the run: %d bytes, %v", len(out), err)
		}
		if r, err := c.Group.Run(c.Context(), key); err != nil || r.State != jobs.Succeeded || r.Attempt != 3 {
			t.Errorf("the run: %+v, %v", r, err)
		}
	})
}

// The audit tells what the scheduler itself has done from what people have.
func TestAuditOfAPauseByFailures(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), PauseAfter: 2, Do: failing(9)}})
		c.until(5 * time.Minute)
		if err := c.Resume(jobs.WithActor(c.Context(), jobs.Actor{Name: "alice", Via: jobs.ViaCLI}), "job"); err != nil {
			t.Fatal(err)
		}
		entries, err := c.Audit(c.Context(), jobs.AuditFilter{})
		if err != nil || len(entries) != 2 {
			t.Fatalf("%+v, %v", entries, err)
		}
		if e := entries[1]; e.Via != jobs.ViaScheduler || e.Name != r.Owner() || e.Action != jobs.ActionPause || e.Job != "job" {
			t.Errorf("a pause after failures: %+v", e)
		}
		if e := entries[0]; e.Via != jobs.ViaCLI || e.Name != "alice" || e.Action != jobs.ActionResume || e.Result != jobs.Done {
			t.Errorf("a resume: %+v", e)
		}
	})
}

// A term ends with its lease. A run that ignores its context goes on, and the next leader
// begins meanwhile.
func TestTermEndsWithTheLease(t *testing.T) {
	inBubble(t, func(c *cluster) {
		stubborn := sleep(20 * time.Minute)
		first := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: func(_ context.Context, run jobs.Run) error {
			return stubborn(context.Background(), run)
		}}})
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}})
		c.until(90 * time.Second)
		first.link.set(func(l *link) { l.away = time.Now().Add(2 * time.Minute) })
		c.until(40 * time.Minute)
		terms := c.terms()
		if len(terms) != 2 {
			t.Fatalf("%d terms, want 2: %+v", len(terms), terms)
		}
		lost := terms[1]
		if lost.Ended.Sub(c.begin) < 90*time.Second || lost.Ended.After(terms[0].Began) || !strings.Contains(lost.Why, "not renewed") {
			t.Errorf("a term ended %v because of %q, and the next one began %v: want it to end with its lease", lost.Ended, lost.Why, terms[0].Began)
		}
	})
}

// Run returns a TTL after it was stopped, and a moment, also when a run ignores its context: nothing waits for the end of that term.
func TestRunDoesNotWaitForATermThatGoesOn(t *testing.T) {
	inBubble(t, func(c *cluster) {
		s, err := scheduler.New(newLink(c.store), "g")
		check(t, err)
		stubborn := sleep(time.Hour)
		check(t, s.Add(jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Do: func(_ context.Context, run jobs.Run) error {
			return stubborn(context.Background(), run)
		}}))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		c.until(90 * time.Second)
		cancel()
		before := time.Now()
		err = <-ended
		if took := time.Since(before); !errors.Is(err, election.ErrStillLeading) || took > 20*time.Second {
			t.Errorf("Run took %v to end: %v", took, err)
		}
		time.Sleep(2 * time.Hour) // until the run has returned
	})
}

// A term that cannot open the ledger makes room for another replica after two minutes, and says why.
func TestTermThatDoesNotOpen(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.startOn(func(l *link) { l.fail["Declare"] = 1e9 }, tenMinutely("a"))
		second := c.start(tenMinutely("a"))
		c.until(3 * time.Minute)
		terms := c.terms()
		if c.leader() != second || len(terms) < 2 {
			t.Fatalf("%+v", terms)
		}
		if first := terms[len(terms)-1]; !strings.Contains(first.Why, "could not be opened within 2m0s") {
			t.Errorf("%+v", first)
		}
	})
}
