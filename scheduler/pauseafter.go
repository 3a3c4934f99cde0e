package scheduler

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

// The failures of a job in a row are counted in the ledger, so that the count goes on
// over takeovers and a leader that died before it could pause the job has it paused by
// the next one. While they are counted, no tick of the job is claimed or started: see
// [jobs.Job.PauseAfter].

// failures is what a term knows of the failures of a job.
type failures struct {
	stamped []jobs.Pause // of the job, as the ledger has them
	pausing bool         // because of a count
}

// countFirst holds a job back until its failures are counted, at the begin of the
// term.
func (t *term) countFirst(e *entry, pauses []jobs.Pause) {
	if e.job.PauseAfter == 0 || e.Known().Paused {
		return
	}
	e.fails.stamped = pauses
	e.Count()
}

// countAll counts those of the jobs that are held back.
func (t *term) countAll(entries ...*entry) {
	var count []func(*env)
	for _, e := range entries {
		if e.IsCounting() {
			count = append(count, countFailures(e))
		}
	}
	if len(count) == 0 {
		return
	}
	t.beside(func(v *env) {
		for _, f := range count {
			f(v)
		}
	})
}

// countFailures returns what counts, beside the loop, and has the job paused if there
// are too many.
func countFailures(e *entry) func(*env) {
	job, pauses := e.job, e.fails.stamped
	return func(v *env) {
		var n int
		err := v.retry(v.ctx, "count the failures of a job", func(ctx context.Context) (err error) {
			n, err = v.failedInARow(ctx, job, pauses)
			return err
		})
		v.do(func(t *term) {
			if err != nil || job.PauseAfter == 0 || n < job.PauseAfter || e.Known().Paused || e.fails.pausing {
				t.counted(e)
				return
			}
			e.fails.pausing = true
			t.beside(func(v *env) { v.pauseFailing(e, job.Name, n) })
		})
	}
}

// failedInARow reads as much of the history as is needed to know.
func (v *env) failedInARow(ctx context.Context, job *declared, pauses []jobs.Pause) (int, error) {
	for limit := 2*job.PauseAfter + 20; ; limit *= 4 {
		records, err := v.db.Runs(ctx, v.holder.Group, jobs.Filter{Job: job.Name, Limit: limit})
		if err != nil {
			return 0, err
		}
		n, sure := jobs.FailedInARow(records, pauses)
		if sure || n >= job.PauseAfter || len(records) < limit {
			return n, nil
		}
	}
}

// pauseFailing pauses a job. The pause has no token: a leader that was replaced just now may still write it, and the
// count that it goes by is the ledger's, so the next leader would pause the job as well.
func (v *env) pauseFailing(e *entry, job string, failures int) {
	err := v.retry(v.ctx, "pause a job that fails", func(ctx context.Context) error {
		if !v.trusted() {
			return errTermOver
		}
		err := v.db.Pause(acting(ctx, v.holder.Owner), v.holder.Group, job)
		if errors.Is(err, jobs.ErrNoJob) {
			return nil // there is nothing to pause any more
		}
		return err
	})
	if err == nil {
		v.stream.Emit(event.Control{Header: v.head(), Action: event.PausedByRuns, Key: jobs.Key{Job: job}})
		v.log.Warn("the job is paused, because its runs fail: it goes on once it is resumed",
			zap.String("job", job), zap.Int("failures", failures))
	}
	v.do(func(t *term) {
		e.fails.pausing = false
		if err == nil {
			e.SetPaused()
		}
		t.counted(e)
		t.reader.soon()
	})
}

// counted lets the job go on, unless another count of it is under way.
func (t *term) counted(e *entry) {
	e.Counted()
	t.freed(e)
	t.claimDue(e, t.now())
}
