package scheduler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

// witness keeps the events of a replica.
type witness struct {
	mu  sync.Mutex
	all []event.Event
}

func (w *witness) option() scheduler.Option {
	return scheduler.WithEvents(func(e event.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = append(w.all, e)
	})
}

// events are those of one type.
func events[E event.Event](w *witness) []E {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []E
	for _, e := range w.all {
		if e, ok := e.(E); ok {
			all = append(all, e)
		}
	}
	return all
}

// The life of a run is in the stream: with its term, how late it was, and each attempt.
func TestEventsOfRuns(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Retry: exact(2, time.Second), Do: failing(1)}}, w.option())
		c.until(time.Minute + 30*time.Second)
		token := r.State().Token
		head := func(h event.Header) string {
			if h.At.IsZero() || h.Group != "g" || h.Owner != r.Owner() || h.Token != token {
				return fmt.Sprintf("%+v", h)
			}
			return ""
		}
		var got []string
		for _, e := range events[event.RunClaimed](&w) {
			got = append(got, fmt.Sprintf("claimed %s %v%s", e.Job, e.Waiting, head(e.Header)))
		}
		for _, e := range events[event.RunStarted](&w) {
			got = append(got, fmt.Sprintf("started %d%s", e.Attempt, head(e.Header)))
			if e.Attempt == 1 && (e.Late < 0 || e.Late > time.Second) || e.Attempt == 2 && e.Late != 0 {
				t.Errorf("attempt %d was %v late", e.Attempt, e.Late)
			}
		}
		for _, e := range events[event.RunFinished](&w) {
			got = append(got, fmt.Sprintf("%d %v %v again %v%s", e.Attempt, e.State, e.Err, e.WillRetry, head(e.Header)))
		}
		want := []string{"claimed job false", "started 1", "started 2", "1 failed no luck again true", "2 succeeded <nil> again false"}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, e := range events[event.Heartbeat](&w) {
			if e.Group != "g" || e.Owner != r.Owner() {
				t.Errorf("a heartbeat of %+v", e.Header)
			}
		}
		if dropped := events[event.RunDropped](&w); len(dropped) > 0 {
			t.Errorf("a run that has started and ended is dropped: %+v", dropped)
		}
		if len(events[event.Leading](&w)) != 1 || len(events[event.Heartbeat](&w)) == 0 || len(events[event.Statement](&w)) == 0 {
			t.Errorf("no term, heartbeat or statement in %v", w.all)
		}
	})
}

// A tick tells how late it begins. A run by hand is due when its turn comes.
func TestEventsTellHowLateARunIs(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}, w.option())
		c.until(59 * time.Second)
		r.link.set(func(l *link) { l.hold["Claim"], l.hold["Move"] = 2*time.Second, 2*time.Second })
		c.until(70 * time.Second)
		_, err := c.Trigger(c.Context(), "job")
		check(t, err)
		c.until(80 * time.Second)
		var late []time.Duration
		for _, e := range events[event.RunStarted](&w) {
			late = append(late, e.Late)
		}
		if !slices.Equal(late, []time.Duration{2 * time.Second, 0}) {
			t.Errorf("the tick and the trigger began %v late", late)
		}
	})
}

// A takeover is in the streams of both replicas, and so is the run that it interrupts.
func TestEventsOfTakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var first, second witness
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: lasting(time.Hour), Recover: jobs.RecoverRerun}}
		a := c.start(declared, first.option())
		b := c.start(declared, second.option())
		c.until(time.Minute + 10*time.Second)
		a.kill()
		c.until(3 * time.Minute)
		leads := events[event.Leading](&second)
		if len(leads) != 1 || !leads[0].Early || leads[0].Before == 0 || leads[0].Token != b.State().Token {
			t.Errorf("the second leads by %+v", leads)
		}
		ends := events[event.TermEnded](&first)
		if len(ends) != 1 || ends[0].Led < time.Minute {
			t.Errorf("the first ended %+v", ends)
		}
		follows := events[event.Following](&second)
		if len(follows) == 0 || follows[0].Leader != a.Owner() {
			t.Errorf("the second followed %+v", follows)
		}
		cut := events[event.RunInterrupted](&second)
		if len(cut) != 1 || !cut[0].Again || cut[0].By != a.Owner() || cut[0].Job != "job" {
			t.Errorf("interrupted %+v", cut)
		}
	})
}

