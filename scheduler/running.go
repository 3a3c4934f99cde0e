package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/internal/stream"
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
	ends   sync.WaitGroup // of attempts that something is around

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

// bound gives the attempt a context of its own, which ends after the timeout at the
// latest. The caller calls end when the attempt is over.
func (a *attempt) bound(ctx context.Context, timeout time.Duration) (end func()) {
	stop := context.CancelFunc(func() {})
	if timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, timeout, jobs.ErrTimeout)
	}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	return func() {
		a.cancel(nil)
		stop()
	}
}

// call runs the job, with what is around it. A job may end the goroutine that it runs on.
func (a *attempt) call(job jobs.Job, around []settings.Around, started event.RunStarted) error {
	ended := make(chan error, 1)
	go func() {
		err := error(&jobs.PanicError{Value: "runtime.Goexit, as by FailNow of a test"})
		defer func() { ended <- err }()
		err = a.callHere(job, around, started)
	}()
	return <-ended
}

func (a *attempt) callHere(job jobs.Job, around []settings.Around, started event.RunStarted) error {
	if len(around) == 0 {
		return job.Call(a.ctx, a.Run)
	}
	a.ended = make(chan event.RunFinished, 1)
	do := job.Do
	job.Do = func(ctx context.Context, run jobs.Run) error {
		for _, f := range around {
			inner, end := f(ctx, started)
			if inner != nil {
				ctx = inner //nolint:fatcontext // there are as many as options
			}
			if end != nil {
				a.ends = append(a.ends, end)
			}
		}
		return do(ctx, run)
	}
	return job.Call(a.ctx, a.Run)
}

// finish tells how the attempt has ended.
func (a *attempt) finish(to *stream.Stream, e event.RunFinished) {
	e.At = time.Now()
	e.Took, e.Cause = e.At.Sub(a.started), context.Cause(a.ctx)
	if a.ended != nil {
		a.ended <- e
	}
	to.Emit(e)
}

// tellEnd tells what is around the attempt how it has ended, which finish may say, until
// over is closed; else it is e.
func (a *attempt) tellEnd(over <-chan struct{}, e event.RunFinished, log *zap.Logger) {
	if len(a.ends) == 0 {
		return
	}
	select {
	case e = <-a.ended:
	case <-over:
		select {
		case e = <-a.ended: // it came first
		default:
		}
	}
	for _, end := range slices.Backward(a.ends) {
		if err := (jobs.Job{Do: func(context.Context, jobs.Run) error { end(e); return nil }}).Call(a.ctx, a.Run); err != nil {
			log.Error("what is around a run panicked at its end", zap.String("job", a.Job), zap.Error(err))
		}
	}
}

// readArgs reads the arguments of an attempt, right before it begins: the ledger may
// have thousands of runs that wait with theirs. It tries until it succeeds or the
// attempt's context ends.
func (v *env) readArgs(a *attempt) error {
	var args json.RawMessage
	var gone error
	err := v.retry(a.ctx, "read arguments", func(ctx context.Context) (err error) {
		args, err = v.db.Args(ctx, v.holder.Group, a.Key())
		if errors.Is(err, jobs.ErrNoRun) {
			gone, err = err, nil
		}
		return err
	})
	if err == nil {
		err = gone
	}
	v.registry.setArgs(a, args)
	if err == nil && !v.held.Trusted() {
		<-a.ctx.Done() // which is late, as after a pause of the process
	}
	if a.ctx.Err() != nil {
		err = context.Cause(a.ctx)
	}
	return err
}

// unbegun leaves a run to the next leader whose attempt did not begin before the term
// was over.
func (t *term) unbegun(r *run) {
	a := r.attempt
	r.attempt = nil
	t.registry.remove(a)
	if r.stop != nil {
		t.drop(r)
		return
	}
	t.runLog(r).Info("not started: the term ended while its arguments were read; it is left to the next", zap.Error(context.Cause(t.ctx)))
	t.close(r, jobs.Waiting, "")
}
