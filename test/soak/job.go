//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
)

// The number of jobs that are counted tick by tick, and of all.
const (
	secondCount = 60
	jobCount    = 200
)

// kept is how many runs of a job the ledger keeps, but for those that are counted tick by tick.
const (
	kept       = 60
	keptSecond = 240
)

// secondName is the name of a job that is counted tick by tick.
func secondName(i int) string { return fmt.Sprintf("second-%02d", i) }

// jobs returns the jobs of the group. All do little; what they have in common is that something of them has to be
// given back each time.
func (w *worker) jobs() []jobs.Job {
	var all []jobs.Job
	add := func(n int, kind string, job jobs.Job, do func(ctx context.Context, run jobs.Run) error) {
		for i := range n {
			j := job
			j.Name = fmt.Sprintf("%s-%02d", kind, i)
			if j.History == (jobs.History{}) {
				j.History.Keep = kept
			}
			j.Do = func(ctx context.Context, run jobs.Run) (err error) {
				err = errPanicked
				defer func() { w.tally.ran(kind, err) }()
				err = do(ctx, run)
				return err
			}
			all = append(all, j)
		}
	}
	nothing := func(context.Context, jobs.Run) error { return nil }
	each, each2 := jobs.Every(time.Second), jobs.Every(2*time.Second)

	for i := range secondCount {
		all = append(all, jobs.Job{
			Name: secondName(i), Schedule: each, Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow,
			History: jobs.History{Keep: keptSecond},
			Do: func(_ context.Context, run jobs.Run) error {
				w.tally.second(i, run.Tick)
				w.tally.ran("second", nil)
				return nil
			},
		})
	}
	add(20, "fence", jobs.Job{Schedule: each2}, w.write)
	add(20, "lock", jobs.Job{Schedule: each2, Overlap: jobs.OverlapQueue}, w.lock)
	add(20, "retry", jobs.Job{Schedule: each2, Overlap: jobs.OverlapQueue,
		Retry: jobs.Retry{Attempts: 3, Initial: 500 * time.Millisecond, Max: time.Second}}, func(_ context.Context, run jobs.Run) error {
		if w.chance(run, 10) {
			return errors.New("one of those that fail now and then")
		}
		return nil
	})
	add(5, "panic", jobs.Job{Schedule: each2}, func(_ context.Context, run jobs.Run) error {
		if w.chance(run, 10) {
			panic("one of those that panic now and then")
		}
		return nil
	})
	add(5, "timeout", jobs.Job{Schedule: each2, Timeout: 300 * time.Millisecond}, func(ctx context.Context, _ jobs.Run) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	add(10, "rate", jobs.Job{Schedule: jobs.FixedRate(2 * time.Second).InitialDelay(time.Second), History: jobs.History{For: 2 * time.Minute}}, nothing)
	add(10, "delay", jobs.Job{Schedule: jobs.FixedDelay(time.Second)}, nothing)
	add(5, "forbid", jobs.Job{Schedule: each, Overlap: jobs.OverlapForbid}, w.dawdle)
	add(5, "queue", jobs.Job{Schedule: each, Overlap: jobs.OverlapQueue}, w.dawdle)
	add(5, "allow", jobs.Job{Schedule: each, Overlap: jobs.OverlapAllow, Limit: 2}, w.dawdle)
	add(5, "replace", jobs.Job{Schedule: each, Overlap: jobs.OverlapReplace}, w.dawdle)
	add(4, "manual", jobs.Job{Schedule: jobs.Manual()}, nothing)
	add(4, "paused", jobs.Job{Schedule: each}, nothing)
	add(1, "trigger", jobs.Job{Schedule: jobs.Every(10 * time.Second)}, func(ctx context.Context, run jobs.Run) error {
		_, err := w.scheduler.Jobs().Trigger(ctx, fmt.Sprintf("manual-%02d", run.Tick.Unix()/10%4))
		return err
	})
	add(1, "pause", jobs.Job{Schedule: jobs.Every(10 * time.Second)}, func(ctx context.Context, run jobs.Run) error {
		group, name := w.scheduler.Jobs(), fmt.Sprintf("paused-%02d", run.Tick.Unix()/20%4)
		if run.Tick.Unix()/10%2 == 0 {
			return group.Pause(ctx, name)
		}
		return group.Resume(ctx, name)
	})
	rare := jobCount - len(all)
	for i := range rare {
		add(1, fmt.Sprintf("rare-%02d", i), jobs.Job{
			Schedule: jobs.Every(time.Duration(10+i*50/(rare-1)) * time.Second), // from 10 to 60 s
			Recover:  jobs.RecoverRerun, LockAtLeastFor: time.Second, LockAtMostFor: time.Minute,
		}, nothing)
	}
	return all
}

// errPanicked counts a run that did not return.
var errPanicked = errors.New("panicked")

// chance reports whether a run is one of those in n, by the seed.
func (w *worker) chance(run jobs.Run, n uint64) bool { return w.pick(run, n) == 0 }

// pick returns a number below n for an attempt of a run: the same on every worker.
func (w *worker) pick(run jobs.Run, n uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.orders.Seed, run.Job, run.Tick.Unix(), run.Attempt)
	return h.Sum64() % n
}

// dawdle takes longer than the second in which the next tick comes, sometimes.
func (w *worker) dawdle(ctx context.Context, run jobs.Run) error {
	return occupy(ctx, time.Duration(200+w.pick(run, 1400))*time.Millisecond)
}

// write counts the run in a fenced transaction.
func (w *worker) write(ctx context.Context, run jobs.Run) error {
	err := w.count(ctx, run.Job)
	if err == nil {
		w.tally.wrote()
	}
	return err
}

func (w *worker) count(ctx context.Context, name string) error {
	return fence.Do(ctx, w.store.DB(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO "+countTable+" (name, times) VALUES (?, 1) ON DUPLICATE KEY UPDATE times = times + 1", name)
		return err
	})
}

// lock holds a lock that others of its kind want too.
func (w *worker) lock(ctx context.Context, run jobs.Run) error {
	return w.locks.Do(ctx, fmt.Sprintf("job/%d", w.pick(run, 7)), func(ctx context.Context) error {
		return occupy(ctx, time.Duration(w.pick(run, 20))*time.Millisecond)
	})
}

// occupy waits, and returns the cause of ctx if that ends first.
func occupy(ctx context.Context, wait time.Duration) error {
	if !pause(ctx, wait) {
		return context.Cause(ctx)
	}
	return nil
}

// pause waits, and reports whether ctx did not end first.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
