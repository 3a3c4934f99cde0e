package scheduler

import (
	"context"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// passOver takes ticks out of the schedules that are so far in the future that they
// were claimed under a wrong clock: the schedules go on from earlier ticks, and the
// future ticks are run when they are due. It returns what the ledger has then.
func (t *term) passOver(ctx context.Context, all []*declared, snapshot jobs.Snapshot) (jobs.Snapshot, error) {
	now, passed := t.now(), false
	for _, job := range all {
		cursor := snapshot.Jobs[job.Name].Cursor
		if cursor.Sub(now) <= t.clock.most {
			continue
		}
		n := 0
		err := t.wrote.retry(ctx, "pass over ticks", func(ctx context.Context) (err error) {
			n, err = t.ledger.PassOver(ctx, t.holder, job.Name, now)
			return err
		})
		if err != nil {
			return snapshot, err
		}
		passed = true
		t.log.Warn("ticks that lie in the future were claimed under a wrong clock: they are passed over, and the schedule goes on",
			zap.String("job", job.Name), zap.Int("ticks", n), zap.Time("newest", cursor))
	}
	if !passed {
		return snapshot, nil
	}
	err := t.wrote.retry(ctx, "load the ledger", func(ctx context.Context) (err error) {
		snapshot, err = t.reload(ctx, true)
		return err
	})
	return snapshot, err
}