// A run that does not start after all is dropped, and so is one that an earlier term left
// waiting: observers know at any time what waits.
func TestEventsOfDroppedRuns(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		r := c.start([]jobs.Job{
			{Name: "long", Schedule: jobs.Manual(), Do: lasting(time.Hour)},
			{Name: "fails", Schedule: jobs.Manual(), Retry: exact(2, 5*time.Minute), Do: failing(9)},
		}, w.option(), scheduler.WithMaxRuns(1))
		trigger := func(job string) jobs.Key {
			t.Helper()
			key, err := c.Trigger(c.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			return key
		}
		c.until(time.Minute)
		retried := trigger("fails") // waits for its second attempt
		trigger("long")
		waits := trigger("long")
		if err := c.Cancel(c.Context(), waits); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		dropped := events[event.RunDropped](&w)
		if len(dropped) != 1 || dropped[0].Key != waits || dropped[0].State != jobs.Cancelled || dropped[0].Why == "" || dropped[0].Token != r.State().Token {
			t.Errorf("dropped %+v", dropped)
		}
		r.stop()
		var next witness
		c.start([]jobs.Job{{Name: "fails", Schedule: jobs.Manual()}}, next.option())
		time.Sleep(time.Minute)
		claimed := events[event.RunClaimed](&next)
		if len(claimed) != 1 || claimed[0].Key != retried || !claimed[0].Waiting {
			t.Errorf("the next term has taken up %+v", claimed)
		}
		for _, e := range events[event.Control](&next) {
			t.Errorf("nothing was asked of the next term, which tells %+v", e)
		}
	})
}

// What is asked of a leader is in its stream, once.
func TestEventsOfControl(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Hour), Do: lasting(time.Hour)}}, w.option())
		c.until(time.Minute)
		key, err := c.Trigger(c.Context(), "job")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		must(err)
		must(c.Pause(c.Context(), "job"))
		must(c.Cancel(c.Context(), key))
		must(c.Resume(c.Context(), "job"))
		must(c.Pause(c.Context(), ""))
		must(c.Resume(c.Context(), ""))
		var got []string
		for _, e := range events[event.Control](&w) {
			got = append(got, string(e.Action)+" "+e.Job)
		}
		want := []string{"trigger job", "pause job", "cancel job", "resume job", "pause ", "resume "}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestEventsOfSkippedTicks(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: lasting(150 * time.Second)}}, w.option())
		c.until(10*time.Minute + time.Second)
		skipped, first := 0, 0
		for _, e := range events[event.TicksSkipped](&w) {
			skipped += e.Ticks
			if e.First {
				first++
			}
			if e.Missed || e.Job != "job" || e.Why == "" {
				t.Errorf("%+v", e)
			}
		}
		if started := len(events[event.RunStarted](&w)); skipped+started != 10 || skipped == 0 || first == 0 {
			t.Errorf("%d ticks skipped, %d runs started: want 10 together", skipped, started)
		}
	})
}

// An observer that never returns holds up neither the runs nor, for more than a second,
// the end of Run.
func TestObserverOfEventsBlocks(t *testing.T) {
	inBubble(t, func(c *cluster) {
		block := make(chan struct{})
		defer close(block)
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}, scheduler.WithEvents(func(event.Event) { <-block }))
		c.until(5*time.Minute + time.Second)
		if n := len(c.runs("job")); n != 5 {
			t.Errorf("%d runs", n)
		}
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Run ended after %v", took)
		}
	})
}

// What is around a run gives it its context, and hears how it ended, also when the term
// is over.
func TestWithRunContext(t *testing.T) {
	inBubble(t, func(c *cluster) {
		logs, log := observed()
		type key struct{}
		var mu sync.Mutex
		var ended []string
		around := scheduler.WithRunContext(func(ctx context.Context, e event.RunStarted) (context.Context, func(event.RunFinished)) {
			return context.WithValue(ctx, key{}, e.Job), func(e event.RunFinished) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, fmt.Sprintf("%s %d %v", e.Job, e.Attempt, e.State))
			}
		})
		do := func(ctx context.Context, run jobs.Run) error {
			if got := ctx.Value(key{}); got != run.Job {
				t.Errorf("the context of %s has %v", run.Job, got)
			}
			if run.Job == "long" {
				<-ctx.Done()
				return ctx.Err()
			}
			if run.Attempt == 1 {
				return errWork
			}
			return nil
		}
		r := c.start([]jobs.Job{
			{Name: "job", Schedule: jobs.Every(time.Minute), Retry: exact(2, time.Second), Do: do},
			{Name: "long", Schedule: jobs.Every(time.Minute), Do: do},
			{Name: "here", Schedule: jobs.Every(time.Minute), Everywhere: true, Retry: exact(2, time.Second), Do: do},
		}, around, log)
		c.until(time.Minute + 10*time.Second)
		r.stop()
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(ended)
		want := []string{"here 1 failed", "here 2 succeeded", "job 1 failed", "job 2 succeeded", "long 1 cancelled"}
		if !slices.Equal(ended, want) {
			t.Errorf("ended %q, want %q", ended, want)
		}
		if lines := logs.FilterMessageSnippet("panicked at its end").Len(); lines != 0 {
			t.Errorf("%d lines of panics", lines)
		}
	})
}

