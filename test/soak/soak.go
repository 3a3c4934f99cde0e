//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// workers is how many there are on each server.
const workers = 3

// soaking is a run of the plan on one server.
type soaking struct {
	plan     plan
	seed     uint64
	database *database
	out      io.Writer
	began    time.Time

	mu       sync.Mutex // held while the workers are looked at, and while one of them is restarted
	workers  [workers]*process
	past     counts // of the workers that were stopped
	seconds  seconds
	samples  []sample
	left     []string // what workers left at their end
	stacks   []string // of the workers, where their goroutines were at the end of the run
	restarts int
}

// soak carries out the plan on the server of the DSN, or the part of it until ctx ends, and returns what is to be
// printed. The error is errGrows if that shows something that must not be; any other means trouble on the way.
func soak(ctx context.Context, dsn string, p plan, seed uint64, out io.Writer) (text string, err error) {
	d, err := newDatabase(ctx, dsn)
	if err != nil {
		if ctx.Err() != nil {
			return "", nil // ended before it began
		}
		return "", err
	}
	defer func() { err = errors.Join(err, d.drop()) }()
	s := &soaking{plan: p, seed: seed, database: d, out: out}
	return s.whole(ctx)
}

// whole is all of it, from the start of the workers to their end.
func (s *soaking) whole(ctx context.Context) (text string, err error) {
	err = s.start()
	if err == nil {
		err = s.run(ctx)
	}
	lasted := s.elapsed()
	if err == nil {
		err = s.askStacks()
	}
	err = errors.Join(err, s.stop())
	r, resultErr := s.result(context.WithoutCancel(ctx), lasted)
	if err = errors.Join(err, resultErr); err == nil && !r.well() {
		err = errGrows
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.database.kind, err)
	}
	return r.String(), err
}

func (s *soaking) elapsed() time.Duration { return time.Since(s.began) }

func (s *soaking) start() error {
	s.began = time.Now()
	for i := range s.workers {
		var err error
		if s.workers[i], err = s.startWorker(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *soaking) startWorker(i int) (*process, error) {
	return start(orders{
		DSN: s.database.dsn, Label: fmt.Sprintf("worker-%d", i+1), Number: s.restarts*workers + i, Seed: s.seed, TTL: s.plan.ttl,
	})
}

// run takes samples and makes changes until the plan is at its end, or the user's context.
func (s *soaking) run(user context.Context) error {
	ctx, cancel := context.WithCancelCause(user)
	var changing sync.WaitGroup
	defer changing.Wait()
	defer cancel(nil)
	changing.Go(func() {
		if err := s.change(ctx); err != nil {
			cancel(err)
		}
	})
	told := time.Duration(0)
	for next := s.plan.sample; next <= s.plan.total; next += s.plan.sample {
		if !pause(ctx, time.Until(s.began.Add(next))) {
			if user.Err() != nil {
				return nil // as is wished
			}
			return context.Cause(ctx)
		}
		if err := s.sample(ctx); err != nil {
			return err
		}
		if s.elapsed() > told+s.plan.tell {
			told = s.elapsed()
			s.tell()
		}
	}
	return nil
}

// change makes the plan's changes, until ctx ends.
func (s *soaking) change(ctx context.Context) error {
	for i, at := range s.plan.changes {
		if !pause(ctx, time.Until(s.began.Add(at))) {
			return nil
		}
		if i%2 == 1 {
			if err := s.restart(); err != nil {
				return err
			}
		}
		if err := s.handOver(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restart stops the last worker cleanly and starts another one in its place.
func (s *soaking) restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stopWorker(workers - 1); err != nil {
		return err
	}
	s.restarts++
	var err error
	s.workers[workers-1], err = s.startWorker(workers - 1)
	return err
}

// handOver has the leader resign some times: until each worker has led since its start, because what a leader opens
// stays open.
func (s *soaking) handOver(ctx context.Context) error {
	most := 10 * s.plan.resigns
	led := map[*process]bool{}
	for done := 0; done < most; {
		if !pause(ctx, s.plan.between) {
			return nil
		}
		s.mu.Lock()
		all := s.workers
		s.mu.Unlock()
		for _, p := range all {
			r, err := p.ask(askResign)
			if err != nil {
				return err
			}
			led[p] = r.Counts.Terms > 0
			if r.Resigned {
				done++
				break // the next leader is to lead for a while
			}
		}
		everybody := true
		for _, p := range all {
			everybody = everybody && led[p]
		}
		if done >= s.plan.resigns && everybody {
			return nil
		}
	}
	return fmt.Errorf("after %d hand-overs there is a worker that has never led", most)
}

// sample looks at everything.
func (s *soaking) sample(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v [figures]float64
	for _, p := range s.workers {
		r, err := p.ask(askReport)
		if err != nil {
			return err
		}
		fds, err := descriptorsOf(p.pid())
		if err != nil {
			return err
		}
		bytes, err := residentOf(p.pid())
		if err != nil {
			return err
		}
		v[goroutines] += float64(r.Goroutines)
		v[heap] += float64(r.Heap)
		v[descriptors] += float64(fds)
		v[resident] += float64(bytes)
		s.seconds.add(p.newTicks())
	}
	for _, count := range []struct {
		figure int
		count  func() (int, error)
	}{
		{connections, func() (int, error) { return s.database.connections(ctx) }},
		{ledgerRows, func() (int, error) { return s.database.rows(ctx, "cronlease_run") }},
		{lockRows, func() (int, error) { return s.database.rows(ctx, "cronlease_lock") }},
	} {
		n, err := count.count()
		if ctx.Err() != nil {
			return nil // half a sample is none
		}
		if err != nil {
			return err
		}
		v[count.figure] = float64(n)
	}
	s.samples = append(s.samples, sample{s.elapsed(), v})
	return nil
}

// tell prints the last sample.
func (s *soaking) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == 0 {
		return
	}
	last := s.samples[len(s.samples)-1]
	text := fmt.Sprintf("%s after %v:", s.database.kind, last.at.Round(time.Second))
	for i, f := range measured {
		text += fmt.Sprintf(" %s %s,", f.name, f.format(last.values[i]))
	}
	fmt.Fprintf(s.out, "%s ticks %d\n", text, s.counts().ran())
}

// counts is what all workers have done so far. It is called with mu held.
func (s *soaking) counts() counts {
	var c counts
	c.add(s.past)
	for _, p := range s.workers {
		if p != nil {
			c.add(p.counted())
		}
	}
	return c
}

// askStacks asks the workers where their goroutines are.
func (s *soaking) askStacks() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.workers {
		r, err := p.ask(askStacks)
		if err != nil {
			return err
		}
		s.stacks = append(s.stacks, p.label+": "+r.Stacks)
	}
	return nil
}

// stop stops all workers.
func (s *soaking) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i := range s.workers {
		errs = append(errs, s.stopWorker(i))
	}
	return errors.Join(errs...)
}

// stopWorker stops a worker and keeps its last output. It is called with mu held.
func (s *soaking) stopWorker(i int) error {
	p := s.workers[i]
	if p == nil {
		return nil
	}
	s.workers[i] = nil
	last, err := p.stop()
	s.past.add(p.counted())
	s.seconds.add(p.newTicks())
	if last.Left > 0 {
		s.left = append(s.left, fmt.Sprintf("%s: %d goroutines:\n%s", p.label, last.Left, last.Stacks))
	}
	return err
}
