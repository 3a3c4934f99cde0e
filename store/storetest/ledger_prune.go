package storetest

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// noTime is the age of a history in which every run is old as soon as the clock has moved.
const noTime = time.Microsecond

func (e *ledgerEnv) prune(s store.Jobs, job string, h jobs.History, batch int) int {
	e.Helper()
	n, err := s.Prune(e.ctx(), group, job, h, batch)
	e.ok(err, "Prune")
	return n
}

// over claims n ticks of a job, and brings them to their end.
func (e *ledgerEnv) over(s store.Jobs, h store.Holder, job string, n int) {
	e.Helper()
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = store.Claim{Key: key(job, i), State: jobs.Running}
	}
	moves := make([]store.Move, n)
	for i, c := range e.claim(s, h, newID(), claims...) {
		moves[i] = to(outcomes[i%len(outcomes)], c.Record)
	}
	if slices.Contains(e.move(s, h, moves...), false) {
		e.Fatalf("Move of %d runs to their end did not move all", n)
	}
}

// besides fills groups before and behind the case's with fewer and more runs of the same jobs.
func (e *ledgerEnv) besides(s store.Jobs) {
	e.Helper()
	for name, n := range map[string]int{"a" + group: 2, "z" + group: 30} {
		h := e.take(s, name, alice)
		e.over(s, h, report, n)
		e.over(s, h, cleanup, n)
	}
}

// left says which ticks of a job are there.
func (e *ledgerEnv) left(job, what string, want ...int) {
	e.Helper()
	var got []int
	for _, r := range e.runs(group, jobs.Filter{Job: job, Limit: all}) {
		got = append(got, int(r.Tick.Sub(tick(0))/time.Minute))
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		e.Errorf("%s: ticks %v are left, want %v", what, got, want)
	}
}

