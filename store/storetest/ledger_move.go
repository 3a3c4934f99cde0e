package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var outcomes = []jobs.State{
	jobs.Succeeded, jobs.Failed, jobs.TimedOut, jobs.Cancelled, jobs.Panicked, jobs.Skipped, jobs.Interrupted,
}

var moveCases = []ledgerCase{
	{"move/one that is refused, between others", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		ends, starts := e.waiting(s, h, key(report, 1)), e.waiting(s, h, key("undeclared", 1))
		refused := to(jobs.Running, ends)
		refused.Key = key(cleanup, 9)
		moved := e.move(s, h, to(jobs.Skipped, ends), refused, to(jobs.Running, starts))
		e.equal(fmt.Sprint(moved), "[true false true]", "moves to an end, of a run that there is not, and to a start")
	}},

	{"move/one that changes nothing brings no followers", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.waiting(s, h, key(report, 1))
		m := to(jobs.Waiting, r)
		m.Then = []store.Follower{{Key: jobs.Key{Job: cleanup, Tick: tick(1), Trigger: 1 << 53}}}
		e.equal(e.move(s, h, m)[0], true, "a run that waits under the holder is moved to wait")
		e.absent(group, m.Then[0].Key, "after a move that changed nothing")
	}},

	{"move/the details become those of the move", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		e.equal(r.Details, jobs.Details{}, "the details of a new run")
		for _, d := range []jobs.Details{{Unbegun: 1}, {Unbegun: 7}, {}, {Unbegun: 2}} {
			for _, state := range []jobs.State{jobs.Waiting, jobs.Running} {
				m := to(state, r)
				m.Details = d
				if state == jobs.Running {
					m.Then = []store.Follower{{Key: jobs.Key{Job: cleanup, Tick: tick(d.Unbegun), Trigger: 1 << 53}}}
				}
				r = e.moved(s, h, m)
				e.equal(r.Details, d, "the details of a run that was moved to "+state.String())
				open := e.load(group).Open
				at := slices.IndexFunc(open, func(o jobs.Record) bool { return o.Key == r.Key })
				if at < 0 {
					e.Fatalf("Load does not show %v", r.Key)
				}
				e.same(open[at], r, "in Load")
			}
			e.equal(e.record(group, jobs.Key{Job: cleanup, Tick: tick(d.Unbegun), Trigger: 1 << 53}).Details, jobs.Details{}, "the details of a follower")
		}
		e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
		r.CancelAsked = true
		e.unchanged(r, "after a cancel request")
		end := to(jobs.Cancelled, r)
		end.Details = r.Details
		r = e.moved(s, h, end)
		e.equal(r.Details, jobs.Details{Unbegun: 2}, "the details of a run that is over")
	}},

	{"move/a run comes to its end", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for n, state := range outcomes {
			r := e.mine(s, h, store.Claim{Key: key(report, n), State: jobs.Running, Missed: 2})
			e.later()
			before := e.now()
			m := to(state, r)
			m.Error = "because of " + state.String()
			got := e.moved(s, h, m)
			e.between(got.Finished, before, "Finished")
			r.State, r.Error, r.Finished = state, m.Error, got.Finished
			e.same(got, r, "a run that is over")
		}
		e.equal(len(e.load(group).Open), 0, "open runs")
	}},

	{"move/a waiting run comes to its end", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.waiting(s, h, key(report, 1))
		before := e.now()
		got := e.moved(s, h, to(jobs.Cancelled, r))
		e.between(got.Finished, before, "Finished")
		r.State, r.Finished = jobs.Cancelled, got.Finished
		e.same(got, r, "a run that was never started")
	}},

	{"move/a run is tried again", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Running, Missed: 2})
		for attempt := 1; attempt < 4; attempt++ {
			e.later()
			before := e.now()
			m := to(jobs.Waiting, r)
			m.Delay, m.Error = time.Duration(attempt)*time.Hour, fmt.Sprint("failure ", attempt)
			got := e.moved(s, h, m)
			e.betweenPlus(got.Due, before, m.Delay, "Due")
			r.State, r.Due, r.Error = jobs.Waiting, got.Due, m.Error
			e.same(got, r, "a run that waits for its next attempt")

			e.later()
			before = e.now()
			got = e.moved(s, h, to(jobs.Running, r))
			e.between(got.Started, before, "Started")
			r.State, r.Attempt, r.Started, r.Due, r.Error = jobs.Running, attempt+1, got.Started, got.Due, ""
			e.same(got, r, "the next attempt")
		}
		got := e.moved(s, h, to(jobs.Succeeded, r))
		e.equal(got.Attempt, 4, "Attempt of a run that is over")
		e.equal(got.Started, r.Started, "Started of a run that is over")
	}},

	{"move/a manual run is taken up", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.record(group, e.trigger(s, report))
		before := e.now()
		got := e.moved(s, h, to(jobs.Running, r))
		e.between(got.Started, before, "Started")
		r.State, r.Owner, r.Token, r.Attempt, r.Started, r.Due = jobs.Running, alice, h.Token, 1, got.Started, got.Due
		e.same(got, r, "a manual run that is running")
	}},

	{"move/the next term takes over", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		left, waits, dead := e.running(s, h, key(report, 1)), e.waiting(s, h, key(report, 2)), e.running(s, h, key(report, 3))
		next := e.take(s, group, bob)
		rerun := to(jobs.Running, left)
		got := e.moved(s, next, rerun)
		e.equal(e.move(s, next, rerun)[0], true, "the same rerun again")
		e.unchanged(got, "after the same rerun again")
		left.Owner, left.Token, left.Attempt, left.Started, left.Due = bob, next.Token, 2, got.Started, got.Due
		e.same(got, left, "a run that is run again")
		got = e.moved(s, next, to(jobs.Running, waits))
		waits.State, waits.Owner, waits.Token, waits.Attempt, waits.Started, waits.Due = jobs.Running, bob, next.Token, 1, got.Started, got.Due
		e.same(got, waits, "a waiting run that is started")
		got = e.moved(s, next, to(jobs.Interrupted, dead))
		dead.State, dead.Owner, dead.Token, dead.Finished = jobs.Interrupted, bob, next.Token, got.Finished
		e.same(got, dead, "a run that is not run again")
	}},

	{"move/compares the state", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		running, waiting := e.running(s, h, key(report, 1)), e.waiting(s, h, key(report, 2))
		m := to(jobs.Succeeded, running)
		m.From = jobs.Waiting
		e.refused(s, h, m, "a running run, expected waiting")
		m = to(jobs.Cancelled, waiting)
		m.From = jobs.Running
		e.refused(s, h, m, "a waiting run, expected running")
	}},

	{"move/compares the attempt", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		r = e.moved(s, h, to(jobs.Waiting, r))
		r = e.moved(s, h, to(jobs.Running, r))
		for _, attempt := range []int{0, 1, 3} {
			m := to(jobs.Failed, r)
			m.Attempt = attempt
			e.refused(s, h, m, fmt.Sprintf("attempt 2, expected %d", attempt))
		}
	}},

	{"move/compares the owner", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		manual := e.record(group, e.trigger(s, report))
		for _, owner := range []string{bob, aliceUpper, aliceLonger, alice[:len(alice)-1], ""} {
			m := to(jobs.Succeeded, r)
			m.Owner = owner
			e.refused(s, h, m, "a run of "+alice+", expected of "+owner)
		}
		m := to(jobs.Running, manual)
		m.Owner = alice
		e.refused(s, h, m, "a run without an owner, expected of "+alice)
	}},

	{"move/compares the token", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		for _, token := range []uint64{h.Token - 1, h.Token + 1, 0} {
			m := to(jobs.Succeeded, r)
			m.Token = token
			e.refused(s, h, m, fmt.Sprintf("a run of term %d, expected of %d", h.Token, token))
		}
		// The same owner's next term.
		next := e.take(s, group, alice)
		m := to(jobs.Interrupted, r)
		m.Token = next.Token
		e.refused(s, next, m, "a run of the owner's term before, expected of this one")
	}},

	{"move/compares the key", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		beside := []jobs.Record{
			e.running(s, h, key(cleanup, 1)), e.running(s, h, key(report, 2)),
			e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(1), Trigger: 1}, State: jobs.Running}),
		}
		for _, k := range []jobs.Key{
			key("unknown", 1), key(report, 3), {Job: report, Tick: tick(1), Trigger: 2}, {Job: report, Tick: tick(1).Add(time.Microsecond)},
		} {
			m := to(jobs.Succeeded, r)
			m.Key = k
			e.refused(s, h, m, "a run that there is not")
		}
		over := e.moved(s, h, to(jobs.Succeeded, r))
		for _, other := range beside {
			e.unchanged(other, "after a run beside it is over")
		}
		e.unchanged(over, "after all")
	}},

	{"move/the same again", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		for _, state := range []jobs.State{jobs.Waiting, jobs.Running, jobs.Succeeded} {
			m := to(state, r)
			m.Delay, m.Error = time.Hour, "text"
			r = e.moved(s, h, m)
			e.later()
			e.equal(e.move(e.open(), h, m)[0], true, "the same move again, to "+state.String())
			e.unchanged(r, "after the same move again, to "+state.String())
			e.equal(e.known(group, report).Finished, r.Finished, "Finished of the job")
		}
	}},

	{"move/to wait, of what waits", func(e *ledgerEnv) {
		s := e.open()
		r := e.waiting(s, e.begin(s), key(report, 1))
		next := e.take(s, group, bob)
		m := to(jobs.Waiting, r)
		m.Delay, m.Error = time.Hour, "for the next term"
		before := e.now()
		got := e.moved(s, next, m)
		e.betweenPlus(got.Due, before, time.Hour, "Due")
		r.Owner, r.Token, r.Due, r.Error = bob, next.Token, got.Due, m.Error
		e.same(got, r, "a waiting run that the next term took over")
		for range 2 {
			e.later()
			e.equal(e.move(s, next, m)[0], true, "the same move again")
			e.unchanged(r, "after the same move again")
		}
		m = to(jobs.Waiting, r)
		m.Delay, m.Error = 2*time.Hour, "again"
		for range 2 {
			e.later()
			e.equal(e.move(s, next, m)[0], true, "to wait, of a run that waits for the holder")
			e.unchanged(r, "after that")
		}
		// The owner's next term takes it over as well.
		again := e.take(s, group, bob)
		got = e.moved(s, again, m)
		r.Token, r.Due, r.Error = again.Token, got.Due, m.Error
		e.same(got, r, "a waiting run that the next term of its owner took over")
		e.moved(s, again, to(jobs.Running, r))
	}},

	{"move/the same again, when the run has moved on", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		again := to(jobs.Waiting, r)
		r = e.moved(s, h, again)
		start := to(jobs.Running, r)
		r = e.moved(s, h, start)
		e.refused(s, h, again, "to waiting, which the run was")
		for _, attempt := range []int{0, 2, 5} {
			other := start
			other.Attempt = attempt
			e.refused(s, h, other, "to running, of another attempt")
		}
		finish := to(jobs.Succeeded, r)
		e.moved(s, h, finish)
		e.refused(s, h, start, "to running, which the run was")
		finish.To = jobs.Failed
		e.refused(s, h, finish, "to another end")
	}},

	{"move/the end is the end", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		r = e.moved(s, h, to(jobs.Failed, r))
		skipped := e.skipped(s, h, key(report, 2))
		for _, over := range []jobs.Record{r, skipped} {
			for _, state := range []jobs.State{jobs.Running, jobs.Waiting, jobs.Succeeded} {
				moved, err := s.Move(e.ctx(), h, []store.Move{to(state, over)})
				if err == nil && (len(moved) != 1 || moved[0]) {
					e.Errorf("Move from %v to %v: %v, want an error or false", over.State, state, moved)
				}
				e.unchanged(over, "after a move from its end")
			}
		}
	}},

	{"move/none", func(e *ledgerEnv) {
		s := e.open()
		e.move(s, e.begin(s))
	}},
}
