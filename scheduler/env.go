package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/memory"
	"github.com/cronlease/cronlease/scheduler/internal/tickclock"
	"github.com/cronlease/cronlease/scheduler/internal/watchdog"
	"github.com/cronlease/cronlease/store"
)

// env is what a term has from its beginning to its end: none of its fields changes, and what
// they point to may be used by any goroutine, unless it says whose it is. What runs beside the term's loop gets an env
// and not the term, and must not touch what the loop owns. Its result reaches the loop
// as a function of the term: see do.
type env struct {
	ctx      context.Context // ends with the term
	cut      context.CancelCauseFunc
	trusted  func() bool // see election.Term.Trusted
	holder   store.Holder
	db       store.Jobs
	load     func(ctx context.Context, deep bool) (jobs.Snapshot, error)
	memory   *memory.Memory
	log      *zap.Logger
	trouble  *keeper.Tasks
	stream   *stream.Stream
	timing   lease.Timing
	clock    *tickclock.Clock
	dog      *watchdog.Watchdog
	next     *nextTick
	beats    *beats
	drain    *drain
	registry *registry // of the scheduler
	mode     *mode
	sessions *sessions // of this replica; nil: the group is not spread
	role     role
	inbox    chan func(*term)
	closed   chan struct{} // closed when the loop has ended
}

func newEnv(ctx context.Context, held election.Term, s *Scheduler, as role) *env {
	ctx, cut := context.WithCancelCause(ctx)
	return &env{
		ctx: ctx, cut: cut, trusted: held.Trusted, db: s.db, load: s.load, mode: s.mode, sessions: s.sessions, role: as, memory: s.memory,
		holder:  as.holder(held, s.group),
		log:     s.log.With(zap.Uint64("token", held.Token())),
		trouble: keeper.HeldOf(ctx).Trouble().Tasks(),
		stream:  s.events, timing: s.election.Timing(), clock: s.clock, registry: &s.running,
		dog:   watchdog.New(s.election.Timing().TTL, func() time.Time { return s.clock.Own().Mono }),
		next:  &nextTick{began: time.Now()},
		beats: &beats{newest: make(chan heard, 1)},
		drain: newDrain(),
		inbox: make(chan func(*term)), closed: make(chan struct{}),
	}
}

// do makes the loop call f, unless the loop has ended.
func (v *env) do(f func(*term)) {
	select {
	case v.inbox <- f:
	case <-v.closed:
	}
}

// now is the present by the clock that ticks are judged by.
func (v *env) now() time.Time { return v.clock.Now() }

// head is the header of an event.
func (v *env) head() event.Header {
	return event.Header{At: time.Now(), Group: v.holder.Group, Owner: v.holder.Owner, Token: v.holder.Token}
}

// replaced ends the term early: its heartbeats may go on, but the ledger says
// that the group has a newer token, so it can start nothing.
func (v *env) replaced(err error) {
	if v.ctx.Err() == nil {
		v.log.Warn("the ledger refuses this term", zap.Error(err))
		v.cut(fmt.Errorf("%w: %w", election.ErrLost, err))
	}
}

// waits are those between statements that fail.
func waits(timing lease.Timing) *backoff.ExponentialBackOff {
	return retry.Forever(min(timing.AttemptTimeout/16, 50*time.Millisecond), min(timing.AttemptTimeout, time.Second))
}

// retry repeats a statement until its answer is clear: nil, or that the term
// is over. It ends with ctx.
func (v *env) retry(ctx context.Context, what string, f func(context.Context) error) error {
	return v.retryLonger(ctx, what, v.timing.AttemptTimeout, f)
}

// retryLonger is retry for work whose size is not known. An attempt that runs out
// of time is followed by one with twice as much, up to most: heartbeats go on
// beside it, so that it need not fit into the time of a statement.
func (v *env) retryLonger(ctx context.Context, what string, most time.Duration, f func(context.Context) error) error {
	timing := v.timing
	wait := waits(timing)
	pulse := v.dog.Begin("a statement (" + what + ")")
	defer pulse.End()
	limit := timing.AttemptTimeout
	for {
		pulse.BeatFor(limit - timing.AttemptTimeout)
		attempt, cancel := context.WithTimeout(ctx, limit)
		err := f(attempt)
		if attempt.Err() != nil {
			limit = min(2*limit, max(most, limit))
		}
		cancel()
		if err == nil || errors.Is(err, store.ErrReplaced) {
			v.trouble.Worked(what)
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
		v.trouble.Failed(what, err)
		pulse.Beat() // the attempt may have taken nearly a TTL
		if retry.Sleep(ctx, wait.NextBackOff()) != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
	}
}

// head is the header of an event.
func (s *Scheduler) head() event.Header {
	return event.Header{At: time.Now(), Group: s.group, Owner: s.election.Owner()}
}

// acting is a context for what a scheduler asks for by itself.
func acting(ctx context.Context, owner string) context.Context {
	return jobs.WithActor(ctx, jobs.Actor{Name: owner, Via: jobs.ViaScheduler})
}
