// Package settings has what the options of packages election and scheduler set:
// an Option is a function over one of these structs. Users call the functions of
// those packages, which return one. Code of this module can also pass one of its
// own, and so set what users cannot: a simulation gives each replica the clocks of
// a machine of its own.
package settings

import (
	"context"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// Election is what an election can be told.
type Election struct {
	Keeper keeper.Config
	// Observers are of the type func(election.State), which this package cannot
	// import.
	Observers []any
	// Events are the observers of events.
	Events []func(event.Event)

	// FollowerOnly: this replica never leads.
	FollowerOnly bool

	// Users cannot set the rest, nor Keeper.Clock and Keeper.Renew.

	// Gate is called at each look at the lease, with what the look showed of the
	// database's clock. While it returns an error, this replica takes no lease and
	// reports the error in its health. A term that has begun goes on. It is called
	// from the campaign's goroutine, and has to return soon.
	Gate func(lease.Skew) error
	// Ask has the gate asked at once, by a look at the lease, since its answer has changed. Nil: it is asked at the next look.
	Ask <-chan struct{}
	// Rewound is called when a look at the lease is the first to show an older row than there was before, from the same goroutine.
	Rewound func()
	// Working lets this replica take a lease early: see [keeper.Early].
	Working func(context.Context) (bool, error)
	// Leave is called once in a term when this replica wants to end it: it is stopped,
	// or asked to resign. The term ends with that cause when Leave returns, which has to
	// be soon after ctx, the term's own context, has ended. Meanwhile this replica leads,
	// but its state is draining. Leave has a goroutine of its own.
	Leave func(ctx context.Context, why error)
	// Heeds says that the leading function heeds the requests of the term itself.
	Heeds bool
	// Shared is a keeper that others use too, so that all their leases share one
	// heartbeat statement. The code that gives it runs it, for longer than the election.
	// Keeper is not used then.
	Shared *keeper.Keeper
}

// OpenStream makes the stream of events, with the logger and the observers, unless there is
// one. of is the package that the error names.
func (s *Election) OpenStream(of string) error {
	if s.Keeper.Events != nil {
		return nil
	}
	for _, f := range s.Events {
		if f == nil {
			return fmt.Errorf("%s: WithEvents(nil): give a function, or leave the option out", of)
		}
	}
	s.Keeper.Events = stream.New(s.Keeper.Logger, s.Events...)
	return nil
}

// Around gives an attempt its context, and is told how it ended.
type Around = func(context.Context, event.RunStarted) (context.Context, func(event.RunFinished))

// Scheduler is what a scheduler can be told.
type Scheduler struct {
	// Election is its election's. The scheduler judges ticks by Election.Keeper.Clock
	// as well.
	Election Election
	MaxRuns  int
	Labels   map[string]string
	Clock    uint8 // a scheduler.Clock
	MaxSkew  time.Duration
	FullTTL  bool // no lease is taken early
	Drain    time.Duration
	Provider func(context.Context) ([]jobs.Job, error)
	Provided bool // there was an option for it
	Version  string
	Spread   bool
	// Around are called when an attempt begins, on its own goroutine: see
	// scheduler.WithRunContext.
	Around []Around
	// Sweep is how often a leader looks for ticks that no alarm told it of. Users cannot set
	// it. Zero: 1 s.
	Sweep time.Duration
}