var ledgerPruneCases = []ledgerCase{
	{"prune/so many are kept", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.besides(s)
		e.over(s, h, report, 10)
		e.over(s, h, cleanup, 3)
		e.equal(e.prune(s, report, jobs.History{Keep: 10}, 0), 0, "deleted, to keep all")
		e.equal(e.prune(s, report, jobs.History{Keep: 4}, 0), 6, "deleted, to keep 4 of 10")
		e.left(report, "keep 4", 6, 7, 8, 9)
		e.equal(e.prune(s, report, jobs.History{Keep: 4}, 0), 0, "deleted the second time")
		e.equal(e.prune(s, report, jobs.History{Keep: 1}, 0), 3, "deleted, to keep 1 of 4")
		e.left(report, "keep 1", 9)
		e.left(cleanup, "after another job was pruned", 0, 1, 2)
		e.equal(e.known(group, report).Cursor, tick(9), "cursor")
	}},

	{"prune/for so long they are kept", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.besides(s)
		e.over(s, h, report, 5)
		e.over(s, h, cleanup, 2)
		e.later()
		e.equal(e.prune(s, report, jobs.History{For: time.Hour}, 0), 0, "deleted, to keep them for an hour")
		e.later()
		e.equal(e.prune(s, report, jobs.History{For: noTime}, 0), 4, "deleted of what is old")
		e.left(report, "keep them for a moment", 4)
		e.left(cleanup, "after another job was pruned", 0, 1)
		e.equal(e.known(group, report).Cursor, tick(4), "cursor")
	}},

	{"prune/either bound deletes", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.over(s, h, report, 6)
		e.over(s, h, cleanup, 6)
		e.later()
		e.equal(e.prune(s, report, jobs.History{Keep: 2, For: time.Hour}, 0), 4, "deleted of what is young but many")
		e.left(report, "keep 2 for an hour", 4, 5)
		e.later()
		e.equal(e.prune(s, cleanup, jobs.History{Keep: 100, For: noTime}, 0), 5, "deleted of what is few but old")
		e.left(cleanup, "keep 100 for a moment", 5)
	}},

	{"prune/nothing without a bound", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.over(s, h, report, 5)
		e.later()
		e.equal(e.prune(s, report, jobs.History{}, 0), 0, "deleted")
		e.equal(e.prune(s, "unknown", jobs.History{Keep: 1}, 0), 0, "deleted of a job that there is not")
		e.left(report, "any number, without a time limit", 0, 1, 2, 3, 4)
	}},

	{"prune/the oldest first, a batch at a time", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.besides(s)
		e.over(s, h, report, 10)
		e.equal(e.prune(s, report, jobs.History{Keep: 2}, 3), 3, "deleted in a batch of 3")
		e.left(report, "a batch of 3", 3, 4, 5, 6, 7, 8, 9)
		e.later()
		e.equal(e.prune(s, report, jobs.History{For: noTime}, 2), 2, "deleted in a batch of 2")
		e.left(report, "a batch of 2", 5, 6, 7, 8, 9)
		e.equal(e.prune(s, report, jobs.History{Keep: 2}, 3), 3, "deleted in a batch of 3")
		e.equal(e.prune(s, report, jobs.History{Keep: 2}, 3), 0, "deleted in the last batch")
		e.left(report, "all batches", 8, 9)
	}},

	{"prune/never what is not over", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		open := []jobs.Record{e.running(s, h, key(report, 100)), e.waiting(s, h, key(report, 101))}
		for n := 102; n < 110; n++ {
			e.skipped(s, h, key(report, n))
		}
		e.later()
		e.equal(e.prune(s, report, jobs.History{Keep: 3}, 4), 4, "deleted in a batch")
		e.equal(e.prune(s, report, jobs.History{Keep: 3}, 4), 1, "deleted in the next batch")
		e.left(report, "keep 3", 100, 101, 107, 108, 109)
		e.later()
		e.equal(e.prune(s, report, jobs.History{Keep: 1, For: noTime}, 0), 2, "deleted of what is old")
		e.left(report, "keep them for a moment", 100, 101, 109)
		for _, r := range open {
			e.unchanged(r, "after pruning")
		}
	}},

	{"prune/never the newest scheduled tick", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.besides(s)
		e.over(s, h, report, 3)
		for n := range 4 {
			r := e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(10 + n), Trigger: 1}, State: jobs.Running})
			e.moved(s, h, to(jobs.Succeeded, r))
		}
		e.prune(s, report, jobs.History{Keep: 1}, 0)
		e.equal(e.known(group, report).Cursor, tick(2), "cursor after keeping one")
		e.later()
		e.prune(s, report, jobs.History{For: noTime}, 0)
		e.equal(e.known(group, report).Cursor, tick(2), "cursor after keeping them for a moment")
		e.left(report, "keep them for a moment", 2)
	}},

	{"prune/for so long after their end", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		age := 20 * time.Millisecond
		for n := 0; ; n += 2 {
			r := e.running(s, h, key(report, n))
			e.skipped(s, h, key(report, n+1)) // is the newest, and stays
			e.after(r.Claimed, age)
			r = e.moved(s, h, to(jobs.Succeeded, r))
			e.prune(s, report, jobs.History{For: age}, 0)
			if e.now().Sub(r.Finished) >= age {
				age *= 2 // the machine was too slow for the result to count
				continue
			}
			e.unchanged(r, "a run that was claimed long ago and ended just now")
			e.after(r.Finished, age)
			e.prune(s, report, jobs.History{For: age}, 0)
			e.absent(group, r.Key, "after its time")
			return
		}
	}},

	{"prune/manual runs too", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 10))
		e.moved(s, h, to(jobs.Succeeded, r))
		var last jobs.Record
		for n := range 3 {
			r := e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(10), Trigger: uint64(n + 1)}, State: jobs.Running})
			last = e.moved(s, h, to(jobs.Succeeded, r))
		}
		e.later()
		e.equal(e.prune(s, report, jobs.History{For: noTime}, 0), 3, "deleted of the manual runs")
		e.equal(e.known(group, report).Finished, last.Finished, "Finished of the job, after that run is deleted")
		e.absent(group, last.Key, "after pruning")
	}},

	{"prune/only this group", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.over(s, h, report, 5)
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		e.over(s, other, report, 5)
		e.equal(e.prune(s, report, jobs.History{Keep: 1}, 0), 4, "deleted")
		e.equal(e.count(otherOne), 5, "runs of the other group")
	}},
}
