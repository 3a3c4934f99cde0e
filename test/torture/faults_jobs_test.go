package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// jobFaults are what operators do to the jobs.
var jobFaults = []fault{
	{name: "jobs: paused", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.moreHeldBack()
		r.hold(random, between(random, r.ttl, 4*r.ttl))
		return bit
	}},
	{name: "jobs: paused without a leader", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		for _, s := range r.slots {
			s.kill()
		}
		r.rest(between(random, 0, r.ttl))
		r.hold(random, between(random, r.ttl, 2*r.ttl))
		r.rest(between(random, 0, r.ttl))
		bit := r.moreHeldBack()
		for _, s := range r.slots {
			s.restart()
		}
		return bit
	}},
}

// moreHeldBack says whether more ticks were skipped for a pause when it is asked.
func (r *round) moreHeldBack() (bit func() bool) {
	count := func() (n int, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return r.database.heldBack(ctx)
	}
	before, err := count()
	return func() bool {
		after, errAfter := count()
		return err == nil && errAfter == nil && after > before
	}
}

// hold pauses a job, or all, for a while.
func (r *round) hold(random *rand.Rand, length time.Duration) {
	job := ""
	if random.IntN(3) > 0 {
		job = jobOf(Policies[random.IntN(len(Policies))].Job)
	}
	store, err := r.database.open(random)
	if err != nil {
		r.broken("%v", err)
		return
	}
	defer store.Close()
	group := jobs.NewGroup(store, Group)
	r.operate(Pausing, Held, job, group.Pause)
	r.rest(length)
	r.operate(Resuming, Freed, job, group.Resume)
}

// operate carries out what an operator does to a job, and repeats it as long as it takes.
func (r *round) operate(before, after Kind, job string, do func(context.Context, string) error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.record(Event{At: time.Now().UnixNano(), Kind: before, Job: job})
	for err := do(ctx, job); err != nil; err = do(ctx, job) {
		if ctx.Err() != nil {
			r.broken("%s %q: %v", before, job, err)
			return
		}
		r.rest(100 * time.Millisecond)
	}
	r.record(Event{At: time.Now().UnixNano(), Kind: after, Job: job})
}
