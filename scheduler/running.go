package scheduler

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/settings"
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

// registry is the attempts in progress, for callers outside the loop.
type registry struct {
	around []settings.Around
	ends   sync.WaitGroup // of all attempts: Run waits for them if something is around them

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

// setArgs gives an attempt its arguments, which list may be reading.
func (g *registry) setArgs(a *attempt, args json.RawMessage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a.Args = args
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
