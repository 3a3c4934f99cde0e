package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// run is a run in progress.
type run struct {
	jobs.Run
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	log     *zap.Logger
}

// start starts the run of a row that the ledger says is ours.
func (t *term) start(r *row) {
	log := t.log.With(zap.String("job", r.record.Job), zap.Time("tick", r.record.Tick), zap.Int("attempt", r.record.Attempt))
	if r.stop != nil {
		t.drop(r)
		return
	}
	// Here a log that is blocked is noticed: see watchdog. The term may be over when
	// it goes on, so the line comes before the check.
	log.Info("run started")
	// The deadline itself, not only the context: see election.Term.Trusted.
	if t.stopping || t.ctx.Err() != nil || !t.held.Trusted() {
		log.Info("not started: the term is over; it is left to the next")
		t.close(r, jobs.Waiting, "")
		return
	}
	job, record := r.entry.job, r.record
	x := &run{started: time.Now(), log: log}
	x.Run = jobs.Run{
		Group: t.holder.Group, Job: record.Job, Tick: record.Tick, Trigger: record.Trigger,
		Owner: t.holder.Owner, Token: t.holder.Token, Attempt: record.Attempt, Missed: record.Missed,
	}
	ctx, stop := t.ctx, context.CancelFunc(func() {})
	if job.Timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, job.Timeout, jobs.ErrTimeout)
	}
	x.ctx, x.cancel = context.WithCancelCause(jobs.WithTrust(ctx, t.held.TrustLeft))
	r.run = x
	t.registry.add(x)
	go func() {
		defer stop()
		defer x.cancel(nil)
		err := job.Call(x.ctx, x.Run)
		state, why := outcome(x.ctx, err)
		t.do(func() { t.finish(r, state, why, err) })
	}()
}

// finish records how a run ended, and what follows.
func (t *term) finish(r *row, state jobs.State, why string, err error) {
	e, x := r.entry, r.run
	r.run = nil
	t.registry.remove(x)
	e.finished(t.now())
	e.ended++
	m := move(r.record, state, why)
	switch state {
	case jobs.Failed, jobs.TimedOut, jobs.Panicked:
		if wait, again := e.job.Retry.After(x.Attempt); again && !jobs.IsPermanent(err) {
			m.To, m.Delay = jobs.Waiting, wait
		}
	case jobs.Cancelled:
		if r.stop == nil && e.rerun(x.Attempt) {
			m.To = jobs.Waiting // for the next leader
		}
	}
	x.report(state, m, err)
	if m.To == jobs.Waiting {
		t.shift(r, asked)
	} else {
		t.shift(r, closing)
	}
	t.wrote.move(m, func(done bool) {
		switch {
		case done && m.To == jobs.Waiting:
			r.record.State, r.record.Owner, r.record.Token = jobs.Waiting, t.holder.Owner, t.holder.Token
			t.enqueue(r, m.Delay)
			return
		case !done && !t.stopping:
			x.log.Warn("the ledger refused the run's outcome: the run was taken over")
		}
		t.forget(r)
	})
	t.rest(e, e.job.LockAtLeastFor-time.Since(x.started))
	t.freed(e)
}

// outcome is the state that a run ended in, and why: for a context that has
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
	case cause == nil:
		return jobs.Failed, why
	case errors.Is(cause, jobs.ErrTimeout):
		return jobs.TimedOut, why
	default:
		return jobs.Cancelled, why
	}
}

// report logs how a run ended.
func (r *run) report(state jobs.State, m jobs.Move, err error) {
	log := r.log.With(zap.Duration("took", time.Since(r.started)))
	var panicked *jobs.PanicError
	switch state {
	case jobs.Succeeded:
		log.Info("run succeeded")
		return
	case jobs.Cancelled:
		log.Warn("run cancelled", zap.Error(logged(err)), zap.NamedError("cause", context.Cause(r.ctx)))
		return
	case jobs.Panicked:
		errors.As(err, &panicked)
		log = log.With(zap.ByteString("stack", panicked.Stack))
		fallthrough
	default:
		if m.To == jobs.Waiting {
			log = log.With(zap.Duration("retry", m.Delay))
		}
		log.Error("run "+state.String(), zap.Error(logged(err)))
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
