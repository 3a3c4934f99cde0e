package scheduler

import (
	"context"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// passOver takes ticks out of the schedules that are so far in the future that they
// were claimed under a wrong clock: the schedules go on from earlier ticks, and the
// future ticks are run when they are due. It returns what the ledger has then.
func (v *env) passOver(ctx context.Context, all []*declared, snapshot jobs.Snapshot) (jobs.Snapshot, error) {
	now, passed := v.now(), false
	for _, job := range all {
		cursor := snapshot.Jobs[job.Name].Cursor
		if cursor.Sub(now) <= v.clock.most {
			continue
		}
		n := 0
		err := v.retry(ctx, "pass over ticks", func(ctx context.Context) (err error) {
			n, err = v.db.PassOver(ctx, v.holder, job.Name, now)
			return err
		})
		if err != nil {
			return snapshot, err
		}
		passed = true
		v.log.Warn("ticks that lie in the future were claimed under a wrong clock: they are passed over, and the schedule goes on",
			zap.String("job", job.Name), zap.Int("ticks", n), zap.Time("newest", cursor))
	}
	if !passed {
		return snapshot, nil
	}
	err := v.retry(ctx, "load the ledger", func(ctx context.Context) (err error) {
		snapshot, err = v.reload(ctx, true)
		return err
	})
	return snapshot, err
}
