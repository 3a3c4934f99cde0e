package ledgertest

import (
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

func (e *env) declare(s Store, h jobs.Holder, declared ...jobs.Declared) {
	e.Helper()
	e.ok(s.Declare(e.ctx(), h, declared), "Declare")
}

// later waits until the database's clock has moved by more than a moment, so
// that an instant stamped then is told from one stamped before.
func (e *env) later() {
	e.Helper()
	e.after(e.now(), moment)
}

// after waits until the database's clock is more than d after an instant.
func (e *env) after(at time.Time, d time.Duration) {
	e.Helper()
	for e.now().Sub(at) <= d {
		if err := e.ctx().Err(); err != nil {
			e.Fatalf("the database's clock does not come to %v after %v", d, at)
		}
	}
}

var declareCases = []testCase{
	{"declare/a new job is known since now", func(e *env) {
		s := e.open()
		h := e.take(s, group, alice)
		before := e.now()
		e.declare(s, h, jobs.Declared{Name: report, Schedule: "every 1m"}, jobs.Declared{Name: cleanup, Schedule: "0 0 2 * * * in Europe/Berlin"})
		known := e.load(group).Jobs
		e.equal(len(known), 2, "jobs known")
		k := known[report]
		e.between(k.Since, before, "Since")
		e.between(k.ScheduleSince, before, "ScheduleSince")
		e.equal(k, jobs.Known{Schedule: "every 1m", Since: k.Since, ScheduleSince: k.ScheduleSince}, "a new job")
		e.equal(known[cleanup].Schedule, "0 0 2 * * * in Europe/Berlin", "Schedule of the other job")
	}},

	{"declare/an unchanged schedule rules since when it did", func(e *env) {
		s := e.open()
		e.begin(s)
		was := e.load(group).Jobs
		e.later()
		e.declareJobs(s, e.take(s, group, bob), report, cleanup)
		for name, k := range e.load(group).Jobs {
			e.equal(k, was[name], name+" after the next term declared it")
		}
	}},

	{"declare/a changed schedule rules from now on", func(e *env) {
		s := e.open()
		h := e.begin(s)
		e.running(s, h, key(report, 1))
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		other := e.known(group, cleanup)
		// The texts differ by what a database may take for nothing.
		for _, schedule := range []string{"every 2m", "Every 2m", "Every 2m ", "every 2m"} {
			was := e.known(group, report)
			e.later()
			before := e.now()
			e.declare(s, h, jobs.Declared{Name: report, Schedule: schedule}, jobs.Declared{Name: cleanup, Schedule: "every 1m"})
			k := e.known(group, report)
			e.between(k.ScheduleSince, before, "ScheduleSince of "+schedule)
			was.Schedule, was.ScheduleSince = schedule, k.ScheduleSince
			e.equal(k, was, "a job whose schedule changed")
		}
		e.equal(e.known(group, cleanup), other, "a job whose schedule did not change")
	}},

	{"declare/a job that was not declared is left alone", func(e *env) {
		s := e.open()
		e.begin(s)
		was := e.load(group).Jobs
		e.later()
		e.declareJobs(s, e.take(s, group, bob), report)
		e.equal(e.load(group).Jobs[cleanup], was[cleanup], "a job that the next term did not declare")
		e.declare(s, e.take(s, group, alice))
		for name, k := range e.load(group).Jobs {
			e.equal(k, was[name], name+" after a term declared none")
		}
		e.equal(len(e.load(group).Jobs), 2, "jobs known")
	}},

	{"declare/a hundred jobs", func(e *env) {
		s := e.open()
		h := e.take(s, group, alice)
		var declared []jobs.Declared
		for i := range 100 {
			declared = append(declared, jobs.Declared{Name: strings.Repeat("x", 100-i), Schedule: strings.Repeat("é ", 10*i)})
		}
		e.declare(s, h, declared...)
		known := e.load(group).Jobs
		e.equal(len(known), len(declared), "jobs known")
		for _, d := range declared {
			e.equal(known[d.Name].Schedule, d.Schedule, "Schedule of "+d.Name)
		}
	}},

	{"declare/runs stay as they are", func(e *env) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		h = e.take(s, group, bob)
		e.declareJobs(s, h, report)
		e.declare(s, h, jobs.Declared{Name: report, Schedule: "every 2m"})
		e.unchanged(r, "after another term declared its jobs")
	}},
}

