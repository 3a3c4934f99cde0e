package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/redisstore"
)

// operator is a store whose scripts are counted, and before whose second one something else may happen: between what it
// reads and what it writes.
type operator struct {
	*redisstore.Store
	scripts int
	between func()
	twice   bool // the second script is sent again, as by a client that has lost the answer
}

func newOperator(b *bench) *operator {
	client := redis.NewClient(&redis.Options{Addr: b.client.Options().Addr, ContextTimeoutEnabled: true, MaxRetries: -1})
	b.Cleanup(func() { client.Close() })
	o := &operator{}
	client.AddHook(steppedClock{}) // which sends the text of scripts
	client.AddHook(o)
	s, err := redisstore.New(client, redisstore.WithName(b.name))
	b.ok(err)
	b.Cleanup(func() { b.ok(s.Close()) })
	o.Store = s
	return o
}

func (o *operator) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *operator) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (o *operator) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		if o.scripts++; o.scripts == 2 {
			if o.between != nil {
				o.between()
			}
			if o.twice {
				if err := next(ctx, redis.NewCmd(ctx, cmd.Args()...)); err != nil {
					return err
				}
			}
		}
		return next(ctx, cmd)
	}
}

// A leader that claims and ends runs all the time lets no operator try again, nor a term that tells of itself.
func TestOperatorsBesideABusyLeader(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	o := newOperator(b)
	waiting := b.run(jobs.Key{Job: "report", Tick: at(0).Tick, Trigger: 1})
	stop := make(chan struct{})
	var leader sync.WaitGroup
	for n := range 3 {
		leader.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := jobs.Key{Job: "report", Tick: at(i).Tick, Trigger: uint64(n) + 2}
				skipped := store.Claim{Key: at(3*i + n), State: jobs.Skipped}
				claimed, err := b.Claim(ctx, b.h, store.ClaimID{byte(n + 2)}, []store.Claim{{Key: k, State: jobs.Running}, skipped})
				if err == nil {
					_, err = b.Move(ctx, b.h, []store.Move{moveOf(claimed[0].Record, jobs.Failed)})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 100 {
		schedule := fmt.Sprintf("every %dm", i+2)
		for what, call := range map[string]func() error{
			"Pause":         func() error { return o.Pause(ctx, "group", "report") },
			"Resume":        func() error { return o.Resume(ctx, "group", "report") },
			"Pause of all":  func() error { return o.Pause(ctx, "group", "") },
			"Resume of all": func() error { return o.ResumeSkipping(ctx, "group", "") },
			"Cancel":        func() error { return o.Cancel(ctx, "group", waiting.Key) },
			"Declare":       func() error { return o.Declare(ctx, b.h, []store.Declared{{Name: "report", Schedule: schedule}}) },
			"Forget": func() error {
				_, err := o.Forget(ctx, "group", "report", time.Time{})
				return err
			},
			"NoteTerm": func() error {
				return o.NoteTerm(ctx, store.TermNote{Holder: b.h, Over: true, Why: schedule})
			},
		} {
			o.scripts = 0
			b.ok(call())
			if what == "Forget" {
				o.scripts-- // it looks whether there is something to prune
			}
			if o.scripts != 2 {
				t.Errorf("%s took %d scripts, want one that reads and one that writes", what, o.scripts)
			}
		}
	}
	close(stop)
	leader.Wait()
	if known := loaded(b).Jobs["report"]; known.Started.IsZero() || known.Finished.IsZero() || known.Schedule != "every 101m" {
		t.Errorf("report is %+v, want one that has run", known)
	}
}

// What comes between reading and writing counts.
func TestRowsThatChangeInBetween(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(b *bench, o *operator){
		"two pause a job": func(b *bench, o *operator) {
			o.between = func() { b.ok(b.Pause(b.Context(), "group", "report")) }
			b.ok(o.Pause(b.Context(), "group", "report"))
			b.audited(jobs.Unchanged, jobs.Done)
			if s := loaded(b); s.Changes != 1 || len(s.Pauses["report"]) != 1 {
				b.Errorf("%d changes, pauses %v", s.Changes, s.Pauses)
			}
		},
		"one pauses a job, one the group": func(b *bench, o *operator) {
			o.between = func() { b.ok(b.Pause(b.Context(), "group", "")) }
			b.ok(o.Pause(b.Context(), "group", "report"))
			b.audited(jobs.Done, jobs.Done)
			if s := loaded(b); s.Changes != 2 || !s.Paused || !s.Jobs["report"].Paused {
				b.Errorf("paused: %t, %t, after %d changes", s.Paused, s.Jobs["report"].Paused, s.Changes)
			}
		},
		"a run of a job that is paused ends": func(b *bench, o *operator) {
			r := b.run(at(1))
			o.between = func() { b.move(moveOf(r, jobs.Failed)) }
			b.ok(o.Pause(b.Context(), "group", "report"))
			if known := loaded(b).Jobs["report"]; known.Finished.IsZero() || !known.Paused || o.scripts != 2 {
				b.Errorf("%+v after %d scripts", known, o.scripts)
			}
		},
		"a run that is cancelled ends": func(b *bench, o *operator) {
			r := b.run(at(1))
			o.between = func() { b.move(moveOf(r, jobs.Succeeded)) }
			if err := o.Cancel(b.Context(), "group", r.Key); !errors.Is(err, jobs.ErrNoRun) {
				b.Errorf("Cancel: %v", err)
			}
			b.audited(jobs.Refused)
		},
		"a run that is cancelled waits": func(b *bench, o *operator) {
			r := b.run(at(1))
			o.between = func() { b.move(moveOf(r, jobs.Waiting)) }
			b.ok(o.Cancel(b.Context(), "group", r.Key))
			if open := loaded(b).Open; len(open) != 1 || !open[0].CancelAsked || open[0].State != jobs.Waiting {
				b.Errorf("open: %+v", open)
			}
		},
		"a term that declares is replaced": func(b *bench, o *operator) {
			h := b.h
			o.between = func() { b.take("bob") }
			if err := o.Declare(b.Context(), h, []store.Declared{{Name: "new"}}); !errors.Is(err, store.ErrReplaced) {
				b.Errorf("Declare: %v", err)
			}
			if s := loaded(b); len(s.Jobs) != 2 {
				b.Errorf("jobs: %v", s.Jobs)
			}
		},
		"a term that misses jobs is replaced": func(b *bench, o *operator) {
			h := b.h
			o.between = func() { b.take("bob") }
			if err := o.Gone(b.Context(), h, []string{"report"}); !errors.Is(err, store.ErrReplaced) {
				b.Errorf("Gone: %v", err)
			}
			if gone := loaded(b).Jobs["report"].Gone; !gone.IsZero() {
				b.Errorf("gone since %v", gone)
			}
		},
		"a job that is forgotten is declared": func(b *bench, o *operator) {
			b.ok(b.Gone(b.Context(), b.h, []string{"report"}))
			o.scripts, o.between = -2, func() { b.ok(b.Declare(b.Context(), b.h, []store.Declared{{Name: "report"}})) }
			forgotten, err := o.Forget(b.Context(), "group", "report", loaded(b).Jobs["report"].Gone)
			b.ok(err)
			if _, ok := loaded(b).Jobs["report"]; !ok || forgotten {
				b.Errorf("there: %t, forgotten: %t", ok, forgotten)
			}
			b.audited(jobs.Refused)
		},
		"a job that is forgotten gets a run": func(b *bench, o *operator) {
			b.ok(b.Gone(b.Context(), b.h, []string{"report"}))
			o.scripts, o.between = -2, func() { b.run(at(1)) }
			forgotten, err := o.Forget(b.Context(), "group", "report", loaded(b).Jobs["report"].Gone)
			b.ok(err)
			if s := loaded(b); !forgotten || len(s.Open) > 0 {
				b.Errorf("forgotten: %t, open: %v", forgotten, s.Open)
			}
		},
		"two note a term": func(b *bench, o *operator) {
			o.between = func() { b.ok(b.NoteTerm(b.Context(), store.TermNote{Holder: b.h, Began: time.Hour})) }
			b.ok(o.NoteTerm(b.Context(), store.TermNote{Holder: b.h, Over: true}))
			terms, err := b.Terms(b.Context(), "group", jobs.TermFilter{})
			b.ok(err)
			if len(terms) != 1 || terms[0].Ended.Sub(terms[0].Began) < time.Hour {
				b.Errorf("terms: %+v", terms)
			}
		},
		"two prune the archive": func(b *bench, o *operator) {
			ctx := b.Context()
			b.ok(b.Resume(ctx, "group", ""))
			b.ok(b.NoteTerm(ctx, store.TermNote{Holder: store.Holder{Group: "group", Owner: "alice", Token: 1}}))
			stepClock(b, b.client, b.name, 2*store.KeepArchive)
			later := openFlawed(b, b.client.Options().Addr, b.name, flaw{})
			b.ok(later.Resume(ctx, "group", ""))
			b.ok(later.NoteTerm(ctx, store.TermNote{Holder: store.Holder{Group: "group", Owner: "alice", Token: 2}, Over: true}))
			o.between = func() {
				n, err := later.PruneArchive(ctx, "group", 1)
				b.ok(err)
				if n != 2 {
					b.Errorf("%d were pruned, want an entry and a term", n)
				}
			}
			n, err := o.PruneArchive(ctx, "group", 1)
			b.ok(err)
			terms, err := b.Terms(ctx, "group", jobs.TermFilter{})
			b.ok(err)
			if b.audited(jobs.Unchanged); n != 0 || len(terms) != 1 {
				b.Errorf("%d were pruned then, and %d terms are left", n, len(terms))
			}
			if kept, going := b.client.HLen(ctx, b.name+":term:group").Val(), b.client.ZCard(ctx, b.name+":going:group").Val(); kept != 1 || going != 0 {
				b.Errorf("%d terms take memory, %d of them as if they went on", kept, going)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, shared.Addr())
			test(b, newOperator(b))
		})
	}
}

// audited compares the newest results in the audit.
func (b *bench) audited(want ...jobs.Result) {
	b.Helper()
	entries, err := b.Audit(b.Context(), "group", jobs.AuditFilter{Limit: len(want)})
	b.ok(err)
	var got []jobs.Result
	for _, e := range entries {
		got = append(got, e.Result)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("the audit has %v, want %v", got, want)
	}
}

// A client that sends a script again, since it has lost the answer, changes nothing more than to record that.
func TestRowsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	o := newOperator(b)
	o.twice = true
	r := b.run(at(1))
	for i, call := range []func() error{
		func() error { return o.Pause(ctx, "group", "report") },
		func() error { return o.ResumeSkipping(ctx, "group", "report") },
		func() error { return o.Cancel(ctx, "group", r.Key) },
	} {
		o.scripts = 0
		b.ok(call())
		b.audited(jobs.Unchanged, jobs.Done)
		if s := loaded(b); s.Changes != uint64(i)+1 || len(s.Pauses["report"]) != 1 {
			t.Errorf("%d changes after %d calls, pauses %v", s.Changes, i+1, s.Pauses)
		}
	}
}
