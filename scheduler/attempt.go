package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/internal/tail"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// attempt is an attempt in progress.
type attempt struct {
	jobs.Run
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	ends    []func(event.RunFinished) // of what is around it
	ended   chan event.RunFinished    // capacity 1
	output  *tail.Tail                // what it prints; nil where no ledger keeps it
}

// ending is how an attempt ended.
type ending struct {
	begun bool // else the term ended while its arguments were read
	state jobs.State
	why   string
	err   error
}

// attempt carries out an attempt at a run, beside the loop, which gets its end.
func (v *env) attempt(a *attempt, job jobs.Job, hasArgs bool, started event.RunStarted, ended func(*term, ending)) {
	var err error
	if hasArgs {
		if err = v.readArgs(a); err != nil && v.ctx.Err() != nil {
			v.do(func(t *term) { ended(t, ending{}) })
			return
		}
	}
	if err == nil {
		err = a.call(job, v.registry.around, started)
	}
	state, why := outcome(a.ctx, err)
	v.do(func(t *term) { ended(t, ending{true, state, why, err}) })
	a.tellEnd(v.closed, event.RunFinished{Header: started.Header, Key: started.Key, Attempt: a.Attempt, Assigned: started.Assigned, State: state, Err: err, Why: why}, v.log)
}

// outcome is the state that an attempt ended in, and why: for a context that has
// ended, the cause comes first.
func outcome(ctx context.Context, err error) (state jobs.State, why string) {
	if err == nil {
		return jobs.Succeeded, ""
	}
	cause := context.Cause(ctx)
	why = err.Error()
	if cause != nil && !errors.Is(err, cause) {
		why = fmt.Sprintf("%v: %v", cause, err)
	}
	var panicked *jobs.PanicError
	switch {
	case errors.As(err, &panicked):
		return jobs.Panicked, why
	case cause == nil && errors.Is(err, keeper.ErrCutShort):
		return jobs.Interrupted, why
	case cause == nil:
		return jobs.Failed, why
	case errors.Is(cause, jobs.ErrTimeout):
		return jobs.TimedOut, why
	default:
		return jobs.Cancelled, why
	}
}

// args reads the arguments of a run, until it succeeds, the run is not there ([jobs.ErrNoRun]), or ctx ends.
func (v *env) args(ctx context.Context, key jobs.Key) (args json.RawMessage, err error) {
	var gone error
	err = v.retry(ctx, "read arguments", func(ctx context.Context) (err error) {
		args, err = v.db.Args(ctx, v.holder.Group, key)
		if errors.Is(err, jobs.ErrNoRun) {
			gone, err = err, nil
		}
		return err
	})
	return args, cmp.Or(err, gone)
}

// readArgs reads the arguments of an attempt, right before it begins: the ledger may
// have thousands of runs that wait with theirs. It tries until it succeeds or the
// attempt's context ends.
func (v *env) readArgs(a *attempt) error {
	args, err := v.args(a.ctx, a.Key())
	v.registry.setArgs(a, args)
	if err == nil && !v.trusted() {
		<-a.ctx.Done() // which is late, as after a pause of the process
	}
	if a.ctx.Err() != nil {
		err = context.Cause(a.ctx)
	}
	return err
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

// testNotice is what a notifier is told that was triggered without arguments.
func testNotice(run jobs.Run) json.RawMessage {
	n := jobs.Notice{
		Event: jobs.NoticeTest, Group: run.Group, Job: run.Job, Tick: run.Tick, Trigger: run.Trigger, Kind: triggers.KindOf(run.Trigger),
		Attempt: run.Attempt, Owner: run.Owner,
	}
	n.Text = n.Describe()
	args, _ := json.Marshal(n) // never fails
	return args
}
