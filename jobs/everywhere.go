package jobs

import "errors"

// checkEverywhere reports what a job that runs on each replica cannot have: it has no
// ledger, so nothing is known of its ticks and runs but what goes on.
func (j Job) checkEverywhere() error {
	if !j.Everywhere {
		return nil
	}
	var wrong []error
	refuse := func(is bool, what string) {
		if is {
			wrong = append(wrong, errors.New(what))
		}
	}
	switch Base(j.Schedule).(type) {
	case AfterSchedule:
		refuse(true, "a job that runs everywhere follows no other job")
	case NotifySchedule:
		refuse(true, "a job that runs everywhere tells of no other jobs: what happens to them is told once")
	case ManualSchedule:
		refuse(true, "a job that runs everywhere cannot be triggered: give it a schedule")
	}
	const has = " does not apply to a job that runs everywhere: "
	refuse(j.Misfire != MisfireOnce, "Misfire"+has+"ticks that it misses are not made up for")
	refuse(j.CatchUp != CatchUp{}, "CatchUp"+has+"ticks that it misses are not made up for")
	refuse(j.Recover != RecoverSkip, "Recover"+has+"no replica knows of another one's runs")
	refuse(j.Overlap != OverlapForbid || j.Limit != 0, "Overlap"+has+"it never overlaps itself")
	refuse(j.Priority != PriorityNormal, "Priority"+has+"it waits for no slot")
	refuse(j.Pool != Pool{}, "Pool"+has+"each replica runs it by itself")
	refuse(j.LockAtLeastFor != 0, "LockAtLeastFor"+has+"it has no lock")
	refuse(j.History != History{}, "History"+has+"its runs are not recorded")
	refuse(j.ConcurrencyKey != "", "ConcurrencyKey"+has+"its runs have no arguments")
	refuse(len(j.On) > 0, "On"+has+"it runs on each replica")
	refuse(len(j.Prefer) > 0, "Prefer"+has+"it runs on each replica")
	refuse(j.Shards != 0, "Shards"+has+"it runs on each replica")
	refuse(j.Sticky, "Sticky"+has+"it runs on each replica")
	refuse(j.PauseAfter != 0, "PauseAfter"+has+"it cannot be paused")
	return errors.Join(wrong...)
}
