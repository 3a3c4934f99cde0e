package storetest

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func (e *ledgerEnv) declare(s store.Jobs, h store.Holder, declared ...store.Declared) {
	e.Helper()
	e.ok(s.Declare(e.ctx(), h, declared), "Declare")
}

// later waits until the database's clock has moved by more than a moment, so
// that an instant stamped then is told from one stamped before.
func (e *ledgerEnv) later() {
	e.Helper()
	e.after(e.now(), noTime)
}

// after waits until the database's clock is more than d after an instant.
func (e *ledgerEnv) after(at time.Time, d time.Duration) {
	e.Helper()
	for e.now().Sub(at) <= d {
		if err := e.ctx().Err(); err != nil {
			e.Fatalf("the database's clock does not come to %v after %v", d, at)
		}
	}
}

var declareCases = []ledgerCase{
	{"declare/a new job is known since now", func(e *ledgerEnv) {
		s := e.open()
		h := e.take(s, group, alice)
		before := e.now()
		e.declare(s, h, store.Declared{Name: report, Schedule: "every 1m"}, store.Declared{Name: cleanup, Schedule: "0 0 2 * * * in Europe/Berlin"})
		known := e.load(group).Jobs
		e.equal(len(known), 2, "jobs known")
		k := known[report]
		e.between(k.Since, before, "Since")
		e.between(k.ScheduleSince, before, "ScheduleSince")
		e.equal(k, jobs.Known{Schedule: "every 1m", Since: k.Since, ScheduleSince: k.ScheduleSince}, "a new job")
		e.equal(known[cleanup].Schedule, "0 0 2 * * * in Europe/Berlin", "Schedule of the other job")
	}},

	{"declare/an unchanged schedule rules since when it did", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		was := e.load(group).Jobs
		e.later()
		e.declareJobs(s, e.take(s, group, bob), report, cleanup)
		for name, k := range e.load(group).Jobs {
			e.equal(k, was[name], name+" after the next term declared it")
		}
	}},

	{"declare/a changed schedule rules from now on", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.running(s, h, key(report, 1))
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		other := e.known(group, cleanup)
		// The texts differ in ways that a database may ignore.
		for _, schedule := range []string{"every 2m", "Every 2m", "Every 2m ", "every 2m"} {
			was := e.known(group, report)
			e.later()
			before := e.now()
			e.declare(s, h, store.Declared{Name: report, Schedule: schedule}, store.Declared{Name: cleanup, Schedule: "every 1m"})
			k := e.known(group, report)
			e.between(k.ScheduleSince, before, "ScheduleSince of "+schedule)
			was.Schedule, was.ScheduleSince = schedule, k.ScheduleSince
			e.equal(k, was, "a job whose schedule changed")
		}
		e.equal(e.known(group, cleanup), other, "a job whose schedule did not change")
	}},

	{"declare/a changed schedule rules from when it is said to", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.later()
		from := e.now()
		e.later()
		change := func(schedule string, from time.Time) jobs.Known {
			e.Helper()
			e.declare(s, h, store.Declared{Name: report, Schedule: schedule, From: from}, store.Declared{Name: cleanup, Schedule: "every 1m", From: from})
			return e.known(group, report)
		}
		other := e.known(group, cleanup)
		e.equal(change("every 2m", from).ScheduleSince, from, "ScheduleSince of a changed schedule")
		e.later()
		e.equal(change("every 2m", e.now()).ScheduleSince, from, "ScheduleSince when it is declared again")
		e.equal(change("every 3m", from.Add(-time.Hour)).ScheduleSince, from, "ScheduleSince of a schedule declared from before the previous one")
		before := e.now()
		e.between(change("every 4m", before.Add(time.Hour)).ScheduleSince, before, "ScheduleSince of a schedule that is said to rule from the future on")
		e.equal(e.known(group, cleanup), other, "a job whose schedule did not change")
		before = e.now()
		e.declare(s, h, store.Declared{Name: "new", Schedule: "every 1m", From: from})
		e.between(e.known(group, "new").ScheduleSince, before, "ScheduleSince of a new job")
	}},

	{"declare/by a clock that is not the database's", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		now := e.now()
		declare := func(schedule string, from, now time.Time) time.Time {
			e.Helper()
			e.declare(s, h, store.Declared{Name: "new", Schedule: schedule, From: from, Now: now})
			return e.known(group, "new").ScheduleSince
		}
		ahead, behind := now.Add(time.Hour), now.Add(-time.Hour)
		e.equal(declare("every 1m", time.Time{}, ahead), ahead, "ScheduleSince of a new job")
		e.between(e.known(group, "new").Since, now, "Since of a new job")
		e.equal(declare("every 1m", now, ahead), ahead, "ScheduleSince when it is declared again")
		e.equal(declare("every 2m", time.Time{}, ahead.Add(time.Minute)), ahead.Add(time.Minute), "ScheduleSince of a changed schedule")
		e.equal(declare("every 3m", ahead.Add(2*time.Minute), ahead.Add(3*time.Minute)), ahead.Add(2*time.Minute), "ScheduleSince of a changed schedule that is said to rule since then")
		e.equal(declare("every 4m", ahead.Add(time.Hour), ahead.Add(4*time.Minute)), ahead.Add(4*time.Minute), "ScheduleSince of one that is said to rule from the future on")
		e.equal(declare("every 4m", behind.Add(-time.Minute), behind), behind.Add(-time.Minute), "ScheduleSince of one that ruled from the future on, by that clock")
		e.equal(declare("every 5m", time.Time{}, behind), behind, "ScheduleSince by a clock that is behind")
	}},

	{"declare/what ruled from the future on rules from when it is said to", func(e *ledgerEnv) {
		if e.h.StepClock == nil {
			e.Skip("left out: Harness.StepClock is nil")
		}
		s := e.open()
		e.h.StepClock(e.TB, 365*24*time.Hour)
		h := e.begin(s)
		for _, name := range []string{"same", "changed", "later"} {
			e.declare(s, h, store.Declared{Name: name, Schedule: "every 1m"})
		}
		e.h.StepClock(e.TB, -365*24*time.Hour)
		before := e.now()
		from := before.Add(-time.Hour)
		all := []store.Declared{
			{Name: report, Schedule: "every 1m"}, {Name: cleanup, Schedule: "every 2m"},
			{Name: "same", Schedule: "every 1m", From: from}, {Name: "changed", Schedule: "every 2m", From: from},
			{Name: "later", Schedule: "every 1m", From: before.Add(time.Hour)},
		}
		e.declare(s, h, all...)
		for _, name := range []string{report, cleanup, "later"} {
			e.between(e.known(group, name).ScheduleSince, before, "ScheduleSince of "+name)
		}
		for _, name := range []string{"same", "changed"} {
			e.equal(e.known(group, name).ScheduleSince, from, "ScheduleSince of "+name)
		}
	}},

	{"declare/the term that declared last", func(e *ledgerEnv) {
		s := e.open()
		e.equal(e.load(group).Opened, jobs.Opened{}, "Opened of an empty ledger")
		var opened jobs.Opened
		for _, owner := range []string{alice, bob} {
			e.later()
			before := e.now()
			h := e.take(s, group, owner)
			e.equal(e.load(group).Opened, opened, "Opened by a term that has not declared")
			e.declareJobs(s, h, report)
			opened = e.load(group).Opened
			e.equal(opened.Token, h.Token, "Opened.Token")
			e.between(opened.At, before, "Opened.At")
			e.later()
			e.declare(s, h)
			e.ok(s.Pause(e.ctx(), group, ""), "Pause")
			e.equal(e.load(group).Opened, opened, "Opened when the term declares again")
		}
		e.declareJobs(s, e.take(s, otherOne, alice), report)
		e.equal(e.load(group).Opened, opened, "Opened after a term of another group")
		e.equal(e.load(group).Paused, true, "Paused")
		e.equal(len(e.load(group).Jobs), 1, "jobs known")
		e.is(s.Resume(e.ctx(), group, ""), nil, "Resume")
		_, err := s.Trigger(e.ctx(), group, "", jobs.Request{})
		e.is(err, jobs.ErrNoJob, "Trigger of a job without a name")
	}},

	{"declare/a job that was not declared is left alone", func(e *ledgerEnv) {
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

	{"declare/runs stay as they are", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		h = e.take(s, group, bob)
		e.declareJobs(s, h, report)
		e.declare(s, h, store.Declared{Name: report, Schedule: "every 2m"})
		e.unchanged(r, "after another term declared its jobs")
	}},
}

