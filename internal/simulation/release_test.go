package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// release is a version of the program: a list of jobs.
type release struct {
	number int
	jobs   []jobs.Job
	work   map[string]time.Duration // the longest run of each
}

// isDelay reports a schedule that counts from the end of runs.
func isDelay(text string) bool { return len(text) > 11 && text[:11] == "fixed delay" }

// zones have changes of all kinds: none, an hour, half an hour.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}

// anyOf is one of all that there are.
func anyOf[T any](rng *rand.Rand, all []T) T { return all[rng.IntN(len(all))] }

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(rng.Int64N(int64(d)))
}

// newRelease has jobs of every kind. Fast ones have ticks every few seconds.
func newRelease(rng *rand.Rand, n int, fast bool) *release {
	rel := &release{work: map[string]time.Duration{}}
	for i := range n {
		rel.jobs = append(rel.jobs, rel.newJob(rng, fmt.Sprint("job-", i), fast))
	}
	return rel
}

func (rel *release) newJob(rng *rand.Rand, name string, fast bool) jobs.Job {
	j := jobs.Job{Name: name}
	rel.setPolicy(rng, &j)
	rel.setSchedule(rng, &j, fast)
	return j
}

func (rel *release) setSchedule(rng *rand.Rand, j *jobs.Job, fast bool) {
	every := time.Duration(2+rng.IntN(28)) * time.Minute
	if fast {
		every = time.Duration(1+rng.IntN(20)) * time.Second
	}
	switch kind := rng.IntN(8); {
	case kind < 2:
		j.Schedule = jobs.Every(every)
	case kind < 5 && fast:
		n := []int{1, 2, 5, 10, 15}[rng.IntN(5)]
		every = time.Duration(n) * time.Second
		j.Schedule = jobs.Cron(fmt.Sprintf("*/%d * * * * *", n))
	case kind < 3:
		n := []int{5, 10, 15, 30}[rng.IntN(4)]
		every = time.Duration(n) * time.Minute
		j.Schedule = jobs.Cron(fmt.Sprintf("%d */%d * * * *", rng.IntN(60), n)).In(zones[rng.IntN(len(zones))])
	case kind < 4:
		every = time.Hour
		j.Schedule = jobs.Cron(fmt.Sprintf("%d * * * *", rng.IntN(60))).In(zones[rng.IntN(len(zones))])
	case kind < 5:
		every = 24 * time.Hour // in the hours in which clocks change, mostly
		j.Schedule = jobs.Cron(fmt.Sprintf("%d %d * * *", rng.IntN(60), rng.IntN(4))).In(zones[rng.IntN(len(zones))])
	case kind < 6:
		j.Schedule = jobs.FixedRate(every).InitialDelay(time.Duration(rng.IntN(2)) * time.Minute)
	case kind < 7:
		j.Schedule = jobs.FixedDelay(every).InitialDelay(time.Duration(rng.IntN(2)) * time.Minute)
	default:
		j.Schedule = jobs.Manual()
	}
	rel.work[j.Name] = upTo(rng, min(every, 20*time.Minute))
}

func (rel *release) setPolicy(rng *rand.Rand, j *jobs.Job) {
	*j = jobs.Job{
		Name: j.Name, Schedule: j.Schedule,
		Misfire: anyOf(rng, jobs.Misfires()), Recover: anyOf(rng, jobs.Recovers()), Overlap: anyOf(rng, jobs.Overlaps()),
		Limit:   rng.IntN(4),
		CatchUp: jobs.CatchUp{Limit: 1 + rng.IntN(9)}, // a longer line would take days,
		History: jobs.History{Keep: 10 + rng.IntN(50)},
	}
	if rng.IntN(3) == 0 {
		j.CatchUp.Deadline = upTo(rng, 30*time.Minute)
	}
	if rng.IntN(2) == 0 {
		j.Retry = jobs.Retry{Attempts: rng.IntN(5), Initial: upTo(rng, time.Minute), Max: 10 * time.Minute}
	}
	if rng.IntN(4) == 0 {
		j.Timeout = upTo(rng, 5*time.Minute)
	}
	if rng.IntN(4) == 0 {
		j.LockAtLeastFor = upTo(rng, time.Minute)
	}
	if !j.Overlap.Replaces() && rng.IntN(5) == 0 {
		if j.Shards = 1 + rng.IntN(3); rng.IntN(2) == 0 {
			j.Shards, j.Everywhere = 0, true
		}
	}
}

// next is a later release: some jobs are changed, one may be gone, one new.
func (rel *release) next(rng *rand.Rand, number int, fast bool) (next *release, what []string) {
	next = &release{number: number, jobs: slices.Clone(rel.jobs), work: map[string]time.Duration{}}
	for name, d := range rel.work {
		next.work[name] = d
	}
	for range 1 + rng.IntN(3) {
		i := rng.IntN(len(next.jobs))
		switch kind := rng.IntN(5); {
		case kind < 2:
			next.setSchedule(rng, &next.jobs[i], fast)
			what = append(what, "schedule changed")
		case kind < 3:
			next.setPolicy(rng, &next.jobs[i])
			what = append(what, "policy changed")
		case kind < 4 && len(next.jobs) > 3:
			next.jobs = slices.Delete(next.jobs, i, i+1)
			what = append(what, "job removed")
		default:
			name := fmt.Sprint("job-", rng.IntN(12)) // one that was there before, as often as not
			if !slices.ContainsFunc(next.jobs, func(j jobs.Job) bool { return j.Name == name }) {
				next.jobs = append(next.jobs, next.newJob(rng, name, fast))
				what = append(what, "job added")
			}
		}
	}
	return next, what
}