// Run waits for what is around its runs, for a second at most.
func TestRunWaitsForWhatIsAroundItsRuns(t *testing.T) {
	for takes, most := range map[time.Duration]time.Duration{500 * time.Millisecond: 500 * time.Millisecond, time.Minute: time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: lasting(time.Hour)}},
					scheduler.WithRunContext(func(ctx context.Context, _ event.RunStarted) (context.Context, func(event.RunFinished)) {
						return ctx, func(event.RunFinished) { time.Sleep(takes) }
					}))
				c.until(90 * time.Second)
				r.stop()
				if took := time.Since(c.begin) - 90*time.Second; took != most {
					t.Errorf("Run returned after %v, want %v", took, most)
				}
				c.until(3 * time.Minute)
			})
		})
	}
}

// A panic before the run fails the attempt, and one after it is only logged.
func TestWithRunContextPanics(t *testing.T) {
	inBubble(t, func(c *cluster) {
		around := scheduler.WithRunContext(func(ctx context.Context, e event.RunStarted) (context.Context, func(event.RunFinished)) {
			if e.Attempt == 1 {
				panic("before")
			}
			return ctx, func(event.RunFinished) { panic("after") }
		})
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Retry: exact(2, time.Second)}}, around)
		c.until(2*time.Minute + 10*time.Second)
		for _, r := range c.records("job") {
			if r.State != jobs.Succeeded || r.Attempt != 2 {
				t.Errorf("%+v", r)
			}
		}
		if n := len(c.runs("job")); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}

func TestNilObservers(t *testing.T) {
	t.Parallel()
	for _, option := range []scheduler.Option{scheduler.WithEvents(nil), scheduler.WithRunContext(nil)} {
		if _, err := scheduler.New(memstore.New(), "g", option); err == nil || !strings.Contains(err.Error(), "(nil)") {
			t.Errorf("got %v", err)
		}
	}
}

// A failed attempt at a job that runs everywhere is a warning if another one follows, as
// for all other jobs.
func TestEverywhereRetryIsWarned(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var out bytes.Buffer
		job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Everywhere: true, Retry: exact(2, time.Second), Do: failing(2)}
		r := c.start([]jobs.Job{job}, scheduler.WithSlog(slog.New(slog.NewTextHandler(&out, nil))))
		c.until(time.Minute + 30*time.Second)
		r.stop()
		for _, want := range []string{`level=WARN msg="run failed"`, "will_retry=true", `level=ERROR msg="run failed"`, "will_retry=false"} {
			if strings.Count(out.String(), want) != 1 {
				t.Errorf("not once %s in\n%s", want, out.String())
			}
		}
	})
}

// Run returns when observers have the last events, also of jobs that run everywhere, which
// drain after the campaign.
func TestLastEventsOfJobsThatRunEverywhere(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var ends atomic.Int32
		r := c.start([]jobs.Job{{Name: "here", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: sleep(10 * time.Minute)}},
			scheduler.WithDrain(time.Hour), scheduler.WithEvents(func(e event.Event) {
				time.Sleep(time.Millisecond)
				if _, ok := e.(event.RunFinished); ok {
					ends.Add(1)
				}
			}))
		c.until(90 * time.Second)
		r.stop()
		if n := ends.Load(); n != 1 {
			t.Errorf("Run has returned, and the observer has seen the end of %d runs, want 1", n)
		}
	})
}

// A job that ends its goroutine, as FailNow of a test does, has failed like one that panics.
func TestJobEndsItsGoroutine(t *testing.T) {
	inBubble(t, func(c *cluster) {
		exits := func(context.Context, jobs.Run) error { runtime.Goexit(); return nil }
		r := c.start([]jobs.Job{
			{Name: "job", Schedule: jobs.Every(time.Minute), Do: exits},
			{Name: "here", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: exits},
		})
		c.until(2*time.Minute + time.Second)
		c.wantRows("job", "1m panicked: jobs: panic: runtime.Goexit*", "2m panicked: jobs: panic: runtime.Goexit*")
		if n := len(c.runs("here")); n != 2 {
			t.Errorf("a job that runs everywhere began %d times, want 2", n)
		}
		r.stop()
	})
}

