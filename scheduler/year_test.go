package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// A service lives through a year: each week it is deployed with other jobs, replica by replica, some of its processes
// die, people trigger and pause. Each tick of the year is accounted for, also where the runs are spread over the replicas.
func TestYear(t *testing.T) {
	t.Parallel()
	weeks := 3 // in `make test`; `make year` has the others
	if rounds.Of(t, 1) > 1 {
		weeks = 52
	}
	for _, seed := range rounds.Seeds(t, 1) {
		for _, spread := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d spread=%t", seed, spread), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					y := &life{cluster: c, random: rand.New(rand.NewPCG(seed, 1)), args: map[string]int{}, spread: spread}
					y.live(weeks)
					y.check()
					if c.Failed() {
						c.Logf("CRONLEASE_SEED=%d CRONLEASE_ROUNDS=%d", seed, rounds.Of(t, 1))
					}
				})
			})
		}
	}
}

// life is that of a service.
type life struct {
	*cluster
	random  *rand.Rand
	running []*replica
	args    map[string]int // how often a run brought these arguments
	spread  bool
	asked   int          // triggers
	changes []time.Time  // of the schedule of the job "changing"
	paused  []jobs.Pause // of the job "paused"
	filled  []jobs.Backfilled
}

const replicasOfService = 3

