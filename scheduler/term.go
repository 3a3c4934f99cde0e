package scheduler

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// term is one term of this replica: the jobs with their cursors, and what runs.
type term struct {
	ctx   context.Context
	held  election.Term
	log   *zap.Logger
	grace time.Duration
	runs  *executor

	alarms [][]*entry // grouped by schedule

	mu      sync.Mutex // guards the entries
	entries []*entry
}

// entry is a job in a term.
type entry struct {
	job jobs.Job
	// next is the first tick that this term has not dealt with; zero: none.
	next time.Time
}

// newTerm starts every job's ticks at now: what was due before the term began
// is not this term's.
func newTerm(ctx context.Context, held election.Term, declared []jobs.Job, log *zap.Logger, grace time.Duration) *term {
	t := &term{ctx: ctx, held: held, grace: grace, log: log.With(zap.Uint64("token", held.Token()))}
	t.runs = newExecutor(ctx, held, t.log)
	now := time.Now()
	groups := map[string]int{}
	for _, job := range declared {
		e := &entry{job: job, next: job.Schedule.Next(now)}
		t.entries = append(t.entries, e)
		schedule := job.Schedule.String()
		i, ok := groups[schedule]
		if !ok {
			i = len(t.alarms)
			groups[schedule] = i
			t.alarms = append(t.alarms, nil)
		}
		t.alarms[i] = append(t.alarms[i], e)
	}
	return t
}

// wake starts what is due of the entries. An alarm that is a hair early, by the
// wall clock that ticks are measured with, is put off until the tick.
func (t *term) wake(entries []*entry) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		t.fire(e, now)
	}
	const hair = 100 * time.Millisecond
	if early := entries[0].next.Sub(now); early > 0 && early < hair {
		time.AfterFunc(early, func() { t.wake(entries) })
	}
}

// sweep starts what is due and was not woken: after a stepped clock, a paused
// process, or an alarm that gocron lost.
func (t *term) sweep() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries {
		t.fire(e, now)
	}
}

// fire starts the latest tick that is due, if one is: ticks that have piled up
// are one run.
func (t *term) fire(e *entry, now time.Time) {
	if e.next.IsZero() || e.next.After(now) {
		return
	}
	var tick time.Time
	for missed := -1; ; missed++ {
		if e.next.IsZero() || e.next.After(now) {
			if missed > 0 {
				t.log.Warn("ticks were late and run as one", zap.String("job", e.job.Name), zap.Int("missed", missed), zap.Time("tick", tick))
			}
			break
		}
		tick = e.next
		e.next = e.job.Schedule.Next(tick)
	}
	t.runs.start(e.job, jobs.Run{
		Group: t.held.Group(), Job: e.job.Name, Tick: tick,
		Owner: t.held.Owner(), Token: t.held.Token(), Attempt: 1,
	})
}