var passOverCases = []ledgerCase{
	{"pass over/ticks of the future", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		kept := e.moved(s, h, to(jobs.Succeeded, e.running(s, h, key(report, 1))))
		over := e.moved(s, h, to(jobs.Failed, e.running(s, h, key(report, 5))))
		open := e.waiting(s, h, key(report, 7))
		manual := e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(5), Trigger: 3}, State: jobs.Running})
		other := e.running(s, h, key(cleanup, 9))
		elsewhere := e.take(s, otherOne, alice)
		e.declareJobs(s, elsewhere, report)
		e.running(s, elsewhere, key(report, 5))
		e.running(s, elsewhere, key(report, 9))
		pass := func(job string, after time.Time, want int) {
			e.Helper()
			n, err := s.PassOver(e.ctx(), h, job, after)
			e.ok(err, "PassOver")
			e.equal(n, want, "ticks passed over")
		}
		pass(report, tick(7), 0)
		e.equal(e.known(group, report).Cursor, tick(7), "cursor when nothing is later")
		h = e.take(s, group, bob)
		pass(report, tick(1), 2)
		pass(report, tick(1), 0)
		e.equal(e.known(group, report).Cursor, tick(1), "cursor after its ticks are passed over")
		e.unchanged(kept, "which is not later")
		e.unchanged(manual, "which was asked for by hand")
		e.unchanged(other, "of another job")
		e.equal(e.known(group, cleanup).Cursor, tick(9), "cursor of the other job")
		e.equal(e.known(otherOne, report).Cursor, tick(9), "cursor of the job in another group")
		e.record(otherOne, over.Key) // which is still there
		for _, r := range []jobs.Record{over, open} {
			e.absent(group, r.Key, "after it was passed over")
			r.Trigger = h.Token
			e.unchanged(r, "under its new key")
			e.running(s, h, jobs.Key{Job: report, Tick: r.Tick}) // again
		}
		pass(cleanup, tick(-1), 1)
		e.equal(e.known(group, cleanup).Cursor, time.Time{}, "cursor of a job whose ticks are all passed over")
		e.running(s, h, key(cleanup, 2))
		e.equal(e.known(group, cleanup).Cursor, tick(2), "cursor after the next claim")
	}},

	{"pass over/not the holder's own runs", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.running(s, h, key(report, 9))
		h = e.take(s, group, bob)
		n, err := s.PassOver(e.ctx(), h, report, tick(0))
		e.ok(err, "PassOver")
		e.equal(n, 1, "ticks passed over")
		r := e.running(s, h, key(report, 3))
		n, err = s.PassOver(e.ctx(), h, report, tick(0))
		e.ok(err, "PassOver that arrives again, late")
		e.equal(n, 0, "ticks passed over, late")
		e.unchanged(r, "which the holder has claimed meanwhile")
		e.equal(e.known(group, report).Cursor, tick(3), "cursor")
		e.moved(s, h, to(jobs.Succeeded, r))
	}},

	{"pass over/not for the replaced", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 5))
		e.take(s, group, bob)
		_, err := s.PassOver(e.ctx(), h, report, tick(1))
		e.is(err, store.ErrReplaced, "PassOver by a replaced term")
		_, err = s.PassOver(e.ctx(), h, report, tick(9))
		e.is(err, store.ErrReplaced, "PassOver of nothing by a replaced term")
		e.unchanged(r, "after the replaced tried to pass it over")
		e.equal(e.known(group, report).Cursor, tick(5), "cursor")
	}},
}

