package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/internal/spelling"
)

// AfterSchedule makes a job follow another one. See [After].
type AfterSchedule struct{ job string }

// After is due once for each run of the other job that succeeded, whether it was due by
// its schedule, triggered or backfilled: with the same tick and the same arguments. So
// several jobs make a pipeline. The job that succeeds and the run that follows are
// written together, so that none is lost and none comes twice, also over a takeover.
//
// The runs of the job wait in line for one another, whatever [Job.Overlap] says, and so
// many at a time as it says: [OverlapAllow] has up to [Job.Limit]. While as many as
// [CatchUp].Limit wait, further ones are skipped; so are those that become due while the
// job is paused. Misfire and [CatchUp].Deadline have no meaning for it, and a job with
// [OverlapReplace] is refused.
func After(job string) AfterSchedule { return AfterSchedule{job} }

// Job is the job that it follows.
func (s AfterSchedule) Job() string { return s.job }

// Err reports a name that no job can have.
func (s AfterSchedule) Err() error {
	if !names.Valid(s.job) {
		return fmt.Errorf("after %.150q: expected the name of a job", s.job)
	}
	return nil
}

// Next implements [Schedule]: there are no ticks but those of the other job.
func (s AfterSchedule) Next(time.Time) time.Time { return time.Time{} }

func (s AfterSchedule) String() string { return "after " + s.job }

// CheckPipelines says what is wrong with jobs that are declared together and follow one
// another, by the name of the job: one that follows a job that is not there, itself
// by way of others, or a notifier; and a notifier that names a job that is not there, or a
// notifier. schedules are those of all jobs by their names.
func CheckPipelines(schedules map[string]Schedule) map[string]error {
	wrong := map[string]error{}
	for name, schedule := range schedules {
		if s, ok := schedule.(NotifySchedule); ok && s.Err() == nil {
			if err := checkNotifier(schedules, name, s); err != nil {
				wrong[name] = err
			}
			continue
		}
		after, ok := schedule.(AfterSchedule)
		_, notifies := schedules[after.job].(NotifySchedule)
		switch {
		case !ok || after.Err() != nil:
		case schedules[after.job] == nil:
			wrong[name] = noSuchJob(schedules, name, fmt.Sprintf("is due after %q", after.job), after.job)
		case notifies:
			wrong[name] = fmt.Errorf("jobs: job %q is due after %q, which tells of other jobs: no job can follow it", name, after.job)
		default:
			if way := wayRound(schedules, name); way != nil {
				wrong[name] = fmt.Errorf("jobs: job %q is due after itself: %s", name, strings.Join(way, " after "))
			}
		}
	}
	return wrong
}

// noSuchJob is the error of a job that does something with one that is not there.
func noSuchJob(schedules map[string]Schedule, name, does, other string) error {
	var all []string
	for n := range schedules {
		if n != name {
			all = append(all, n)
		}
	}
	err := fmt.Errorf("jobs: job %q %s, and there is no such job", name, does)
	if near := spelling.Near(all, other); len(near) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, ", "))
	}
	return err
}

// wayRound is the way from a job back to itself; nil if there is none.
func wayRound(schedules map[string]Schedule, name string) []string {
	way := []string{name}
	for range len(schedules) {
		after, ok := schedules[way[len(way)-1]].(AfterSchedule)
		if !ok {
			return nil
		}
		way = append(way, after.job)
		if after.job == name {
			return way
		}
	}
	return nil
}
