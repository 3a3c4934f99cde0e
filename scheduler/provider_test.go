package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

// source is a provider whose answer tests set.
type source struct {
	mu    sync.Mutex
	given []jobs.Job
	err   error
	hangs bool
	panic any
	asked int
}

func (s *source) set(change func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *source) ask(ctx context.Context) ([]jobs.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.panic != nil {
		panic(s.panic)
	}
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	return s.given, s.err
}

func idle(job jobs.Job) jobs.Job {
	job.Do = func(context.Context, jobs.Run) error { return nil }
	return job
}

// A provider is asked at each term and by Reload, and only a list without faults counts.
func TestProvider(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, log := observer.New(zap.InfoLevel)
		p := &source{given: []jobs.Job{idle(cronJob("a", "0 * * * * *")), idle(cronJob("b", "0 * * * * *"))}}
		r := c.start([]jobs.Job{cronJob("own", "0 * * * * *")}, scheduler.WithProvider(p.ask), scheduler.WithLogger(zap.New(core)))
		if p.asked != 2 { // before the election, and for the term
			t.Errorf("asked %d times", p.asked)
		}
		c.until(90 * time.Second)
		bad := idle(cronJob("b", "0 0 25 * * *"))
		bad.Limit = -1
		p.set(func(p *source) { p.given = []jobs.Job{bad, idle(cronJob("own", "0 * * * * *"))} })
		for range 4 {
			err := r.Reload(c.Context())
			for _, want := range []string{`"b": cron: hours "25"`, `"b": overlap: Limit`, `"own" is declared twice`} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %s", err, want)
				}
			}
		}
		p.set(func(p *source) { p.panic = "no luck" })
		if err := r.Reload(c.Context()); err == nil || !strings.Contains(err.Error(), "no luck") {
			t.Error(err)
		}
		c.until(145 * time.Second)
		p.set(func(p *source) {
			p.given, p.panic = []jobs.Job{idle(cronJob("b", "30 * * * * *")), idle(cronJob("c", "0 * * * * *"))}, nil
		})
		check(t, r.Reload(c.Context()))
		check(t, r.Reload(c.Context()))
		if err := r.Replace(idle(cronJob("b", "0 * * * * *"))); err == nil {
			t.Error("a provided job is replaced")
		}
		if _, ok := r.Job("a"); ok {
			t.Error("it still has a job that the provider gives no more")
		}
		if job, ok := r.Job("b"); !ok || job.Name != "b" {
			t.Errorf("it has %+v, and not the job of the provider", job)
		}
		if err := r.Remove("b"); err == nil || !strings.Contains(err.Error(), "comes from the provider") {
			t.Error(err)
		}
		c.until(190 * time.Second)
		c.wantRows("a", "1m succeeded", "2m succeeded")
		c.wantRows("b", "1m succeeded", "2m succeeded", "2m30s succeeded")
		c.wantRows("c", "3m succeeded")
		c.wantRows("own", "1m succeeded", "2m succeeded", "3m succeeded")
		if err := r.Set(idle(jobs.Job{Name: "after", Schedule: jobs.After("own")})); err == nil || !strings.Contains(err.Error(), `"own"`) {
			t.Errorf("a job follows one that is not there any more: %v", err)
		}
		check(t, r.Set(idle(jobs.Job{Name: "after", Schedule: jobs.After("c")})))
		if n := log.FilterMessage("the list of jobs stays as it was").Len(); n != 2 { // for each thing that was wrong
			t.Errorf("%d lines", n)
		}
		changed := log.FilterMessage("the provider's jobs have changed").All()
		if len(changed) != 1 || len(changed[0].Context) != 3+2 {
			t.Errorf("%+v", changed)
		}
	})
}

// A replica whose provider has never given a list does not lead, and says so.
func TestProviderWithoutAList(t *testing.T) {
	inBubble(t, func(c *cluster) {
		p := &source{err: errors.New("not there")}
		r := c.start(nil, scheduler.WithProvider(p.ask))
		c.until(20 * time.Second)
		if err := r.Check(); r.State().Role == election.Leading || err == nil || !strings.Contains(err.Error(), "has not given a list") {
			t.Errorf("%v, %v", r.State(), err)
		}
		other := c.start([]jobs.Job{cronJob("a", "0 * * * * *")})
		c.until(40 * time.Second)
		if other.State().Role != election.Leading {
			t.Error(other.State())
		}
		p.set(func(p *source) { p.err, p.given = nil, []jobs.Job{idle(cronJob("a", "0 * * * * *"))} })
		c.until(110 * time.Second)
		other.stop()
		c.until(130 * time.Second)
		if r.State().Role != election.Leading {
			t.Error(r.State())
		}
		c.wantRows("a", "1m succeeded", "2m succeeded")
	})
}

// A provider that hangs delays a term a little, and Reload as long as its context lets
// it.
func TestProviderHangs(t *testing.T) {
	inBubble(t, func(c *cluster) {
		p := &source{given: []jobs.Job{idle(cronJob("a", "0 * * * * *"))}}
		r := c.start(nil, scheduler.WithProvider(p.ask))
		next := c.start(nil, scheduler.WithProvider(p.ask))
		c.until(110 * time.Second)
		p.set(func(p *source) { p.hangs = true })
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		if err := r.Reload(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.stop()
		c.until(130 * time.Second)
		if next.State().Role != election.Leading {
			t.Error(next.State())
		}
		c.wantRows("a", "1m succeeded", "2m succeeded")
	})
}

func TestReloadWithoutProvider(t *testing.T) {
	t.Parallel()
	if _, err := scheduler.New(memstore.New(), "g", scheduler.WithProvider(nil)); err == nil || !strings.Contains(err.Error(), "WithProvider(nil)") {
		t.Error(err)
	}
	s, err := scheduler.New(memstore.New(), "g")
	check(t, err)
	for _, s := range []*scheduler.Scheduler{s, {}} {
		if s.Reload(t.Context()) == nil {
			t.Error("a scheduler without a provider reloads")
		}
	}
}