var loadCases = []ledgerCase{
	{"load/the server that answers", func(e *ledgerEnv) {
		if e.h.ManyServers {
			e.Skip("left out: Harness.ManyServers")
		}
		s := e.open()
		e.begin(s)
		readings, err := s.Read(e.ctx(), group)
		e.ok(err, "Read")
		server := readings[0].Server
		changes, err := s.Changes(e.ctx(), group)
		e.ok(err, "Changes")
		e.equal(changes.Server, server, "Server of Changes, beside that of the lease")
		snapshot, err := s.Load(e.ctx(), group)
		e.ok(err, "Load")
		e.equal(snapshot.Server, server, "Server of Load, beside that of the lease")
	}},

	{"load/an empty ledger", func(e *ledgerEnv) {
		before := e.now()
		snapshot := e.load(group)
		e.between(snapshot.Now, before, "Now")
		e.equal(len(snapshot.Jobs), 0, "jobs known")
		e.equal(len(snapshot.Open), 0, "open runs")
		e.equal(snapshot.Paused, false, "Paused")
		e.equal(e.changes(group), snapshot.Changes, "Changes beside the snapshot's")
		e.equal(e.count(group), 0, "runs")
	}},

	{"load/the cursor is the newest scheduled tick", func(e *ledgerEnv) {
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
		e.claim(s, h, newID(), store.Claim{Key: key(report, 10), State: jobs.Running}, store.Claim{Key: key(report, 9), State: jobs.Running})
		cursor(tick(10), "after an earlier tick")
		e.running(s, h, key(cleanup, 20))
		cursor(tick(10), "after a tick of another job")
		e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(30), Trigger: 1}, State: jobs.Running})
		e.trigger(s, report)
		cursor(tick(10), "after manual runs")
		e.declareJobs(s, e.take(s, group, bob), report)
		cursor(tick(10), "in the next term")
		e.equal(e.known(group, cleanup).Cursor, tick(20), "cursor of the other job")
	}},

	{"load/open runs are in the order of their ticks", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		want := map[jobs.Key]jobs.Record{}
		var claims []store.Claim
		for _, n := range []int{7, 3, 9, 1} {
			for i, job := range []string{report, cleanup} {
				claims = append(claims, store.Claim{Key: key(job, 2*n+i), State: jobs.Running})
			}
		}
		claims = append(claims,
			store.Claim{Key: key(report, 5), State: jobs.Waiting, Delay: time.Hour},
			store.Claim{Key: key(report, 8), State: jobs.Skipped}, store.Claim{Key: key(report, 4), State: jobs.Running})
		claimed := e.claim(s, h, newID(), claims...)
		for _, c := range claimed[:9] {
			want[c.Key] = c.Record
		}
		e.moved(s, h, to(jobs.Failed, claimed[10].Record))
		open := e.load(group).Open
		for _, r := range open {
			e.same(r, want[r.Key], "open run")
		}
		e.equal(len(open), len(want), "open runs")
		if !slices.IsSortedFunc(open, func(a, b jobs.Record) int { return a.Tick.Compare(b.Tick) }) {
			e.Errorf("open runs are not in the order of their ticks: %v", open)
		}
	}},

	{"load/open runs of older terms and of undeclared jobs", func(e *ledgerEnv) {
		s := e.open()
		r := e.running(s, e.begin(s), key(report, 1))
		e.declareJobs(s, e.take(s, group, bob), cleanup)
		open := e.load(group).Open
		if len(open) != 1 || open[0] != r {
			e.Errorf("open runs %v, want that of the term before", open)
		}
	}},

	{"load/when a run was last started", func(e *ledgerEnv) {
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
		second := e.waiting(s, h, key(report, 3))
		first := e.running(s, h, key(report, 4))
		started(first.Started, "beside the first run")
		e.later()
		second = e.moved(s, h, to(jobs.Running, second))
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
		e.prune(s, report, jobs.History{For: noTime}, 0)
		e.absent(group, manual.Key, "after pruning")
		e.declareJobs(s, e.take(s, group, bob), report)
		started(manual.Started, "in the next term, after the run is deleted")
	}},

	{"load/when the last of runs that end together was started", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for round, order := range [][]int{{1, 3, 2}, {3, 1, 2}, {1, 2, 3}, {3, 2, 1}} {
			var moves []store.Move
			var last jobs.Record
			var waiting []jobs.Record
			for n := range 3 {
				waiting = append(waiting, e.waiting(s, h, key(report, 10*round+n+1)))
			}
			for _, n := range order {
				e.later()
				last = e.moved(s, h, to(jobs.Running, waiting[n-1]))
				moves = append(moves, to(jobs.Succeeded, last))
			}
			never := e.waiting(s, h, key(report, 10*round+4))
			other := e.running(s, h, key(cleanup, round))
			e.move(s, h, append(moves, to(jobs.Cancelled, never), to(jobs.Failed, other))...)
			e.equal(e.known(group, report).Started, last.Started, "Started")
			e.equal(e.known(group, cleanup).Started, other.Started, "Started of the other job")
		}
	}},

	{"load/when a run last came to its end", func(e *ledgerEnv) {
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