// The leader of a group whose runs are spread tells which replica has which run, which jobs fail on any of them, and which wait for one.
func TestEventsOfSpreadRuns(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var leads, follows witness
		fails := atomic.Bool{}
		fails.Store(true)
		all := []jobs.Job{
			{Name: "job", Schedule: jobs.Every(time.Minute), Do: func(ctx context.Context, run jobs.Run) error {
				if err := sleep(20*time.Second)(ctx, run); err != nil || !fails.Load() {
					return err
				}
				return fmt.Errorf("no luck")
			}},
			{Name: "lost", Schedule: jobs.Manual(), On: jobs.Labels{"disk": "tape"}, Do: sleep(0)},
			{Name: "picky", Schedule: jobs.Every(time.Hour), On: jobs.Labels{"disk": "ssd"}, Do: sleep(0)},
		}
		c.start(all, scheduler.WithSpread(), leads.option())
		time.Sleep(time.Second)
		other := c.start(all, scheduler.WithSpread(), follows.option())
		c.until(2*time.Minute - 5*time.Second)
		started := events[event.RunStarted](&follows)
		if len(started) != 1 || !started[0].Assigned || started[0].Token == c.leader().State().Token {
			t.Errorf("%+v", started)
		}
		if ended := events[event.RunFinished](&follows); len(ended) != 1 || !ended[0].Assigned || ended[0].State != jobs.Failed {
			t.Errorf("%+v", ended)
		}
		var got []string
		for _, e := range events[event.RunAssigned](&leads) {
			got = append(got, fmt.Sprintf("%s to %v, over: %v, at %v", e.Job, e.To == other.Owner(), e.Over, e.At.Sub(c.begin).Round(time.Second)))
		}
		if want := []string{"job to true, over: false, at 1m0s", "job to true, over: true, at 1m20s"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if told := events[event.JobFails](&leads); len(told) != 1 || told[0].Job != "job" || !told[0].Fails {
			t.Errorf("%+v", told)
		}
		fails.Store(false)
		c.until(3*time.Minute - 5*time.Second)
		if told := events[event.JobFails](&leads); len(told) != 2 || told[1].Fails {
			t.Errorf("%+v", told)
		}
		if told := events[event.JobFails](&follows); len(told) != 0 {
			t.Errorf("a follower tells %+v", told)
		}
		c.until(time.Hour + time.Minute)
		c.start(all, scheduler.WithSpread(), scheduler.WithLabels(jobs.Labels{"disk": "ssd"}))
		c.until(time.Hour + 2*time.Minute)
		key, err := c.leader().Jobs().Trigger(context.Background(), "lost")
		check(t, err)
		time.Sleep(2 * time.Second)
		check(t, c.leader().Jobs().Cancel(context.Background(), key))
		time.Sleep(3 * time.Second)
		if told := events[event.NoReplica](&leads); len(told) != 4 || told[2].Job != "lost" || told[2].Over || !told[3].Over {
			t.Errorf("%+v", told)
		}
		if told := events[event.NoReplica](&leads); len(told) < 2 || told[0].Over || told[0].Job != "picky" || told[0].Replicas != 2 || !told[1].Over {
			t.Errorf("%+v", told)
		}
	})
}

// A job that leaves the list is told of, and so is how long a tick waits for its planned start.
func TestEventsOfRemovedJobsAndJitter(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var w witness
		r := c.start([]jobs.Job{
			{Name: "a", Schedule: jobs.Every(time.Minute), Jitter: 30 * time.Second, Do: sleep(10 * time.Second)},
			{Name: "here", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: sleep(0)},
		}, w.option())
		c.until(90 * time.Second)
		claimed := events[event.RunClaimed](&w)
		if len(claimed) != 1 || !claimed[0].Waiting || claimed[0].PutOff <= 0 || claimed[0].PutOff > 30*time.Second {
			t.Errorf("%+v", claimed)
		}
		check(t, r.Remove("a", "here"))
		time.Sleep(time.Minute)
		var got []string
		for _, e := range events[event.JobRemoved](&w) {
			got = append(got, fmt.Sprint(e.Job, e.Everywhere))
		}
		if slices.Sort(got); !slices.Equal(got, []string{"afalse", "heretrue"}) {
			t.Errorf("%q", got)
		}
	})
}
