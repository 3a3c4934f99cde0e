package plan

import (
	"math"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// OnTime is how late a tick may be and still count as on time: an alarm that was lost is noticed by the sweep
// within a second.
const OnTime = 5 * time.Second

// misfires are what the policies for missed ticks differ in, besides [jobs.Misfire.Each]. A new policy has its
// row here. What becomes of the ticks by these is in [Job.plan].
var misfires = map[jobs.Misfire]struct {
	grace time.Duration // the newest tick is skipped if it is later than that; zero: never
	parts bool          // one tick stands for all of a gap, so that those before a pause and those after it have one each
}{
	jobs.MisfireOnce: {parts: true},
	jobs.MisfireSkip: {grace: OnTime},
	jobs.MisfireAll:  {},
}

// overlaps are what the policies for ticks that find an earlier run differ in, besides [jobs.Overlap.Beside]
// and [jobs.Overlap.Replaces]. A new policy has its row here.
var overlaps = map[jobs.Overlap]struct {
	full   string // why a tick is skipped that finds no room; empty: it waits
	queued string // why a tick is skipped that finds one that waits; empty: it waits behind that one
}{
	jobs.OverlapForbid: {full: "an earlier run has not finished"},
	jobs.OverlapQueue:  {queued: "an earlier tick waits already"},
	jobs.OverlapAllow:  {full: "as many runs as allowed have not finished"},
	// No tick waits for room, since it ends what has that.
	jobs.OverlapReplace: {},
}

// most is how many runs of the job may go on at a time.
func (j *Job) most() int {
	switch {
	case !j.job.Overlap.Beside():
		return 1
	case j.job.Limit == 0:
		return math.MaxInt
	}
	return j.job.Limit
}

// lines reports whether ticks that cannot start yet wait in line, instead of being skipped as Overlap says. A
// job that replaces what is older has no line.
func (j *Job) lines() bool {
	switch j.job.Schedule.(type) {
	case jobs.AfterSchedule, jobs.NotifySchedule:
		return true
	}
	return j.job.Misfire.Each() && !j.job.Overlap.Replaces()
}

// Why ticks are skipped that were due when no replica could run them.
const (
	Missed  = "missed"
	TooLate = "too late to start"
	// NotDeclared is why ticks and runs of a job that no replica had are skipped or closed.
	NotDeclared = "not declared"
)

// IsMissed reports whether that is why a tick was skipped that was due when no replica could run it.
func IsMissed(why string) bool { return why == Missed || why == TooLate }

// lineFull is why a tick is skipped that finds the line full.
const lineFull = "as many ticks as allowed wait already"

// IsTooLate reports whether the tick's start deadline has passed.
func (j *Job) IsTooLate(tick, now time.Time) bool {
	if j.job.CatchUp.Deadline == 0 {
		return false
	}
	return now.Sub(tick)-j.job.Delay(j.group, tick) > j.job.CatchUp.Deadline
}

// LateAnswer says why a tick that the ledger has given to the term does not start: the ledger took the claim too late, or its answer
// came too late. Empty: it starts. A claim may be repeated for a while until the ledger takes it.
func (j *Job) LateAnswer(tick, claimed, now time.Time) string {
	switch {
	case j.isClaimedLate(tick, claimed):
		return Missed
	case j.IsTooLate(tick, now):
		return TooLate
	}
	return ""
}

// isClaimedLate reports whether a tick is claimed too late for the job's misfire policy.
func (j *Job) isClaimedLate(tick, claimed time.Time) bool {
	grace := misfires[j.job.Misfire].grace
	return grace > 0 && claimed.Sub(tick) > grace
}

// PutOff is how long the start of a tick's run is still put off by the job's jitter.
func (j *Job) PutOff(tick, now time.Time) time.Duration {
	if j.job.Jitter == 0 {
		return 0
	}
	return max(0, tick.Add(j.job.Delay(j.group, tick)).Sub(now).Truncate(time.Microsecond))
}

// maxInterrupted is how many attempts a tick gets before it is assumed to kill its workers: see
// [jobs.RecoverRerun].
const maxInterrupted = 5

// reruns reports whether a run that was interrupted in this attempt gets another. One with shards, which go on, does so each time.
func (j *Job) reruns(attempt, shards int) bool {
	return shards > 0 || j.job.Recover == jobs.RecoverRerun && attempt < max(maxInterrupted, j.job.Retry.Attempts)
}
