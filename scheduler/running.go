package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Running is a run in progress on this replica.
type Running struct {
	jobs.Run
	Started time.Time
	// Cause is why the run's context has ended, nil while it stands. A run that
	// goes on for long after that ignores its context.
	Cause error
}

// Running is what runs on this replica now, oldest first.
func (s *Scheduler) Running() []Running { return s.running.list() }

// registry is the attempts in progress, for callers outside the loop.
type registry struct {
	mu       sync.Mutex
	attempts map[*attempt]struct{}
}

func (g *registry) add(a *attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.attempts == nil {
		g.attempts = map[*attempt]struct{}{}
	}
	g.attempts[a] = struct{}{}
}

func (g *registry) remove(a *attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.attempts, a)
}

func (g *registry) list() []Running {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]Running, 0, len(g.attempts))
	for a := range g.attempts {
		list = append(list, Running{Run: a.Run, Started: a.started, Cause: context.Cause(a.ctx)})
	}
	slices.SortFunc(list, func(a, b Running) int { return a.Started.Compare(b.Started) })
	return list
}

// report logs how an attempt ended.
func (a *attempt) report(state jobs.State, m store.Move, err error) {
	log := a.log.With(zap.Duration("took", time.Since(a.started)))
	var panicked *jobs.PanicError
	switch state {
	case jobs.Succeeded:
		log.Info("run succeeded")
		return
	case jobs.Cancelled:
		log.Warn("run cancelled", zap.Error(logged(err)), zap.NamedError("cause", context.Cause(a.ctx)))
		return
	case jobs.Panicked:
		errors.As(err, &panicked)
		log = log.With(zap.ByteString("stack", panicked.Stack))
		fallthrough
	default:
		if m.To == jobs.Waiting {
			log.Warn("run "+state.String(), zap.Error(logged(err)), zap.Bool("will_retry", true), zap.Duration("retry", m.Delay))
			return
		}
		log.Error("run "+state.String(), zap.Error(logged(err)), zap.Bool("will_retry", false))
	}
}

// logged bounds what is logged of a job's error.
func logged(err error) error {
	const most = 16 << 10 // bytes; what the worker's jobs say at their end is below
	if text := err.Error(); len(text) > most {
		return fmt.Errorf("%s... (%d bytes in all)", text[:most], len(text))
	}
	return err
}
