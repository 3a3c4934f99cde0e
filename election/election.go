package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/internal/slogcore"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Causes of a term's end: [context.Cause] of the term's context matches one.
var (
	// ErrLost: the lease could not be renewed in time, or is another owner's.
	ErrLost = lease.ErrLost
	// ErrResigned: the leader was asked to step down, by [Election.Resign] or
	// through the database.
	ErrResigned = errors.New("election: resigned")
	// ErrStuck: the leader's work got stuck, so it made room for another replica.
	ErrStuck = errors.New("election: stuck")
	// ErrStopped: the context of [Election.Run] ended.
	ErrStopped = errors.New("election: stopped")
)

var (
	// ErrStillLeading is returned by [Election.Run] when the leading function
	// has not returned a TTL after its context ended, its lease left to expire,
	// and at once while that of an earlier Run has not.
	ErrStillLeading = errors.New("election: the leading function has not returned")
	// ErrNotLeading is returned by [Election.Resign] on a replica that does
	// not lead.
	ErrNotLeading = errors.New("election: this replica does not lead")

	// errNotMade is for a zero Election.
	errNotMade = errors.New("election: this Election was not made by New")

	// errReturned ends a term whose leading function returned by itself.
	errReturned = errors.New("election: the leading function returned")
	// errExited stands for the error of a leading function that ended its goroutine and returned nothing.
	errExited = errors.New("election: the leading function called runtime.Goexit, as FailNow of a test does")
)

// Election is one replica's campaign for a group. Its methods are safe for
// concurrent use.
type Election struct {
	group  string
	store  store.Leases
	keeper *keeper.Keeper
	// candidate is used by the present Run alone. It outlives the Run, and so
	// keeps what this replica has seen of the group.
	candidate *keeper.Candidate
	shared    bool            // the keeper is run by the caller: in tests
	heeds     bool            // the leading function heeds the requests of its term
	follows   bool            // this replica never leads
	ask       <-chan struct{} // see settings.Election
	timing    lease.Timing
	log       *zap.Logger
	stream    *stream.Stream
	flushes   bool // the stream is its own
	events    *mailbox
	resign    chan struct{}                       // capacity 1: asks the present term to end
	working   func(context.Context) (bool, error) // see settings.Election
	leave     func(context.Context, error)        // the same

	mu      sync.Mutex
	phase   phase
	state   State
	leaving bool          // it drains, and its term has not ended: see settings.Election.Leave
	changed chan struct{} // closed and replaced when state changes
	began   time.Time     // the present Run
	due     time.Time     // when the campaign must have made progress, see Check
	barred  error         // what the gate said of the last look
	sight   sight         // of the leader, while this replica does not lead
	server  string        // that answered the last look
}

// An Option changes a default of [New].
type Option func(*settings.Election)

// WithTiming sets the timing. Default: [lease.Timing]'s.
func WithTiming(t lease.Timing) Option { return func(s *settings.Election) { s.Keeper.Timing = t } }

// WithLabel sets the first part of the owner's name. Default "worker".
func WithLabel(label string) Option { return func(s *settings.Election) { s.Keeper.Label = label } }

// WithLogger sets the logger. Default: silent. A lost lease is a warning. An
// acquire that another replica won is logged at debug level.
func WithLogger(l *zap.Logger) Option { return func(s *settings.Election) { s.Keeper.Logger = l } }

// WithSlog is [WithLogger] for a logger of log/slog, with the same keys.
func WithSlog(l *slog.Logger) Option { return WithLogger(slogcore.New(l)) }

// WithObserver calls f for each change of this replica's [State]: in order,
// without gaps, one at a time, on a goroutine of its own, so that a slow f
// delays only itself. [Election.Run] returns after the last call.
func WithObserver(f func(State)) Option {
	return func(s *settings.Election) { s.Observers = append(s.Observers, f) }
}

// WithEvents gives what happens to f, an observer: see package event. [Election.Run] waits
// for a second at most for observers that are slow.
func WithEvents(f func(event.Event)) Option {
	return func(s *settings.Election) { s.Events = append(s.Events, f) }
}

// New returns a campaign for the group. It starts nothing and dials nothing.
// The error names the option that does not fit.
func New(leases store.Leases, group string, options ...Option) (*Election, error) {
	e := &Election{
		group: group, store: leases, phase: idle,
		events:  newMailbox(),
		resign:  make(chan struct{}, 1),
		changed: make(chan struct{}),
	}
	s := settings.Election{Keeper: keeper.Config{Logger: zap.NewNop()}}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("election: option %d is nil", i+1)
		}
		option(&s)
	}
	if s.Keeper.Logger == nil {
		return nil, errors.New("election: WithLogger(nil) or WithSlog(nil): give a logger, or leave the option out")
	}
	e.flushes = s.Keeper.Events == nil
	if err := s.OpenStream("election"); err != nil {
		return nil, err
	}
	for _, observer := range s.Observers {
		f, _ := observer.(func(State))
		if f == nil {
			return nil, errors.New("election: WithObserver(nil): give a function, or leave the option out")
		}
		e.events.observers = append(e.events.observers, f)
	}
	e.keeper, e.shared = s.Shared, s.Shared != nil
	if !e.shared {
		s.Keeper.Group = group
		keeper, err := keeper.New(leases, s.Keeper)
		if err != nil {
			return nil, err
		}
		e.keeper = keeper
	}
	candidate, err := e.keeper.Candidate(group)
	if err != nil {
		return nil, err
	}
	e.candidate = candidate
	candidate.Gate(s.Gate)
	candidate.OnRewind(s.Rewound)
	if e.follows = s.FollowerOnly; e.follows {
		candidate.FollowOnly()
	}
	e.working, e.leave, e.heeds, e.ask = s.Working, s.Leave, s.Heeds, s.Ask
	e.timing = e.keeper.Timing()
	e.stream = s.Keeper.Events
	e.log = e.stream.Logger().With(zap.String("group", group), zap.String("owner", e.keeper.Owner()))
	return e, nil
}

