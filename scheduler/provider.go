package scheduler

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/jobs"
)

// WithProvider has f asked for jobs, beside those of [Scheduler.Add]: before this
// replica takes part in the election, when each of its terms begins, and by
// [Scheduler.Reload]. What it returns are all its jobs: the others that it returned
// before are removed, as by [Scheduler.Remove]. If it fails, takes too long at the
// begin of a term, or if anything is wrong with what it returns, the list before
// stays, and the log says so once. A replica that never had a list does not lead.
// f has to return when its context ends.
func WithProvider(f func(context.Context) ([]jobs.Job, error)) Option {
	return func(s *settings.Scheduler) { s.Provider, s.Provided = f, true }
}

var errNoList = errors.New("scheduler: the provider of jobs has not given a list yet")

// provider asks for jobs.
type provider struct {
	ask  func(context.Context) ([]jobs.Job, error)
	list *list
	log  *zap.Logger
	turn chan struct{} // capacity 1: one asks at a time

	mu   sync.Mutex
	has  bool   // a list
	said string // what the log says is wrong; empty: nothing
}

// Reload asks the provider of [WithProvider] for its jobs, and makes them those of this
// replica. The error says what the provider did, or everything that is wrong with its
// jobs. Then, nothing has changed.
func (s *Scheduler) Reload(ctx context.Context) error {
	switch {
	case s.election == nil:
		return errNotMade
	case s.provider == nil:
		return errors.New("scheduler: Reload: there is no provider: give one with WithProvider")
	}
	return s.provider.reload(ctx)
}

func (p *provider) reload(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("scheduler: ask the provider of jobs: %w", context.Cause(ctx))
	}
	type answer struct {
		given []jobs.Job
		err   error
	}
	answers := make(chan answer, 1)
	go func() { // it may not heed ctx
		defer func() { <-p.turn }()
		given, err := p.call(ctx)
		answers <- answer{given, err}
	}()
	var err error
	select {
	case a := <-answers:
		if err = a.err; err == nil {
			err = p.take(a.given)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("scheduler: the provider of jobs: %w", err)
	}
	p.say(err)
	return err
}

// call turns a panic into an error, as for jobs: it would end one leader after the
// other.
func (p *provider) call(ctx context.Context) (given []jobs.Job, err error) {
	do := func(ctx context.Context, _ jobs.Run) (err error) {
		given, err = p.ask(ctx)
		return err
	}
	err = jobs.Job{Do: do}.Call(ctx, jobs.Run{})
	return given, err
}

func (p *provider) take(given []jobs.Job) error {
	before, err := p.list.set(given, true)
	if err != nil {
		return err
	}
	p.mu.Lock()
	first := !p.has
	p.has = true
	p.mu.Unlock()
	if added, changed, removed := compare(before, given); !first && len(added)+len(changed)+len(removed) > 0 {
		p.log.Info("the provider's jobs have changed", listed("added", added), listed("changed", changed), listed("removed", removed))
	}
	return nil
}

// compare says which jobs are new, gone, or declared in another way. Whether their
// functions are others cannot be told.
func compare(before []*declared, given []jobs.Job) (added, changed, removed []string) {
	known := map[string]*declared{}
	for _, d := range before {
		known[d.Name] = d
	}
	for _, job := range given {
		d := known[job.Name]
		delete(known, job.Name)
		if d == nil {
			added = append(added, job.Name)
			continue
		}
		was, is, text := d.given, job.Complete(), job.Schedule.String()
		was.Do, is.Do, was.Schedule, is.Schedule = nil, nil, nil, nil
		if d.text != text || !reflect.DeepEqual(was, is) {
			changed = append(changed, job.Name)
		}
	}
	for _, d := range before {
		if known[d.Name] != nil {
			removed = append(removed, d.Name)
		}
	}
	return added, changed, removed
}

// say logs a failure, once, and that it is over.
func (p *provider) say(err error) {
	p.mu.Lock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	before, has := p.said, p.has
	p.said = text
	p.mu.Unlock()
	switch {
	case text == before:
	case err == nil:
		p.log.Info("the provider of jobs works again")
	case has:
		p.log.Error("the list of jobs stays as it was", zap.Error(stream.Bounded(err)))
	default:
		p.log.Error("there is no list of jobs: this replica does not lead until there is one", zap.Error(stream.Bounded(err)))
	}
}

// lacking is an error while there never was a list.
func (p *provider) lacking() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.has {
		return errNoList
	}
	return nil
}

// soon asks for a list, and does not wait long for it.
func (p *provider) soon(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_ = p.reload(ctx) // it has logged the error, and the list before stays
}

// first asks until there is a list.
func (p *provider) first(ctx context.Context) {
	wait := retry.Forever(time.Second, time.Minute)
	for p.lacking() != nil {
		attempt, cancel := context.WithTimeout(ctx, time.Minute)
		err := p.reload(attempt)
		cancel()
		if err == nil {
			return
		}
		if retry.Sleep(ctx, wait.NextBackOff()) != nil {
			return
		}
	}
}
