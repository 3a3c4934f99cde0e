package scheduler

import (
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// warnNeverDue says so if a job's schedule has no further tick: an expression such as
// "0 0 30 2 *" is more likely a mistake.
func (s *Scheduler) warnNeverDue(job jobs.Job) {
	if jobs.NeverDue(job.Schedule, s.clock.now()) {
		s.log.Warn("a schedule is never due: the job only runs when it is triggered", zap.String("job", job.Name), zap.Stringer("schedule", job.Schedule))
	}
}

// checked warns of jobs that were taken while this replica runs. Run warns of those
// that there are before it.
func (s *Scheduler) checked(err error, taken []jobs.Job) error {
	if err == nil && s.started.Load() {
		for _, job := range taken {
			s.warnNeverDue(job)
		}
	}
	return err
}
