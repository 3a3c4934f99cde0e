package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/jobs"
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

// registry is the runs in progress, for callers outside the loop.
type registry struct {
	mu   sync.Mutex
	runs map[*run]struct{}
}

func (g *registry) add(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runs == nil {
		g.runs = map[*run]struct{}{}
	}
	g.runs[r] = struct{}{}
}

func (g *registry) remove(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.runs, r)
}

func (g *registry) list() []Running {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]Running, 0, len(g.runs))
	for r := range g.runs {
		list = append(list, Running{Run: r.Run, Started: r.started, Cause: context.Cause(r.ctx)})
	}
	slices.SortFunc(list, func(a, b Running) int { return a.Started.Compare(b.Started) })
	return list
}
