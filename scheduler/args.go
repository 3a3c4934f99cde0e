package scheduler

import (
	"context"
	"encoding/json"
	"errors"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

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
