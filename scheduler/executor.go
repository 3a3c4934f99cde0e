package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// Running is a run in progress.
type Running struct {
	jobs.Run
	Started time.Time
	// Ended is when the run's context ended; zero while it stands.
	Ended time.Time
}

// executor starts a term's runs, each on a goroutine of its own, and waits for
// them.
type executor struct {
	ctx  context.Context // the term's
	held election.Term
	log  *zap.Logger

	wait sync.WaitGroup

	mu     sync.Mutex
	closed bool            // nothing is started any more
	runs   map[string]*run // by job
}

// run is a Running with what ends it.
type run struct {
	Running
	ctx context.Context
}

func newExecutor(ctx context.Context, held election.Term, log *zap.Logger) *executor {
	return &executor{ctx: ctx, held: held, log: log, runs: map[string]*run{}}
}

// start starts a run, unless the term is over or the job still runs. It does
// not wait for it.
func (x *executor) start(job jobs.Job, r jobs.Run) {
	log := x.log.With(zap.String("job", r.Job), zap.Time("tick", r.Tick))
	x.mu.Lock()
	defer x.mu.Unlock()
	// The deadline itself, not only the context: see election.Term.Trusted.
	if x.closed || x.ctx.Err() != nil || !x.held.Trusted() {
		log.Warn("not started: the term is over")
		return
	}
	if busy, ok := x.runs[r.Job]; ok {
		log.Warn("skipped: an earlier run of the job has not finished", zap.Time("busy_with", busy.Tick))
		return
	}
	ctx, cancel := x.ctx, context.CancelFunc(func() {})
	if job.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, job.Timeout, jobs.ErrTimeout)
	}
	started := &run{Running: Running{Run: r, Started: time.Now()}, ctx: ctx}
	x.runs[r.Job] = started
	stop := context.AfterFunc(ctx, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		started.Ended = time.Now()
	})
	x.wait.Go(func() {
		defer cancel()
		defer stop()
		log.Info("run started", zap.Int("attempt", r.Attempt))
		err := job.Call(ctx, r)
		x.finish(ctx, log, started, err)
	})
}

// finish reports how a run ended.
func (x *executor) finish(ctx context.Context, log *zap.Logger, r *run, err error) {
	x.mu.Lock()
	delete(x.runs, r.Job)
	x.mu.Unlock()
	log = log.With(zap.Duration("took", time.Since(r.Started)))
	var panicked *jobs.PanicError
	switch {
	case errors.As(err, &panicked):
		log.Error("run panicked", zap.Error(err), zap.ByteString("stack", panicked.Stack))
	case err != nil && ctx.Err() != nil:
		log.Warn("run cancelled", zap.Error(err), zap.NamedError("cause", context.Cause(ctx)))
	case err != nil:
		log.Error("run failed", zap.Error(err))
	default:
		log.Info("run succeeded")
	}
}

// drain returns once nothing runs any more. Runs that ignore their context for
// longer than grace are named in the log; while one is left, the election does
// not release the lease and this replica does not lead again.
func (x *executor) drain(grace time.Duration) {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	late := time.AfterFunc(grace, func() {
		for _, r := range x.list() {
			x.log.Error("a run ignores its context: this replica does not lead again while it runs",
				zap.String("job", r.Job), zap.Time("tick", r.Tick), zap.Duration("running", time.Since(r.Started)))
		}
	})
	defer late.Stop()
	x.wait.Wait()
}

func (x *executor) list() []Running {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]Running, 0, len(x.runs))
	for _, r := range x.runs {
		list = append(list, r.Running)
	}
	slices.SortFunc(list, func(a, b Running) int { return a.Started.Compare(b.Started) })
	return list
}
