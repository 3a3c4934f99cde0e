package storetest

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// many are claims of two jobs, neither in the order of ticks nor of jobs.
func many(n int, states ...jobs.State) []store.Claim {
	claims := make([]store.Claim, n)
	for i := range claims {
		mixed := (i*37 + 11) % n // 37 and n have no common factor
		claims[i] = store.Claim{Key: key([]string{report, cleanup}[mixed%2], mixed), State: states[i%len(states)], Missed: i}
	}
	return claims
}

// refusal says that a claim was refused and left no row.
func (e *ledgerEnv) refusal(c store.Claimed, k jobs.Key, what string) {
	e.Helper()
	if want := (store.Claimed{Record: jobs.Record{Key: k}}); c != want || !c.Refused() {
		e.Errorf("%s: the claim was answered by mine %t, %s, want it refused", what, c.Mine, showRecord(c.Record))
	}
}

var claimCases = []ledgerCase{
	{"claim/a tick to run", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		before := e.now()
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Running, Missed: 3, Error: "late"})
		e.between(r.Claimed, before, "Claimed")
		e.between(r.Started, before, "Started")
		e.same(r, jobs.Record{
			Key: key(report, 1), State: jobs.Running, Owner: alice, Token: h.Token, Attempt: 1,
			Claimed: r.Claimed, Started: r.Started, Due: r.Due, Missed: 3, Error: "late",
		}, "a claim to run")
		e.unchanged(r, "read back")
	}},

	{"claim/a tick that waits", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for n, delay := range []time.Duration{0, 90 * time.Minute, 1500 * time.Microsecond, 1500 * time.Nanosecond} {
			before := e.now()
			r := e.mine(s, h, store.Claim{Key: key(report, n), State: jobs.Waiting, Delay: delay, Missed: 2, Error: "overlap"})
			e.between(r.Claimed, before, "Claimed")
			e.betweenPlus(r.Due, before, delay.Truncate(time.Microsecond), "Due")
			e.same(r, jobs.Record{
				Key: key(report, n), State: jobs.Waiting, Owner: alice, Token: h.Token,
				Claimed: r.Claimed, Due: r.Due, Missed: 2, Error: "overlap",
			}, "a claim that waits")
			e.unchanged(r, "read back")
		}
	}},

	{"claim/a tick that is skipped", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		before := e.now()
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Skipped, Missed: 1000, Error: "paused"})
		e.between(r.Claimed, before, "Claimed")
		e.between(r.Finished, before, "Finished")
		e.same(r, jobs.Record{
			Key: key(report, 1), State: jobs.Skipped, Owner: alice, Token: h.Token,
			Claimed: r.Claimed, Finished: r.Finished, Due: r.Due, Missed: 1000, Error: "paused",
		}, "a claim that skips")
		e.unchanged(r, "read back")
	}},

	{"claim/no other state", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for n, state := range []jobs.State{0, jobs.Succeeded, jobs.Failed, jobs.Cancelled, jobs.Interrupted, jobs.Interrupted + 1} {
			if _, err := s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: key(report, n), State: state}}); err == nil {
				e.Errorf("Claim as %v: no error, want one: a tick is claimed as running, waiting or skipped", state)
			}
			e.absent(group, key(report, n), "after a claim as "+state.String())
		}
	}},

	{"claim/none", func(e *ledgerEnv) {
		s := e.open()
		e.claim(s, e.begin(s), newID())
		e.equal(e.count(group), 0, "runs")
	}},

	{"claim/the same call again", func(e *ledgerEnv) {
		s := e.open()
		h, id := e.begin(s), newID()
		claims := []store.Claim{{Key: key(report, 1), State: jobs.Running}, {Key: key(report, 2), State: jobs.Waiting}}
		first := e.claim(s, h, id, claims...)
		e.later()
		for i, c := range e.claim(e.open(), h, id, claims...) {
			e.equal(c, first[i], "the same call again, by another connection")
		}
		over := e.moved(s, h, to(jobs.Succeeded, first[0].Record))
		again := e.claim(s, h, id, claims...)
		e.equal(again[0], store.Claimed{Mine: true, Record: over}, "the same call again, after the run is over")
		e.equal(again[1], first[1], "its other claim")
		next := e.take(s, group, bob)
		taken := e.moved(s, next, to(jobs.Running, first[1].Record))
		again = e.claim(s, h, id, claims...)
		e.equal(again[1], store.Claimed{Mine: true, Record: taken}, "the same call again, after the next term took the run over")
		e.equal(e.count(group), 2, "runs")
	}},

	{"claim/a part of the same call again", func(e *ledgerEnv) {
		s := e.open()
		h, id, all := e.begin(s), newID(), many(10, jobs.Running, jobs.Waiting, jobs.Skipped)
		first := e.claim(s, h, id, all...)
		for i, c := range e.claim(s, h, id, all[3:7]...) {
			if !c.Mine {
				e.Errorf("%v is not mine when a part of the call is repeated", c.Key)
			}
			e.same(c.Record, first[3+i].Record, "claimed with a part of the call")
		}
	}},

	{"claim/a skipped tick is no end of a run", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Skipped})
		if k := e.known(group, report); !k.Finished.IsZero() {
			e.Errorf("the job's Finished is %v after a claim as skipped", k.Finished)
		}
	}},

	{"claim/another's tick comes back as it is", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Running, Missed: 4, Error: "late"})
		e.later()
		c := store.Claim{Key: r.Key, State: jobs.Skipped, Missed: 9, Error: "paused"}
		e.equal(e.claim(s, h, newID(), c)[0], store.Claimed{Record: r}, "another call of the same term")
		e.equal(e.claim(s, h, store.ClaimID{}, c)[0], store.Claimed{Record: r}, "another call with an empty id")
		over := e.moved(s, h, to(jobs.Panicked, r))
		next := e.take(s, group, bob)
		e.equal(e.claim(s, next, newID(), c)[0], store.Claimed{Record: over}, "a call of the next term")
		e.unchanged(over, "after others claimed it")
	}},

	{"claim/some are there already", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		var were []jobs.Record
		for _, n := range []int{1, 3, 5} {
			were = append(were, e.running(s, h, key(report, n)))
		}
		var claims []store.Claim
		for n := range 9 {
			claims = append(claims, store.Claim{Key: key(report, n), State: jobs.Waiting, Missed: n})
		}
		for n, c := range e.claim(s, e.take(s, group, bob), newID(), claims...) {
			e.equal(c.Mine, n > 5, "Mine")
			switch {
			case n > 5:
				e.equal(c.Owner, bob, "owner of a new run")
				e.equal(c.Missed, n, "Missed of a new run")
				e.unchanged(c.Record, "read back")
			case n%2 == 1:
				e.same(c.Record, were[n/2], "a run that was there")
				e.unchanged(c.Record, "read back")
			default:
				e.refusal(c, key(report, n), "a tick before the newest")
			}
		}
		e.equal(e.count(group), 6, "runs")
	}},

	{"claim/only ticks later than the newest", func(e *ledgerEnv) {
		s := e.open()
		h, id := e.begin(s), newID()
		claims := []store.Claim{{Key: key(report, 0), State: jobs.Running}, {Key: key(report, 1), State: jobs.Waiting}, {Key: key(report, 2), State: jobs.Skipped}}
		for _, c := range e.claim(s, h, id, claims...)[:2] {
			e.moved(s, h, to(jobs.Succeeded, c.Record))
		}
		e.over(s, h, cleanup, 9)
		for n := 3; n < 9; n++ {
			e.moved(s, h, to(jobs.Succeeded, e.running(s, h, key(report, n))))
		}
		manual := e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(20), Trigger: 1}, State: jobs.Running})
		e.moved(s, h, to(jobs.Succeeded, manual))
		e.prune(s, report, jobs.History{Keep: 3}, 0)
		e.left(report, "keep 3", 7, 8, 20)

		// A statement that arrives after its rows were run and pruned, and others
		// for what never was there.
		for _, call := range []store.ClaimID{id, newID()} {
			for i, c := range e.claim(s, h, call, claims...) {
				e.refusal(c, claims[i].Key, "a tick that was run and pruned")
			}
		}
		between := jobs.Key{Job: report, Tick: tick(8).Add(-time.Microsecond)}
		e.refusal(e.claim(s, h, newID(), store.Claim{Key: between, State: jobs.Skipped})[0], between, "a tick just before the newest")
		e.equal(len(e.load(group).Open), 0, "open runs")
		e.left(report, "after claims that came late", 7, 8, 20)

		e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(1), Trigger: 1}, State: jobs.Running})
		later := jobs.Key{Job: report, Tick: tick(8).Add(time.Microsecond)}
		e.running(s, h, later)
		e.equal(e.known(group, report).Cursor, later.Tick, "cursor")
	}},

	{"claim/after a tick that is gone", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		after := func(n, after int, state jobs.State) store.Claim {
			return store.Claim{Key: key(report, n), State: state, After: tick(after)}
		}
		refuse := func(c store.Claim, what string) {
			e.Helper()
			e.refusal(e.claim(s, h, newID(), c)[0], c.Key, what)
			e.absent(group, c.Key, what)
		}
		e.running(s, h, key(cleanup, 5)) // of another job
		e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(5), Trigger: 1}, State: jobs.Running})
		refuse(after(2, 1, jobs.Running), "a job without ticks")
		e.running(s, h, key(report, 3))
		for _, state := range []jobs.State{jobs.Running, jobs.Waiting, jobs.Skipped} {
			refuse(after(6, 5, state), "a ledger with earlier ticks only")
		}
		just := after(6, 3, jobs.Running)
		just.After = just.After.Add(time.Microsecond)
		refuse(just, "a ledger whose newest tick is a microsecond earlier")
		manual := after(7, 5, jobs.Running)
		manual.Trigger = 1
		e.mine(s, h, manual)

		id := newID()
		both := []store.Claim{after(6, 3, jobs.Running), after(7, 3, jobs.Skipped)}
		first := e.claim(s, h, id, both...)
		for i, c := range e.claim(s, h, id, both...) {
			e.equal(c.Mine, true, "Mine after the newest tick")
			e.equal(c, first[i], "the same call again")
		}
		e.mine(s, h, after(8, 6, jobs.Skipped)) // the ledger has a later one, too
		e.equal(e.known(group, report).Cursor, tick(8), "cursor")
	}},

	{"claim/while it is paused", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		n := 0
		claim := func(h store.Holder, job string, state jobs.State, trigger uint64) store.Claimed {
			e.Helper()
			n++
			k := key(job, n)
			k.Trigger = trigger
			return e.claim(s, h, newID(), store.Claim{Key: k, State: state})[0]
		}
		check := func(job string, paused bool, what string) {
			e.Helper()
			for _, state := range []jobs.State{jobs.Running, jobs.Waiting} {
				if c := claim(h, job, state, 0); paused {
					e.refusal(c, key(job, n), what)
					e.absent(group, c.Key, what)
				} else if !c.Mine {
					e.Errorf("%s: a claim of a job that is not paused is not mine: %s", what, showRecord(c.Record))
				}
			}
			for _, c := range []store.Claimed{claim(h, job, jobs.Skipped, 0), claim(h, job, jobs.Running, 1), claim(h, job, jobs.Waiting, 2)} {
				if !c.Mine {
					e.Errorf("%s: a claim as skipped, or of a manual run, is not mine: %s", what, showRecord(c.Record))
				}
			}
		}
		check(report, false, "before the pause")
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		check(report, true, "a paused job")
		check(cleanup, false, "beside a paused job")
		if !claim(other, report, jobs.Running, 0).Mine {
			e.Errorf("a claim of another group's job is refused")
		}
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
		check(cleanup, true, "a paused group")
		if !claim(other, report, jobs.Running, 0).Mine {
			e.Errorf("a claim of another group is refused")
		}
		e.ok(s.Resume(e.ctx(), group, report), "Resume")
		check(report, true, "a paused group, after Resume of the job")
		e.ok(s.Resume(e.ctx(), group, ""), "Resume of the group")
		check(report, false, "after Resume")
		check(cleanup, false, "after Resume of the group")

		// Beside each other in one call, and again.
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		id := newID()
		claims := []store.Claim{{Key: key(cleanup, 1000), State: jobs.Running}, {Key: key(report, 1000), State: jobs.Running}, {Key: key(report, 999), State: jobs.Skipped}}
		for range 2 {
			got := e.claim(s, h, id, claims...)
			e.equal(got[0].Mine, true, "Mine of a job that is not paused")
			e.refusal(got[1], claims[1].Key, "a paused job in a call of many")
			e.equal(got[2].Mine, true, "Mine of a skipped tick")
		}
		e.ok(s.Resume(e.ctx(), group, report), "Resume")
		if c := e.claim(s, h, id, claims...)[1]; !c.Mine {
			e.Errorf("the same call after Resume: %s", showRecord(c.Record))
		}
	}},

	{"claim/manual runs beside a scheduled one of the same instant", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		var claims []store.Claim
		for _, trigger := range []uint64{2, 0, 1, 1 << 40} {
			claims = append(claims, store.Claim{Key: jobs.Key{Job: report, Tick: tick(1), Trigger: trigger}, State: jobs.Running})
		}
		for _, c := range claims { // each in a call of its own: they do not hide each other
			e.mine(s, h, c)
		}
		scheduled := e.record(group, key(report, 1))
		for _, c := range claims {
			if c.Trigger != 0 {
				r := e.record(group, c.Key)
				e.moved(s, h, to(jobs.Succeeded, r))
			}
		}
		e.unchanged(scheduled, "after the manual runs are over")
		e.equal(e.count(group), len(claims), "runs")
	}},

	{"claim/the same tick of two groups", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		e.equal(e.known(otherOne, report).Cursor, time.Time{}, "cursor of the other group's job")
		e.equal(len(e.load(otherOne).Open), 0, "open runs of the other group")
		e.equal(e.count(otherOne), 0, "runs of the other group")
		theirs := e.waiting(s, other, key(report, 1))
		e.moved(s, other, to(jobs.Interrupted, theirs))
		e.unchanged(r, "after the other group's run is over")
		e.equal(e.known(group, report).Finished, time.Time{}, "Finished of this group's job")
	}},

	{"claim/a renewed lease is the same term", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		rs, err := s.Read(e.ctx(), group)
		e.ok(err, "Read")
		n, err := s.Renew(e.ctx(), ledgerRenewal(h, rs[0].Lease.Heartbeat))
		if err != nil || n != 1 {
			e.Fatalf("Renew: %d renewed, error %v", n, err)
		}
		r := e.running(s, h, key(report, 1))
		e.ok(s.AskResign(e.ctx(), group, h.Token), "AskResign")
		e.moved(s, h, to(jobs.Succeeded, r))
	}},
}
