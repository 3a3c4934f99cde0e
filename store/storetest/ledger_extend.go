package storetest

import (
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

const busy = "an earlier run has not finished"

// skips claims a tick as skipped, for the row of another one.
func skips(job string, n, extends, missed int) store.Claim {
	return store.Claim{Key: key(job, n), State: jobs.Skipped, Missed: missed, Error: busy, Extends: tick(extends)}
}

// inserted says that a claim got a row of its own, and that the row which it was to
// extend is as it was.
func (e *ledgerEnv) inserted(s store.Jobs, h store.Holder, c store.Claim, was jobs.Record, what string) {
	e.Helper()
	r := e.mine(s, h, c)
	e.equal(r.Missed, c.Missed, "Missed of a row of its own: "+what)
	e.unchanged(was, what)
}

var extendCases = []ledgerCase{
	{"extend/skipped ticks are one row", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		first, second, third := newID(), newID(), newID()
		was := e.claim(s, h, first, store.Claim{Key: key(report, 1), State: jobs.Skipped, Missed: 2, Error: busy})[0].Record
		e.later()
		before := e.now()
		c := skips(report, 3, 1, 4)
		r := e.claim(s, h, second, c)[0]
		e.equal(r.Mine, true, "Mine of a claim that extends a row")
		e.between(r.Finished, before, "Finished")
		want := was
		want.Key, want.Missed, want.Finished = key(report, 3), 7, r.Finished
		e.same(r.Record, want, "a row that was extended")
		e.unchanged(r.Record, "read back")
		e.absent(group, key(report, 1), "after its row was extended")
		e.equal(e.count(group), 1, "runs")
		e.equal(e.known(group, report).Cursor, tick(3), "cursor")

		e.later()
		e.equal(e.claim(e.open(), h, second, c)[0], r, "the same call again, by another connection")
		e.equal(e.claim(s, h, newID(), c)[0], store.Claimed{Record: r.Record}, "another call")
		e.refusal(e.claim(s, h, first, store.Claim{Key: key(report, 1), State: jobs.Skipped, Missed: 2, Error: busy})[0], key(report, 1), "the first call, late")
		e.refusal(e.claim(s, h, newID(), skips(report, 2, 1, 0))[0], key(report, 2), "a tick that the row counts")
		e.unchanged(r.Record, "after calls that came late")

		last := e.claim(s, h, third, skips(report, 4, 3, 0))[0].Record
		e.equal(last.Missed, 8, "Missed of a row that was extended twice")
		e.refusal(e.claim(s, h, second, c)[0], c.Key, "the call before, late")
		e.refusal(e.claim(s, h, newID(), skips(report, 2, 4, 0))[0], key(report, 2), "an earlier tick")
		e.unchanged(last, "after the call before came late")
		e.equal(e.count(group), 1, "runs")
		e.equal(e.known(group, report).Cursor, tick(4), "cursor")
		e.running(s, h, key(report, 5))
		e.unchanged(last, "after the next tick")
	}},

	{"extend/only the newest row of the same reason", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		skip := func(n int) jobs.Record {
			return e.mine(s, h, store.Claim{Key: key(report, n), State: jobs.Skipped, Missed: 1, Error: busy})
		}
		was := skip(0)
		other := skips(report, 1, 0, 1)
		other.Error = "paused"
		e.inserted(s, h, other, was, "another reason")
		was = skip(2)
		for i, state := range []jobs.State{jobs.Running, jobs.Waiting} {
			c := skips(report, 3+2*i, 2+2*i, 1)
			c.State = state
			e.inserted(s, h, c, was, "a claim as "+state.String())
			was = skip(4 + 2*i)
		}
		manual := skips(report, 7, 6, 1)
		manual.Trigger = 1
		e.inserted(s, h, manual, was, "a manual run")
		e.inserted(s, h, store.Claim{Key: key(report, 8), State: jobs.Skipped, Missed: 1, Error: busy}, was, "a claim that extends nothing")
		e.inserted(s, h, skips(report, 9, 6, 1), was, "a row that is not the newest")
		run := e.running(s, h, key(report, 10))
		e.inserted(s, h, skips(report, 11, 10, 1), run, "a run")
		over := e.running(s, h, key(report, 12))
		over = e.moved(s, h, store.Move{Key: over.Key, From: over.State, Attempt: over.Attempt, Owner: over.Owner, Token: over.Token, To: jobs.Failed, Error: busy})
		e.inserted(s, h, skips(report, 13, 12, 1), over, "a run that failed for it")
		e.inserted(s, h, skips(report, 15, 14, 1), e.record(group, key(report, 13)), "a tick without a row")
		was = e.record(group, key(report, 15))
		e.inserted(s, h, skips(cleanup, 16, 15, 1), was, "another job's row")
	}},

	{"extend/only the holder's row", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		was := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Skipped, Error: busy})
		next := e.take(s, group, bob)
		_, err := s.Claim(e.ctx(), h, newID(), []store.Claim{skips(report, 2, 1, 0)})
		e.is(err, store.ErrReplaced, "Claim of a holder that was replaced")
		e.unchanged(was, "after a claim of a holder that was replaced")
		e.inserted(s, next, skips(report, 2, 1, 0), was, "a row of the term before")
		was = e.record(group, key(report, 2))
		again := e.take(s, group, bob)
		e.inserted(s, again, skips(report, 3, 2, 0), was, "a row of an earlier term of the same owner")
		other := e.take(s, otherOne, bob)
		e.declareJobs(s, other, report)
		e.inserted(s, other, skips(report, 4, 3, 0), e.record(group, key(report, 3)), "a row of another group")
	}},
}
