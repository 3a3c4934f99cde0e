package jobs

import (
	"errors"
	"fmt"
)

// ValidateIn is [Job.Validate] for a group whose runs are spread over its replicas (scheduler.WithSpread), or for one whose leader runs
// all jobs: it reports as well what such a group cannot do.
func (j Job) ValidateIn(spread bool) error {
	var wrong []error
	refuse := func(is bool, format string, values ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf("jobs: job %.150q: "+format, append([]any{j.Name}, values...)...))
		}
	}
	const leader = ": the leader runs all jobs of this group: add WithSpread, which spreads them over its replicas"
	switch {
	case !spread && j.Everywhere:
		j.checkAlone(refuse)
	case !spread:
		refuse(len(j.On) > 0, "On %v"+leader, j.On)
		refuse(len(j.Prefer) > 0, "Prefer %v"+leader, j.Prefer)
		refuse(j.Sticky, "Sticky"+leader)
	case j.Everywhere && j.Shards == 0:
		as := j
		as.Everywhere, as.Shards, as.Schedule = false, 1, Manual() // Validate has reported a notifier
		err := as.checkShards()
		refuse(err != nil, "Everywhere, which divides its runs: %w", err)
		refuse(len(j.Prefer) > 0, "Prefer"+notEverywhere+"it runs on each replica that has the labels of On")
	}
	return errors.Join(append(parts(j.Validate()), wrong...)...)
}

const notEverywhere = " does not apply to a job that runs everywhere: "

// checkAlone reports what a job cannot have that each replica runs by itself: it has no ledger, so nothing is known of
// its ticks and runs but what goes on.
func (j Job) checkAlone(refuse func(is bool, format string, values ...any)) {
	switch Base(j.Schedule).(type) {
	case AfterSchedule:
		refuse(true, "a job that runs everywhere follows no other job")
	case ManualSchedule:
		refuse(true, "a job that runs everywhere cannot be triggered: give it a schedule")
	}
	refuse(j.Misfire != MisfireOnce, "Misfire"+notEverywhere+"ticks that it misses are not made up for")
	refuse(j.CatchUp != CatchUp{}, "CatchUp"+notEverywhere+"ticks that it misses are not made up for")
	refuse(j.Recover != RecoverSkip, "Recover"+notEverywhere+"no replica knows of another one's runs")
	refuse(j.Overlap != OverlapForbid || j.Limit != 0, "Overlap"+notEverywhere+"it never overlaps itself")
	refuse(j.Priority != PriorityNormal, "Priority"+notEverywhere+"it waits for no slot")
	refuse(j.Pool != Pool{}, "Pool"+notEverywhere+"each replica runs it by itself")
	refuse(j.LockAtLeastFor != 0, "LockAtLeastFor"+notEverywhere+"it has no lock")
	refuse(j.History != History{}, "History"+notEverywhere+"its runs are not recorded")
	refuse(j.ConcurrencyKey != "", "ConcurrencyKey"+notEverywhere+"its runs have no arguments")
	refuse(len(j.On) > 0, "On"+notEverywhere+"it runs on each replica, unless the group is spread")
	refuse(len(j.Prefer) > 0, "Prefer"+notEverywhere+"it runs on each replica")
	refuse(j.Sticky, "Sticky"+notEverywhere+"it runs on each replica")
	refuse(j.PauseAfter != 0, "PauseAfter"+notEverywhere+"it cannot be paused")
}