// version is the list of jobs of a week.
func (y *life) version(week int) []jobs.Job {
	all := func(name string, every time.Duration) jobs.Job {
		return jobs.Job{Name: name, Schedule: jobs.Every(every), Misfire: jobs.MisfireAll, Recover: jobs.RecoverRerun,
			History: jobs.History{Keep: 100_000}, Do: func(context.Context, jobs.Run) error { return nil }}
	}
	after := func(name, first string) jobs.Job {
		j := all(name, time.Hour)
		j.Schedule, j.Misfire = jobs.After(first), 0
		return j
	}
	flaky := all("flaky", 5*time.Hour)
	flaky.Retry = jobs.Retry{Attempts: 3, Initial: time.Minute}
	flaky.Do = func(_ context.Context, run jobs.Run) error {
		if run.Attempt < 2 {
			return errors.New("not yet")
		}
		return nil
	}
	long := all("long", 8*time.Hour)
	long.Overlap = jobs.OverlapQueue
	long.Do = func(ctx context.Context, _ jobs.Run) error {
		select {
		case <-time.After(20 * time.Minute):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	manual := all("manual", time.Hour)
	manual.Schedule, manual.Misfire = jobs.Manual(), 0
	manual.Do = func(_ context.Context, run jobs.Run) error {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.args[string(run.Args)]++
		return nil
	}
	list := []jobs.Job{
		all("hourly", time.Hour), flaky, long, manual, all("paused", 4*time.Hour),
		all("extract", 6*time.Hour), after("transform", "extract"), after("load", "transform"),
		all("changing", time.Duration(2+week%2)*time.Hour),
	}
	if week%2 == 0 {
		list = append(list, all("at-times", 3*time.Hour))
	}
	return list
}

// replace starts a replica of the week's version in the place of one that leaves, or dies.
func (y *life) replace(at, week int) {
	old := y.running[at]
	y.running[at] = y.launch(week)
	if y.random.IntN(3) > 0 {
		old.stop()
	} else {
		old.kill()
		<-old.done
	}
}

func (y *life) launch(week int) *replica {
	return y.start(y.version(week), scheduler.WithTiming(lease.Timing{TTL: 30 * time.Minute}), scheduler.WithDrain(time.Hour),
		func(s *settings.Scheduler) { s.Sweep, s.Spread = 10*time.Minute, y.spread })
}

// live lives through so many weeks. Whatever happens, happens at any moment of its day, and at the very instant of a
// tick now and then.
func (y *life) live(weeks int) {
	for range replicasOfService {
		y.running = append(y.running, y.launch(0))
	}
	for n := range weeks {
		begin := time.Duration(n) * week
		moment := func(of int) { // in that day of the week
			at := begin + time.Duration(of)*day + time.Duration(y.random.Int64N(int64(20*time.Hour)))
			if y.random.IntN(3) == 0 {
				at = at.Truncate(time.Hour)
			}
			y.until(max(at, time.Since(y.begin)))
		}
		moment(0) // the deployment
		if n > 0 {
			for at := range y.running {
				y.replace(at, n)
				time.Sleep(time.Duration(y.random.Int64N(int64(30 * time.Minute))))
			}
			y.changes = append(y.changes, time.Now())
		}
		moment(1)
		y.trigger()
		if n%4 == 3 {
			y.backfill()
		}
		moment(2)
		y.pause(8 * time.Hour)
		moment(3) // one dies, and is started again
		at := y.random.IntN(len(y.running))
		y.running[at].kill()
		<-y.running[at].done
		y.running[at] = y.launch(n)
		moment(4)
		y.trigger()
		if err := y.leader().Resign(y.Context()); err != nil {
			y.Errorf("resign: %v", err)
		}
		moment(5) // the database is away
		for _, r := range y.running {
			r.link.set(func(l *link) { l.away = time.Now().Add(time.Duration(y.random.Int64N(int64(5 * time.Minute)))) })
		}
	}
	y.until(time.Duration(weeks)*week + 30*time.Minute)
}

func (y *life) trigger() {
	y.asked++
	if _, err := y.TriggerWith(y.Context(), "manual", map[string]int{"n": y.asked}); err != nil {
		y.Errorf("trigger: %v", err)
	}
}

// backfill has a past day of the hourly job run again, which takes its time: a run each ten minutes.
func (y *life) backfill() {
	today := time.Now().Truncate(day)
	b, err := y.Backfill(y.Context(), "hourly", jobs.Backfill{From: today.Add(-2 * day), To: today.Add(-day), Every: 10 * time.Minute})
	if err != nil || len(b.Ticks) != 24 {
		y.Errorf("backfill: %d ticks, %v", len(b.Ticks), err)
	}
	y.filled = append(y.filled, b)
}

func (y *life) pause(long time.Duration) {
	if err := y.Pause(y.Context(), "paused"); err != nil {
		y.Errorf("pause: %v", err)
	}
	began := time.Now()
	time.Sleep(long)
	if err := y.Resume(y.Context(), "paused"); err != nil {
		y.Errorf("resume: %v", err)
	}
	y.paused = append(y.paused, jobs.Pause{Began: began, Ended: time.Now()})
}

// check accounts for each tick.
func (y *life) check() {
	end := time.Now()
	for _, r := range y.running {
		r.stop()
	}
	expected := map[string]time.Duration{"hourly": time.Hour, "flaky": 5 * time.Hour, "extract": 6 * time.Hour, "long": 8 * time.Hour}
	for job, every := range expected {
		rows := y.rowsByTick(job, 0)
		for tick := jobs.Every(every).Next(y.begin); !tick.After(end.Add(-time.Hour)); tick = tick.Add(every) {
			if row := rows[tick]; len(row) != 1 || row[0].State != jobs.Succeeded {
				y.Errorf("%s at %v: %+v", job, tick, row)
			}
		}
	}
	for _, job := range []string{"transform", "load"} {
		rows := map[time.Time][]jobs.Record{}
		for _, r := range y.records(job) {
			rows[r.Tick] = append(rows[r.Tick], r)
		}
		for _, first := range y.records("extract") {
			if row := rows[first.Tick]; len(row) != 1 || row[0].State != jobs.Succeeded {
				y.Errorf("%s of %v: %+v", job, first.Tick, row)
			}
		}
		if all, of := len(y.records(job)), len(y.records("extract")); all != of {
			y.Errorf("%s has %d runs for %d", job, all, of)
		}
	}
	for n := range y.asked {
		text, _ := json.Marshal(map[string]int{"n": n + 1})
		if got := y.args[string(text)]; got != 1 {
			y.Errorf("trigger %d ran %d times", n+1, got)
		}
	}
	for _, b := range y.filled {
		rows := y.rowsByTick("hourly", b.ID)
		if len(rows) != len(b.Ticks) {
			y.Errorf("backfill %d has run for %d of %d ticks", b.ID, len(rows), len(b.Ticks))
		}
		for _, tick := range b.Ticks {
			if row := rows[tick]; len(row) != 1 || row[0].State != jobs.Succeeded {
				y.Errorf("backfill of %v: %+v", tick, row)
			}
		}
	}
	y.checkPaused(end)
	y.checkAttempts()
	y.Logf("%d runs, %d triggers, %d deployments", len(y.ran), y.asked, len(y.changes))
}

// rowsByTick are a job's rows of that trigger.
func (y *life) rowsByTick(job string, trigger uint64) map[time.Time][]jobs.Record {
	rows := map[time.Time][]jobs.Record{}
	for _, r := range y.records(job) {
		if r.Trigger == trigger {
			rows[r.Tick] = append(rows[r.Tick], r)
		}
	}
	return rows
}

// checkPaused wants each tick outside the pauses to have run, and none inside.
func (y *life) checkPaused(end time.Time) {
	rows := y.rowsByTick("paused", 0)
	for tick := jobs.Every(4 * time.Hour).Next(y.begin); !tick.After(end.Add(-time.Hour)); tick = tick.Add(4 * time.Hour) {
		in, at := false, false
		for _, p := range y.paused {
			in, at = in || p.Covers(tick), at || tick.Equal(p.Began) || tick.Equal(p.Ended)
		}
		if at {
			continue // it was claimed in that instant, or not
		}
		ran := len(rows[tick]) == 1 && rows[tick][0].State == jobs.Succeeded
		if ran == in {
			y.Errorf("paused at %v, in a pause: %v: %+v", tick, in, rows[tick])
		}
	}
}

// checkAttempts wants no attempt at a tick to begin twice.
func (y *life) checkAttempts() {
	began := map[string]int{}
	for _, r := range y.ran {
		began[fmt.Sprintf("%s %v #%d, attempt %d", r.Job, r.Tick, r.Trigger, r.Attempt)]++
	}
	for what, n := range began {
		if n > 1 {
			y.Errorf("%s began %d times", what, n)
		}
	}
}
