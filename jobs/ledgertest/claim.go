package ledgertest

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// many are claims of two jobs, neither in the order of ticks nor of jobs.
func many(n int, states ...jobs.State) []jobs.Claim {
	claims := make([]jobs.Claim, n)
	for i := range claims {
		mixed := (i*37 + 11) % n // 37 and n have no common factor
		claims[i] = jobs.Claim{Key: key([]string{report, cleanup}[mixed%2], mixed), State: states[i%len(states)], Missed: i}
	}
	return claims
}

var claimCases = []testCase{
	{"claim/a tick to run", func(e *env) {
		s := e.open()
		h := e.begin(s)
		before := e.now()
		r := e.mine(s, h, jobs.Claim{Key: key(report, 1), State: jobs.Running, Missed: 3, Error: "late"})
		e.between(r.Claimed, before, "Claimed")
		e.between(r.Started, before, "Started")
		e.same(r, jobs.Record{
			Key: key(report, 1), State: jobs.Running, Owner: alice, Token: h.Token, Attempt: 1,
			Claimed: r.Claimed, Started: r.Started, Due: r.Due, Missed: 3, Error: "late",
		}, "a claim to run")
		e.unchanged(r, "read back")
	}},

	{"claim/a tick that waits", func(e *env) {
		s := e.open()
		h := e.begin(s)
		for n, delay := range []time.Duration{0, 90 * time.Minute, 1500 * time.Microsecond, 1500 * time.Nanosecond} {
			before := e.now()
			r := e.mine(s, h, jobs.Claim{Key: key(report, n), State: jobs.Waiting, Delay: delay, Missed: 2, Error: "overlap"})
			e.between(r.Claimed, before, "Claimed")
			e.betweenPlus(r.Due, before, delay.Truncate(time.Microsecond), "Due")
			e.same(r, jobs.Record{
				Key: key(report, n), State: jobs.Waiting, Owner: alice, Token: h.Token,
				Claimed: r.Claimed, Due: r.Due, Missed: 2, Error: "overlap",
			}, "a claim that waits")
			e.unchanged(r, "read back")
		}
	}},

	{"claim/a tick that is skipped", func(e *env) {
		s := e.open()
		h := e.begin(s)
		before := e.now()
		r := e.mine(s, h, jobs.Claim{Key: key(report, 1), State: jobs.Skipped, Missed: 1000, Error: "paused"})
		e.between(r.Claimed, before, "Claimed")
		e.between(r.Finished, before, "Finished")
		e.same(r, jobs.Record{
			Key: key(report, 1), State: jobs.Skipped, Owner: alice, Token: h.Token,
			Claimed: r.Claimed, Finished: r.Finished, Due: r.Due, Missed: 1000, Error: "paused",
		}, "a claim that skips")
		e.unchanged(r, "read back")
	}},

	{"claim/none", func(e *env) {
		s := e.open()
		e.claim(s, e.begin(s), newID())
		e.equal(e.count(group), 0, "runs")
	}},

	{"claim/a thousand in one call", func(e *env) {
		s := e.open()
		h, id := e.begin(s), newID()
		claims := many(1000, jobs.Running, jobs.Waiting, jobs.Skipped)
		first := e.claim(s, h, id, claims...)
		for i, c := range first {
			if !c.Mine || c.State != claims[i].State || c.Missed != claims[i].Missed {
				e.Fatalf("claim %d of %v in state %v, missed %d: mine %t, %s", i, claims[i].Key, claims[i].State, claims[i].Missed, c.Mine, show(c.Record))
			}
		}
		e.equal(e.count(group), len(claims), "runs")
		stored := map[jobs.Key]jobs.Record{}
		for _, r := range e.runs(group, jobs.Filter{Limit: all}) {
			stored[r.Key] = r
		}
		again, others := e.claim(s, h, id, claims...), e.claim(s, h, newID(), claims...)
		for i, c := range first {
			e.same(stored[c.Key], c.Record, "read back")
			e.equal(again[i], c, "the same call again")
			e.equal(others[i], jobs.Claimed{Record: c.Record}, "another call")
		}
	}},

	{"claim/the same call again", func(e *env) {
		s := e.open()
		h, id := e.begin(s), newID()
		claims := []jobs.Claim{{Key: key(report, 1), State: jobs.Running}, {Key: key(report, 2), State: jobs.Waiting}}
		first := e.claim(s, h, id, claims...)
		e.later()
		for i, c := range e.claim(e.open(), h, id, claims...) {
			e.equal(c, first[i], "the same call again, by another connection")
		}
		over := e.moved(s, h, to(jobs.Succeeded, first[0].Record))
		again := e.claim(s, h, id, claims...)
		e.equal(again[0], jobs.Claimed{Mine: true, Record: over}, "the same call again, after the run is over")
		e.equal(again[1], first[1], "its other claim")
		next := e.take(s, group, bob)
		taken := e.moved(s, next, to(jobs.Running, first[1].Record))
		again = e.claim(s, h, id, claims...)
		e.equal(again[1], jobs.Claimed{Mine: true, Record: taken}, "the same call again, after the next term took the run over")
		e.equal(e.count(group), 2, "runs")
	}},

	{"claim/another's tick comes back as it is", func(e *env) {
		s := e.open()
		h := e.begin(s)
		r := e.mine(s, h, jobs.Claim{Key: key(report, 1), State: jobs.Running, Missed: 4, Error: "late"})
		e.later()
		c := jobs.Claim{Key: r.Key, State: jobs.Skipped, Missed: 9, Error: "paused"}
		e.equal(e.claim(s, h, newID(), c)[0], jobs.Claimed{Record: r}, "another call of the same term")
		e.equal(e.claim(s, h, jobs.ClaimID{}, c)[0], jobs.Claimed{Record: r}, "another call with an empty id")
		over := e.moved(s, h, to(jobs.Panicked, r))
		next := e.take(s, group, bob)
		e.equal(e.claim(s, next, newID(), c)[0], jobs.Claimed{Record: over}, "a call of the next term")
		e.unchanged(over, "after others claimed it")
	}},

	{"claim/some are there already", func(e *env) {
		s := e.open()
		h := e.begin(s)
		var were []jobs.Record
		for _, n := range []int{1, 3, 5} {
			were = append(were, e.running(s, h, key(report, n)))
		}
		var claims []jobs.Claim
		for n := range 7 {
			claims = append(claims, jobs.Claim{Key: key(report, n), State: jobs.Waiting, Missed: n})
		}
		for n, c := range e.claim(s, e.take(s, group, bob), newID(), claims...) {
			e.equal(c.Mine, n%2 == 0, "Mine")
			if n%2 == 1 {
				e.same(c.Record, were[n/2], "a run that was there")
			} else {
				e.equal(c.Owner, bob, "owner of a new run")
				e.equal(c.Missed, n, "Missed of a new run")
			}
			e.unchanged(c.Record, "read back")
		}
		e.equal(e.count(group), 7, "runs")
	}},

	{"claim/manual runs beside a scheduled one of the same instant", func(e *env) {
		s := e.open()
		h := e.begin(s)
		var claims []jobs.Claim
		for _, trigger := range []uint64{2, 0, 1, 1 << 40} {
			claims = append(claims, jobs.Claim{Key: jobs.Key{Job: report, Tick: tick(1), Trigger: trigger}, State: jobs.Running})
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

	{"claim/the same tick of two groups", func(e *env) {
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

	{"claim/a renewed lease is the same term", func(e *env) {
		s := e.open()
		h := e.begin(s)
		rs, err := s.Read(e.ctx(), group)
		e.ok(err, "Read")
		n, err := s.Renew(e.ctx(), renewal(h, rs[0].Lease.Heartbeat))
		if err != nil || n != 1 {
			e.Fatalf("Renew: %d renewed, error %v", n, err)
		}
		r := e.running(s, h, key(report, 1))
		e.ok(s.AskResign(e.ctx(), group, h.Token), "AskResign")
		e.moved(s, h, to(jobs.Succeeded, r))
	}},
}