var loadCases = []testCase{
	{"load/an empty ledger", func(e *env) {
		before := e.now()
		snapshot := e.load(group)
		e.between(snapshot.Now, before, "Now")
		e.equal(len(snapshot.Jobs), 0, "jobs known")
		e.equal(len(snapshot.Open), 0, "open runs")
		e.equal(snapshot.Paused, false, "Paused")
		e.equal(e.changes(group), snapshot.Changes, "Changes beside the snapshot's")
		e.equal(e.count(group), 0, "runs")
	}},

	{"load/the cursor is the newest scheduled tick", func(e *env) {
		s := e.open()
		h := e.begin(s)
		cursor := func(want time.Time, what string) {
			e.Helper()
			e.equal(e.known(group, report).Cursor, want, "cursor "+what)
		}
		cursor(time.Time{}, "before the first claim")
		r := e.running(s, h, key(report, 5))
		cursor(tick(5), "of a running tick")
		e.moved(s, h, to(jobs.Succeeded, r))
		cursor(tick(5), "of a tick that is over")
		e.skipped(s, h, key(report, 7))
		cursor(tick(7), "of a skipped tick")
		e.waiting(s, h, key(report, 8))
		cursor(tick(8), "of a waiting tick")
		e.running(s, h, key(report, 2))
		cursor(tick(8), "after an earlier tick")
		e.running(s, h, key(cleanup, 20))
		cursor(tick(8), "after a tick of another job")
		e.mine(s, h, jobs.Claim{Key: jobs.Key{Job: report, Tick: tick(30), Trigger: 1}, State: jobs.Running})
		e.trigger(s, report)
		cursor(tick(8), "after manual runs")
		e.declareJobs(s, e.take(s, group, bob), report)
		cursor(tick(8), "in the next term")
		e.equal(e.known(group, cleanup).Cursor, tick(20), "cursor of the other job")
	}},

	{"load/open runs are in the order of their ticks", func(e *env) {
		s := e.open()
		h := e.begin(s)
		want := map[jobs.Key]jobs.Record{}
		for _, n := range []int{7, 3, 9, 1} {
			for i, job := range []string{report, cleanup} {
				r := e.running(s, h, key(job, 2*n+i))
				want[r.Key] = r
			}
		}
		late := e.mine(s, h, jobs.Claim{Key: key(report, 5), State: jobs.Waiting, Delay: time.Hour})
		want[late.Key] = late
		over := e.running(s, h, key(report, 4))
		e.moved(s, h, to(jobs.Failed, over))
		e.skipped(s, h, key(report, 8))
		open := e.load(group).Open
		for _, r := range open {
			e.same(r, want[r.Key], "open run")
		}
		e.equal(len(open), len(want), "open runs")
		if !slices.IsSortedFunc(open, func(a, b jobs.Record) int { return a.Tick.Compare(b.Tick) }) {
			e.Errorf("open runs are not in the order of their ticks: %v", open)
		}
	}},

	{"load/open runs of older terms and of undeclared jobs", func(e *env) {
		s := e.open()
		r := e.running(s, e.begin(s), key(report, 1))
		e.declareJobs(s, e.take(s, group, bob), cleanup)
		open := e.load(group).Open
		if len(open) != 1 || open[0] != r {
			e.Errorf("open runs %v, want that of the term before", open)
		}
	}},

	{"load/a thousand open runs", func(e *env) {
		s := e.open()
		h := e.begin(s)
		e.claim(s, h, newID(), many(1000, jobs.Running)...)
		e.equal(len(e.load(group).Open), 1000, "open runs")
	}},

	{"load/when a run was last started", func(e *env) {
		s := e.open()
		h := e.begin(s)
		started := func(want time.Time, what string) {
			e.Helper()
			e.equal(e.known(group, report).Started, want, "Started "+what)
		}
		started(time.Time{}, "before the first run")
		e.waiting(s, h, key(report, 1))
		e.skipped(s, h, key(report, 2))
		started(time.Time{}, "beside ticks that were not started")
		first := e.running(s, h, key(report, 4))
		started(first.Started, "beside the first run")
		e.later()
		second := e.running(s, h, key(report, 3))
		started(second.Started, "after an earlier tick was started")
		second = e.moved(s, h, to(jobs.Waiting, second))
		started(second.Started, "of a run that waits for its next attempt")
		second = e.moved(s, h, to(jobs.Running, second))
		started(second.Started, "after the next attempt was started")
		e.later()
		other := e.running(s, h, key(cleanup, 1))
		started(second.Started, "after a run of another job was started")
		second = e.moved(s, h, to(jobs.Failed, second))
		started(second.Started, "after its end")
		e.moved(s, h, to(jobs.Succeeded, first))
		started(second.Started, "after the end of a run that was started before")
		e.moved(s, h, to(jobs.Cancelled, e.waiting(s, h, key(report, 5))))
		started(second.Started, "after a run that was never started is over")
		manual := e.record(group, e.trigger(s, report))
		manual = e.moved(s, h, to(jobs.Running, manual))
		started(manual.Started, "beside a manual run")
		manual = e.moved(s, h, to(jobs.Succeeded, manual))
		e.equal(e.known(group, cleanup).Started, other.Started, "Started of the other job")
		e.later()
		e.prune(s, report, jobs.History{For: moment}, 0)
		e.absent(group, manual.Key, "after pruning")
		e.declareJobs(s, e.take(s, group, bob), report)
		started(manual.Started, "in the next term, after the run is deleted")
	}},

	{"load/when the last of runs that end together was started", func(e *env) {
		s := e.open()
		h := e.begin(s)
		for round, order := range [][]int{{1, 3, 2}, {3, 1, 2}, {1, 2, 3}, {3, 2, 1}} {
			var moves []jobs.Move
			var last jobs.Record
			for _, n := range order {
				e.later()
				last = e.running(s, h, key(report, 10*round+n))
				moves = append(moves, to(jobs.Succeeded, last))
			}
			never := e.waiting(s, h, key(report, 10*round+4))
			other := e.running(s, h, key(cleanup, round))
			e.move(s, h, append(moves, to(jobs.Cancelled, never), to(jobs.Failed, other))...)
			e.equal(e.known(group, report).Started, last.Started, "Started")
			e.equal(e.known(group, cleanup).Started, other.Started, "Started of the other job")
		}
	}},

	{"load/when a run last came to its end", func(e *env) {
		s := e.open()
		h := e.begin(s)
		e.equal(e.known(group, report).Finished, time.Time{}, "Finished before the first run")
		first, second := e.running(s, h, key(report, 1)), e.running(s, h, key(report, 2))
		e.equal(e.known(group, report).Finished, time.Time{}, "Finished beside the first run")
		second = e.moved(s, h, to(jobs.Succeeded, second))
		e.equal(e.known(group, report).Finished, second.Finished, "Finished after the first end")
		e.later()
		first = e.moved(s, h, to(jobs.Failed, first))
		e.equal(e.known(group, report).Finished, first.Finished, "Finished after an earlier tick came to its end")
		e.later()
		retried := e.running(s, h, key(report, 3))
		e.moved(s, h, to(jobs.Waiting, retried))
		e.equal(e.known(group, report).Finished, first.Finished, "Finished after a run that is to be retried")
		manual := e.record(group, e.trigger(s, report))
		manual = e.moved(s, h, to(jobs.Running, manual))
		manual = e.moved(s, h, to(jobs.Succeeded, manual))
		e.equal(e.known(group, report).Finished, manual.Finished, "Finished after a manual run")
		e.equal(e.known(group, cleanup).Finished, time.Time{}, "Finished of the other job")
		e.declareJobs(s, e.take(s, group, bob), report)
		e.equal(e.known(group, report).Finished, manual.Finished, "Finished in the next term")
	}},
}