// Run is [New] and [Election.Run] in one.
func Run(ctx context.Context, leases store.Leases, group string, lead func(context.Context, Term) error, options ...Option) error {
	e, err := New(leases, group, options...)
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// Owner is the name under which this replica holds the lease.
func (e *Election) Owner() string {
	if e.keeper == nil {
		return ""
	}
	return e.keeper.Owner()
}

// Timing is the complete timing.
func (e *Election) Timing() lease.Timing { return e.timing }

// Run campaigns until ctx ends, and calls lead for each term that is won, with
// a context that ends with the term and whose cause says why. No error of the
// database ends the campaign, and none of lead: when lead returns before its
// context has ended, the lease is released and this replica stands back for a
// while, longer each time, so that others go first.
//
// At the end of a term lead is awaited, for a TTL while the lease is kept; then
// the lease is released. If lead has not returned by then, the lease is left to
// expire, and this replica does not campaign before lead has returned.
//
// When ctx ends, Run ends the term with the cause [ErrStopped] and returns nil
// once the lease is released, or [ErrStillLeading] if that takes longer than a TTL. It returns an error when it
// already runs, and when the database says before the first term that it is
// unfit and waiting cannot mend that (the error matches [lease.ErrSetup] and not
// [lease.ErrNotReady]): a server that is too old,
// settings that cannot be made safe, tables of a newer version or another
// engine, a pool that is too small. What can pass ([lease.ErrNotReady]) is
// waited for: a read-only server, missing tables or grants, a refused login.
func (e *Election) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	switch {
	case e.candidate == nil:
		return errNotMade
	case lead == nil:
		return fmt.Errorf("election: Run for %q: the function to lead with is nil", e.group)
	}
	if err := e.begin(); err != nil {
		return err
	}
	defer e.finish(ctx)
	// The helpers outlive ctx: heartbeats go on while the last term drains.
	helpers, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	if e.flushes {
		defer e.stream.Flush(stream.FlushFor)
	}
	defer wait.Wait()
	wait.Go(e.events.deliver)
	defer e.events.close()
	defer stop()
	if !e.shared {
		wait.Go(func() { _ = e.keeper.Run(helpers) })
	}
	c := &campaign{Election: e, run: lead, helpers: &wait, trouble: e.keeper.Trouble(), handover: newHandover(e.store, e.group, retry.Forever(
		min(e.timing.TTL/1000, 100*time.Millisecond), min(e.timing.TTL/3, 30*time.Second)))}
	c.handover.apart = e.follows
	if e.working != nil {
		e.candidate.Early(&keeper.Early{Left: c.handover.left, Working: e.working})
	}
	wait.Go(func() {
		c.handover.listen(helpers, retry.Forever(min(e.timing.TTL/30, time.Second), min(e.timing.TTL/3, 30*time.Second)))
	})
	return c.loop(ctx)
}

func (e *Election) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase.runs() {
		return fmt.Errorf("election: the campaign for %q is already running", e.group)
	}
	if e.phase == lingering {
		return ErrStillLeading
	}
	if err := e.candidate.Begin(); err != nil {
		return fmt.Errorf("election: a campaign for %q runs on this keeper: %w", e.group, err)
	}
	e.step(runBegins)
	e.began = time.Now()
	e.due = e.began
	e.sight = sight{since: e.began}
	e.state, e.leaving = State{}, false
	e.events.open()
	return nil
}

func (e *Election) finish(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		e.step(runStops)
	} else {
		e.step(runFails)
	}
	e.state = State{}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *Election) setBarred(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.barred = err
}

// work notes that the leading function begins or has returned.
func (e *Election) work(s step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.step(s)
}

// Resign makes this replica step down: its term ends with the cause
// [ErrResigned], and once the leading function has returned the lease is
// released and this replica stands back until another one has led, for a TTL at most. Resign returns nil when that
// is done, [ErrNotLeading] when there was nothing to do, and ctx's error when
// that ended first; the resignation goes on then. A scheduler with a drain
// (WithDrain there) ends its term only when its runs have ended, or the drain is over.
func (e *Election) Resign(ctx context.Context) error {
	e.mu.Lock()
	state, changed := e.state, e.changed
	e.mu.Unlock()
	if state.Role == Following {
		return ErrNotLeading
	}
	select {
	case e.resign <- struct{}{}:
	default: // a request is pending already
	}
	for token := state.Token; ; {
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		e.mu.Lock()
		state, changed = e.state, e.changed
		e.mu.Unlock()
		if state.Role == Following || state.Token != token {
			return nil
		}
	}
}
